package ui

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// row is a bucket of a listing. Its form is its key as pages show it.
type row struct {
	key, form                   string
	level, held, capacity, rate float64
	at, blocked, empties        int64 // microseconds since 1970; blocked is 0 without a block, and empties without a period
}

func (r *row) share() float64 { return (r.level + r.held) / r.capacity }

func (r *row) state() store.State {
	st := store.State{Level: r.level, Held: r.held, Capacity: r.capacity, LeakRate: r.rate, At: time.UnixMicro(r.at).UTC()}
	if r.blocked != 0 {
		st.BlockedUntil = time.UnixMicro(r.blocked).UTC()
	}
	if r.empties != 0 {
		st.Empties = time.UnixMicro(r.empties).UTC()
	}
	return st
}

// listing is one pass over the store, which all viewers share. Nobody changes it once it is made.
type listing struct {
	at            time.Time     // when it began, by the clock of the page
	took          time.Duration // until it ended
	Buckets       int           // in the store
	Full, Blocked int           // of these; full are those with a share of at least 90 %
	damaged       bool          // buckets that cannot be read are missing
	rows          []row         // the fullest first, and only these if the store has more than Options.MaxListed
}

// read lists the store of the page. It is not called twice at the same time.
func (h *Handler) read(ctx context.Context) (latest *listing, err error) {
	defer func() {
		if err != nil {
			latest = h.last
		}
	}()
	defer h.recovered("a listing", &err)
	l, rest, blocks, began := &listing{at: h.clock()}, breather{}, make(map[string]block), h.recorder.now()
	if h.last != nil { // the store is about as large as it was
		l.rows = make([]row, 0, len(h.last.rows)+len(h.last.rows)/8)
	}
	err = h.store.Visit(asOwn(ctx), "", func(e store.Entry) bool {
		if l.Buckets == 0 {
			h.recorder.tell(e.At)
			began = e.At
		}
		l.add(&e, h.shown(e.Key))
		if !e.BlockedUntil.IsZero() {
			l.Blocked++
			if len(blocks) < maxBlocks {
				blocks[e.Key] = block{e.BlockedUntil, e.At}
			}
		}
		rest.breathe()
		if len(l.rows) > h.maxListed+h.maxListed/4 {
			l.sort(h.maxListed, &rest)
		}
		return true
	})
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return nil, err
	}
	l.damaged = err != nil
	l.sort(h.maxListed, &rest)
	h.recorder.listed(blocks, began)
	l.took = h.clock().Sub(l.at)
	h.last = l
	return l, nil
}

// add adds a bucket.
func (l *listing) add(e *store.Entry, form string) {
	r := row{
		key: e.Key, form: form[:min(len(form), store.MaxKeyLen)],
		level: e.Level, held: e.Held, capacity: e.Capacity, rate: e.LeakRate, at: e.At.UnixMicro(),
	}
	if !e.BlockedUntil.IsZero() {
		r.blocked = e.BlockedUntil.UnixMicro()
	}
	if !e.Empties.IsZero() {
		r.empties = e.Empties.UnixMicro()
	}
	l.Buckets++
	if r.share() >= 0.9 {
		l.Full++
	}
	l.rows = append(l.rows, r)
}

// sort sorts the rows, and keeps the n fullest. Rows of the same share are in the order of their
// forms.
func (l *listing) sort(n int, rest *breather) {
	slices.SortFunc(l.rows, func(a, b row) int {
		rest.breathe()
		return cmp.Or(cmp.Compare(b.share(), a.share()), strings.Compare(a.form, b.form))
	})
	kept := min(n, len(l.rows))
	clear(l.rows[kept:])
	l.rows = l.rows[:kept]
}

// under returns the rows whose forms start with prefix.
func (l *listing) under(prefix string) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		for i := range l.rows {
			if strings.HasPrefix(l.rows[i].form, prefix) && !yield(&l.rows[i]) {
				return
			}
		}
	}
}

// breather makes a listing work for a quarter of the time only. With the pause after a listing,
// about one call in a hundred then meets a listing at work.
type breather struct {
	steps  int
	last   time.Time
	worked time.Duration // since the last rest
}

// breathe is called for each step. After a quarter of a millisecond of work it rests, three times
// as long as it worked. Time for which a step waited for a server or for a processor is rest, too,
// and so is the time by which a rest was longer than asked for: both allow more work.
func (b *breather) breathe() {
	const between, work = 64, 250 * time.Microsecond
	if b.steps++; b.steps%between != 0 {
		return
	}
	now := time.Now()
	took := now.Sub(b.last)
	b.worked += min(took, work) - max(0, took-work)/3
	if b.worked >= work {
		time.Sleep(3 * b.worked)
		rested := time.Since(now)
		now = now.Add(rested)
		b.worked -= rested / 3
	}
	b.worked = max(b.worked, -work)
	b.last = now
}
