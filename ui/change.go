package ui

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/show"
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
	Key, Form, Encoded   string // Encoded passes through a form unchanged, whatever is in the key
	Token, Value, Reason string
}

// The purposes of tokens.
const (
	toAsk     = "ask"
	toChange  = "change"
	toProgram = "program"
)

// change asks for a change the first time.
func (h *Handler) change(w http.ResponseWriter, v *visit) {
	query := v.URL.Query()
	page, f := h.changePage(v, query.Get("act"), query.Get("key"))
	if f == nil && v.access != Act {
		f = &failure{status: http.StatusForbidden, title: "Not allowed", detail: "You may look, and not change anything."}
	}
	if f != nil {
		h.failed(w, v, f)
		return
	}
	h.ask(w, v, http.StatusOK, page)
}

// ask writes the page that asks the first time.
func (h *Handler) ask(w http.ResponseWriter, v *visit, status int, page *changePage) {
	page.Token = h.tokens.make(toAsk, v.who)
	h.render(w, status, "change", page)
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
		frame: frame{Program: h.title, Heading: c.Name + " a bucket"}, change: c,
		Key: show.Key(form), Form: form, Encoded: base64.RawURLEncoding.EncodeToString([]byte(form)),
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
	if f == nil && !h.tokens.valid(page.Token, toAsk, v.who) {
		f = stale
	}
	if f != nil {
		h.failed(w, v, f)
		return
	}
	if _, f := page.wanted(); f != nil {
		page.Problem = f
		h.ask(w, v, f.status, page)
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

// maxReason is the most bytes of a reason: 200 characters of up to 4 bytes, and some to spare.
const maxReason = 1000

// wanted reads the values of the form.
func (p *changePage) wanted() (uiapi.Change, *failure) {
	c := uiapi.Change{Act: p.Act, Keys: []string{p.Form}, Reason: p.Reason}
	bad := func(detail string) (uiapi.Change, *failure) {
		return c, &failure{status: http.StatusBadRequest, title: "This cannot be", detail: detail}
	}
	if p.Reason == "" || len(p.Reason) > maxReason {
		return bad("Give a reason of at most 200 characters.")
	}
	switch p.Act {
	case uiapi.Block:
		if p.Value == "until-empty" {
			c.SetBlockFor(store.UntilEmpty)
			break
		}
		var d duration.Value
		if err := d.Set(p.Value); err != nil || d.Std() < time.Microsecond {
			return bad("The time must be positive, like 90s, 15m, 24h or 30d, or until-empty.")
		}
		c.SetBlockFor(d.Std())
	case uiapi.Drain:
		n, err := strconv.ParseFloat(p.Value, 64)
		if err != nil || !(n > 0 && n <= store.MaxAmount) {
			return bad("The units must be a positive number of at most 2^53.")
		}
		c.Amount = n
	}
	return c, nil
}

// changeTimeout limits the time that the store has for a change. A reset may have thousands of
// keys.
const changeTimeout = 30 * time.Second

// make makes a change, logs it, and returns the state of the last bucket after it.
func (h *Handler) make(v *visit, c uiapi.Change) (st store.State, f *failure) {
	if len(c.Keys) == 0 || len(c.Keys) > 1 && c.Act != uiapi.Reset {
		return st, &failure{
			status: http.StatusBadRequest, title: "This cannot be", detail: "A change takes one key, and a reset one or more.", err: store.ErrInvalidKey,
		}
	}
	if len(c.Reason) > maxReason {
		return st, &failure{
			status: http.StatusBadRequest, title: "This cannot be",
			detail: fmt.Sprintf("The reason has %d bytes, and at most %d are kept.", len(c.Reason), maxReason),
		}
	}
	keys := make([]string, len(c.Keys))
	for i, form := range c.Keys {
		if keys[i], f = h.keyOf(v.Context(), form); f != nil {
			return st, f
		}
	}
	ctx, cancel := context.WithTimeout(observe.WithReason(v.Context(), c.Reason), changeTimeout)
	defer cancel()
	if c.Act == uiapi.Reset {
		err := h.store.Delete(ctx, keys...)
		return st, h.logged(v, c, err)
	}
	st, err := h.decide(ctx, keys[0], c)
	return st, h.logged(v, c, err)
}

// decide blocks, unblocks or drains a bucket.
func (h *Handler) decide(ctx context.Context, key string, c uiapi.Change) (store.State, error) {
	limit := store.Limit{Capacity: c.Capacity, LeakRate: c.LeakRate}
	op := store.Op{Bucket: limit.For(key)}
	switch c.Act {
	case uiapi.Unblock:
		op.Bucket, op.Mode = store.Bucket{Key: key}, store.Unblock
	case uiapi.Block:
		op.Mode, op.BlockFor = store.Block, c.BlockFor()
	case uiapi.Drain:
		op.Mode, op.Amount = store.Always, -math.Abs(c.Amount)
	default:
		return store.State{}, fmt.Errorf("ui: %w: the change is none of reset, block, unblock and drain", errors.ErrUnsupported)
	}
	if limit == (store.Limit{}) && c.Act != uiapi.Unblock {
		states, err := h.store.Read(ctx, store.Bucket{Key: key})
		if err != nil {
			return store.State{}, err
		}
		op.Limit = store.Limit{Capacity: states[0].Capacity, LeakRate: states[0].LeakRate}
		if op.Capacity == 0 {
			return store.State{}, fmt.Errorf("ui: %w: there is no such bucket, so the change needs a limit", store.ErrInvalidLimit)
		}
	}
	if err := op.Validate(); err != nil {
		return store.State{}, err
	}
	return h.store.Fill(ctx, op)
}

// logged logs a change and returns the answer to its error.
func (h *Handler) logged(v *visit, c uiapi.Change, err error) *failure {
	level, message := slog.LevelInfo, "ui: buckets changed"
	attributes := []any{"change", c.Act, "who", v.who, "reason", c.Reason, "keys", c.Keys}
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
