package ui

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sort"
	"time"

	"github.com/brimgo/brim/store"
)

// row is a bucket of a listing. It contains no pointer, so that a million of them cost the garbage
// collector nothing.
type row struct {
	level, held, capacity, rate float64
	at, blocked                 int64  // microseconds since 1970; blocked is 0 without a block
	from                        uint32 // of the key in the listing's text; the shown form follows it
	key, form                   uint16 // their lengths; see listing.hidden
}

func (r *row) share() float64 { return (r.level + r.held) / r.capacity }

func (r *row) state() store.State {
	st := store.State{
		Level: r.level, Held: r.held, Capacity: r.capacity, LeakRate: r.rate, At: time.UnixMicro(r.at).UTC(),
	}
	if r.blocked != 0 {
		st.BlockedUntil = time.UnixMicro(r.blocked).UTC()
	}
	return st
}

// listing is one pass over the store, which all viewers share. Nobody changes it once it is made.
type listing struct {
	at      time.Time     // when it began, by the clock of the page
	took    time.Duration // until it ended
	buckets int64         // in the store
	full    int64         // of these, with a share of at least 90 %
	blocked int64
	damaged bool // buckets that cannot be read are missing

	rows    []row // the fullest if the store has more than Options.MaxListed
	hidden  bool  // keys are shown by their forms, even an empty one; otherwise as they are
	text    []byte
	byForm  []uint32 // rows in the order of the forms
	byShare []uint32 // the fullest first

	breather // of the goroutine that makes the listing

	tallies []tally        // the most refused first
	places  map[string]int // of the tallies by key
}

// read lists the store of the page. It is not called twice at the same time. It has a goroutine of
// its own, so net/http does not recover a panic of the store or of Options.Key; read does.
func (h *Handler) read(ctx context.Context) (latest *listing, err error) {
	defer func() {
		if p := recover(); p != nil {
			h.logger.Error("ui: a listing panicked", "panic", p, "stack", string(debug.Stack()))
			latest, err = h.last, fmt.Errorf("ui: a listing panicked: %v; the log has the stack", p)
		}
	}()
	l := &listing{at: h.clock()}
	if last := h.last; last != nil { // the store is about as large as it was
		l.rows, l.text = make([]row, 0, len(last.rows)+len(last.rows)/8), make([]byte, 0, len(last.text)+len(last.text)/8)
	}
	var storeNow time.Time
	err = h.store.Visit(ctx, "", func(e store.Entry) bool {
		if e.At.After(storeNow) {
			storeNow = e.At
		}
		l.add(e, h.form)
		l.breathe(len(l.rows))
		if len(l.rows) >= h.maxListed+h.maxListed/4+1 {
			l.trim(h.maxListed)
		}
		return true
	})
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return h.last, err
	}
	l.damaged = err != nil
	if len(l.rows) > h.maxListed {
		l.trim(h.maxListed)
	}
	l.sort()
	if h.recorder != nil {
		l.tallies = h.recorder.tallies(storeNow)
		l.places = make(map[string]int, len(l.tallies))
		for i, t := range l.tallies {
			l.places[t.key] = i
		}
	}
	l.took = h.clock().Sub(l.at)
	h.last = l
	return l, nil
}

// add adds a bucket. form is nil if keys are shown as they are.
func (l *listing) add(e store.Entry, form func(string) string) {
	l.buckets++
	r := row{
		level: e.Level, held: e.Held, capacity: e.Capacity, rate: e.LeakRate, at: e.At.UnixMicro(),
		from: uint32(len(l.text)), key: uint16(len(e.Key)),
	}
	if !e.BlockedUntil.IsZero() {
		r.blocked = e.BlockedUntil.UnixMicro()
		l.blocked++
	}
	if r.share() >= nearlyFull {
		l.full++
	}
	l.text = append(l.text, e.Key...)
	if l.hidden = form != nil; l.hidden {
		shown := form(e.Key)
		shown = shown[:min(len(shown), store.MaxKeyLen)]
		r.form = uint16(len(shown))
		l.text = append(l.text, shown...)
	}
	l.rows = append(l.rows, r)
}

// nearlyFull is the share from which on a bucket counts as nearly full.
const nearlyFull = 0.9

// trim keeps the n fullest rows.
func (l *listing) trim(n int) {
	slices.SortFunc(l.rows, func(a, b row) int { return cmp.Compare(b.share(), a.share()) })
	l.rows = l.rows[:n]
	text := make([]byte, 0, len(l.text))
	for i := range l.rows {
		r := &l.rows[i]
		from := r.from
		r.from = uint32(len(text))
		text = append(text, l.text[from:from+uint32(r.key)+uint32(r.form)]...)
	}
	l.text = text
}

// key returns the key of a row.
func (l *listing) key(i uint32) string {
	r := &l.rows[i]
	return string(l.text[r.from : r.from+uint32(r.key)])
}

// form returns the form in which the key of a row is shown.
func (l *listing) form(i uint32) []byte {
	r := &l.rows[i]
	if !l.hidden {
		return l.text[r.from : r.from+uint32(r.key)]
	}
	from := r.from + uint32(r.key)
	return l.text[from : from+uint32(r.form)]
}

// under returns the rows whose forms start with prefix, in the order of the forms.
func (l *listing) under(prefix string) []uint32 {
	begin := []byte(prefix)
	from := sort.Search(len(l.byForm), func(i int) bool { return bytes.Compare(l.form(l.byForm[i]), begin) >= 0 })
	rest := l.byForm[from:]
	return rest[:sort.Search(len(rest), func(i int) bool { return !bytes.HasPrefix(l.form(rest[i]), begin) })]
}

// find returns the row of the bucket that is shown as form.
func (l *listing) find(form string) (uint32, bool) {
	if all := l.under(form); len(all) > 0 && string(l.form(all[0])) == form {
		return all[0], true
	}
	return 0, false
}

// fullest returns up to n rows whose forms start with prefix, the fullest first, after skipping
// some. few is the number of rows that is sorted rather than looked for in byShare.
func (l *listing) fullest(prefix string, skip, n int) []uint32 {
	const few = 10_000
	all := l.byShare
	if prefix != "" {
		found := l.under(prefix)
		if len(found) <= few {
			all = slices.Clone(found)
			slices.SortStableFunc(all, func(a, b uint32) int {
				return cmp.Compare(l.rows[b].share(), l.rows[a].share())
			})
		} else {
			all = nil
			for _, i := range l.byShare {
				if bytes.HasPrefix(l.form(i), []byte(prefix)) {
					if all = append(all, i); len(all) == skip+n {
						break
					}
				}
			}
		}
	}
	return part(all, skip, n)
}

// part returns up to n elements after skipping some.
func part[T any](all []T, skip, n int) []T {
	all = all[min(skip, len(all)):]
	return all[:min(n, len(all))]
}
