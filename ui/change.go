package ui

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// change is a kind of change.
type change struct{ Act, Name, Effect, Done string }

// changes are the kinds of changes by their name in forms.
var changes = map[string]change{
	uiapi.Reset: {
		uiapi.Reset, "Reset", "The bucket is deleted with its level, held units and block. The next call finds it empty.",
		"The bucket was reset.",
	},
	uiapi.Block: {
		uiapi.Block, "Block", "Nothing fits for the time that you name. The level stays, and a longer block that the bucket has stays, too.",
		"The bucket was blocked.",
	},
	uiapi.Unblock: {uiapi.Unblock, "Unblock", "The block ends, whoever set it. The level stays.", "The block has ended."},
	uiapi.Drain:   {uiapi.Drain, "Drain", "Units are taken out, down to a level of zero.", "The units were taken out."},
}

// changePage is the page that asks for a change, the first and the second time.
type changePage struct {
	frame
	change
	name
	Encoded              string // the form, and passes through a field unchanged, whatever is in it
	Token, Value, Reason string
}

// The purposes of tokens.
const (
	toChange  = "change"
	toProgram = "program"
)

// change asks for a change the first time.
func (h *Handler) change(w http.ResponseWriter, v *visit) {
	query := v.URL.Query()
	page, f := h.changePage(v, query.Get("act"), query.Get("key"))
	if f == nil && v.access != Act {
		f = onlyLook
	}
	if f != nil {
		h.failed(w, v, f)
		return
	}
	h.render(w, http.StatusOK, "change", page)
}

// changePage returns the page for a change of the bucket that is shown as form.
func (h *Handler) changePage(v *visit, act, form string) (*changePage, *failure) {
	c, found := changes[act]
	if !found {
		return nil, &failure{status: http.StatusNotFound, title: "No such change", detail: "A bucket can be reset, blocked, unblocked and drained."}
	}
	if _, f := h.keyOf(v.Context(), form); f != nil {
		return nil, f
	}
	return &changePage{
		frame: h.frame(c.Name+" a bucket", ""), change: c,
		name: name{humanize.Key(form), form}, Encoded: base64.RawURLEncoding.EncodeToString([]byte(form)),
	}, nil
}

// maxForm is the most bytes of a post.
const maxForm = 1 << 14

// posted reads the fields of a post.
func (h *Handler) posted(w http.ResponseWriter, v *visit) (*changePage, *failure) {
	v.Body = http.MaxBytesReader(w, v.Body, maxForm)
	if err := v.ParseForm(); err != nil {
		return nil, &failure{status: http.StatusBadRequest, title: "Not a form", detail: "The post cannot be read as a form."}
	}
	form, err := base64.RawURLEncoding.DecodeString(v.PostForm.Get("key"))
	if err != nil {
		return nil, &failure{status: http.StatusBadRequest, title: "Not a form", detail: "The key in the post cannot be read."}
	}
	page, f := h.changePage(v, v.PostForm.Get("act"), string(form))
	if f != nil {
		return nil, f
	}
	page.Token = v.PostForm.Get("token")
	page.Value, page.Reason = strings.TrimSpace(v.PostForm.Get("value")), strings.TrimSpace(v.PostForm.Get("reason"))
	return page, nil
}

// confirm asks for a change the second time.
func (h *Handler) confirm(w http.ResponseWriter, v *visit) {
	page, f := h.posted(w, v)
	if f != nil {
		h.failed(w, v, f)
		return
	}
	if _, f := page.wanted(); f != nil {
		page.Problem = f
		h.render(w, f.status, "change", page)
		return
	}
	page.Heading = page.Name + " this bucket?"
	page.Token = h.tokens.make(toChange, v.who, page.Act, page.Form, page.Value, page.Reason)
	h.render(w, http.StatusOK, "confirm", page)
}

// act makes a change.
func (h *Handler) act(w http.ResponseWriter, v *visit) {
	page, f := h.posted(w, v)
	if f == nil && !h.tokens.spend(page.Token, toChange, v.who, page.Act, page.Form, page.Value, page.Reason) {
		f = stale
	}
	var wanted uiapi.Change
	if f == nil {
		wanted, f = page.wanted()
	}
	if f == nil {
		_, f = h.make(v, wanted)
	}
	if f != nil {
		h.failed(w, v, f)
		return
	}
	// The address is relative, because the Handler does not know where it is mounted.
	w.Header().Set("Location", link("bucket", "key", page.Form, "done", page.Act))
	w.WriteHeader(http.StatusSeeOther)
}

// wanted reads the values of the form.
func (p *changePage) wanted() (uiapi.Change, *failure) {
	c := uiapi.Change{Act: p.Act, Key: p.Form, Reason: p.Reason}
	switch p.Act {
	case uiapi.Block:
		var d duration.Value
		switch {
		case p.Value == "until-empty":
			c.SetBlockFor(store.UntilEmpty)
		case d.Set(p.Value) == nil:
			c.SetBlockFor(d.Std()) // an unreadable time stays 0
		}
	case uiapi.Drain:
		c.Amount, _ = strconv.ParseFloat(p.Value, 64) // an unreadable number is 0
	}
	if err := c.Validate(); err != nil {
		return c, failureOf(err)
	}
	return c, nil
}

// changeTimeout limits the time that the store has for a change.
const changeTimeout = 10 * time.Second

// make makes a valid change, logs it, and returns the state of the bucket after it.
func (h *Handler) make(v *visit, c uiapi.Change) (st store.State, f *failure) {
	key, f := h.keyOf(v.Context(), c.Key)
	if f != nil {
		return st, f
	}
	ctx, cancel := context.WithTimeout(observe.WithReason(v.Context(), c.Reason), changeTimeout)
	defer cancel()
	var err error
	if c.Act == uiapi.Reset {
		if err = h.store.Delete(ctx, key); err == nil {
			h.recorder.blocked(key, time.Time{}, h.recorder.now())
		}
	} else {
		st, err = h.decide(ctx, key, c)
	}
	return st, h.logged(v, c, err)
}

// decide blocks, unblocks or drains a bucket.
func (h *Handler) decide(ctx context.Context, key string, c uiapi.Change) (store.State, error) {
	op := store.Op{Bucket: store.Bucket{Key: key}}
	switch c.Act {
	case uiapi.Unblock:
		op.Mode = store.Unblock
	case uiapi.Block:
		op.Mode, op.BlockFor = store.Block, c.BlockFor()
	case uiapi.Drain:
		op.Mode, op.Amount = store.Always, -c.Amount
	}
	if err := op.Validate(); err != nil {
		return store.State{}, err
	}
	return h.store.Fill(ctx, op)
}

// logged logs a change and returns the answer to its error.
func (h *Handler) logged(v *visit, c uiapi.Change, err error) *failure {
	level, message := slog.LevelInfo, "ui: a bucket changed"
	attributes := []any{"change", c.Act, "who", v.who, "reason", c.Reason, "key", c.Key}
	switch c.Act {
	case uiapi.Block:
		attributes = append(attributes, "for", c.BlockFor().String())
	case uiapi.Drain:
		attributes = append(attributes, "units", c.Amount)
	}
	var f *failure
	if err != nil {
		f = failureOf(err)
		level, message = slog.LevelError, "ui: a change failed"
		if f.status < http.StatusInternalServerError {
			level, message = slog.LevelWarn, "ui: a change cannot be"
		}
		attributes = append(attributes, "error", err.Error())
	}
	h.logger.Log(v.Context(), level, message, attributes...)
	return f
}
