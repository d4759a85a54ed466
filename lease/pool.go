package lease

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// pool is one bucket's slice and what is needed to choose the next one.
type pool struct {
	key   string
	limit store.Limit
	born  instant
	slice atomic.Pointer[slice]

	mu        sync.Mutex
	dead      bool          // out of the table: no slice comes any more
	taking    chan struct{} // closed when the slice that is being taken is there, or is not; nil where none is
	size      float64       // of the last slice
	notBefore int64         // no slice is asked for before, on the monotonic clock: the store has just said no
	since     instant       // demand is counted from here
	used      float64       // units served since then, without what is in the slice
	demand    float64       // units per second
}

func newPool(b store.Bucket, now instant) *pool {
	return &pool{key: strings.Clone(b.Key), limit: b.Limit, born: now, since: now} // the key may be part of a large buffer
}

// kill ends the pool's slice, and what is being taken will be lost. The account of a pool that comes after starts anew: it
// has less on it than the truth, which is safe.
func (p *pool) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	p.slice.Load().end(instant{})
}

// idle reports whether nothing would be lost with the pool.
func (p *pool) idle(now instant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taking != nil {
		return false
	}
	l := p.slice.Load()
	idle := l == nil || now.since(l.start) > int64(longest)
	p.dead = p.dead || idle
	return idle
}

// roomAgain lets slices be asked for at once.
func (p *pool) roomAgain() {
	p.mu.Lock()
	p.notBefore = 0
	p.mu.Unlock()
}

const (
	// gain is how many calls a slice must be good for: fewer are cheaper asked for one by one.
	gain = 4
	// growth is by how much a slice may be larger than the one before it: demand is a guess.
	growth = 4
	// longest is how long a slice that nobody uses lasts at most: so much it may leak, and then it is given up.
	longest = time.Second
	// part of the share that one slice may have, so that several processes can have one.
	part = 0.25
	// patience is for how many slices a caller waits before it asks for itself.
	patience = 3
	// pause is how long no slice is asked for after a failure, and the least after a refusal.
	pause, breath = 100 * time.Millisecond, time.Millisecond
	// bound is how long taking a slice may take.
	bound = 10 * time.Second
)

// choose returns how large a slice to take for a bucket that is asked for n, or 0 to ask for n alone. The pool is locked.
func (p *pool) choose(n float64, share, ahead float64, now instant) float64 {
	// Over a shorter time than this, callers who come together look like a flood.
	if took := float64(now.since(p.since)) / 1e9; took > ahead/8 {
		rate := (p.used + p.slice.Load().served()) / took
		p.demand = (p.demand + rate) / 2
		p.since, p.used = now, -p.slice.Load().served()
	}
	if p.dead || now.mono < p.notBefore {
		return 0
	}
	// What leaks must be in the slice, too. Nothing is lost by that where demand is larger: the account leaks what was served.
	size := max(p.demand, p.limit.LeakRate) * ahead
	size = min(size, growth*max(p.size, gain*n), p.limit.LeakRate*longest.Seconds(), part*share*p.limit.Capacity)
	if p.demand*ahead < gain*n || size < gain*n {
		return 0
	}
	if size > 1<<4 {
		size = math.Floor(size) // where costs are integers, levels stay exact
	}
	if p.limit.Capacity+size == p.limit.Capacity {
		return 0 // lost in the capacity's rounding, which is invalid
	}
	return size
}

// prefetch takes the next slice before this one is used up.
func (s *Store) prefetch(p *pool, n float64, now instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taking == nil {
		if size := p.choose(n, s.share, s.ahead, now); size > 0 {
			s.take(p, size)
		}
	}
}

// miss decides op where the slice does not do.
func (s *Store) miss(ctx context.Context, p *pool, op *store.Op) (st store.State, err error) {
	for range patience {
		now := s.read()
		p.mu.Lock()
		if l := p.slice.Load(); l != nil && l.serve(op.Amount, now) {
			p.mu.Unlock()
			l.state(&st, op, now)
			return st, nil
		}
		if p.taking == nil {
			if size := p.choose(op.Amount, s.share, s.ahead, now); size == 0 || !s.take(p, size) {
				p.used += op.Amount
				p.mu.Unlock()
				break
			}
		}
		taken := p.taking
		p.mu.Unlock()
		select {
		case <-taken:
		case <-ctx.Done():
			return st, store.Wrap(backend, "fill", ctx.Err())
		}
	}
	if s.closed.Load() {
		return st, store.Wrap(backend, "fill", store.ErrClosed)
	}
	return s.inner.Fill(ctx, *op)
}

// take has a slice taken. It runs under nobody's context: those who wait for it may come and go. The pool is locked.
func (s *Store) take(p *pool, size float64) bool {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed.Load() {
		return false
	}
	taking := make(chan struct{})
	p.taking = taking
	s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, bound)
		defer cancel()
		asked := s.read()
		account := p.slice.Load().accountAt(asked) // nobody but this goroutine replaces the slice
		op := store.Op{
			Bucket: p.limit.For(p.key), Amount: size, Mode: store.IfFits,
			Ceiling: s.share * p.limit.Capacity,
		}
		// If it fails it may have gone in all the same. Then it leaks away unused.
		st, err := s.inner.Fill(ctx, op)
		now := s.read()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken(grant{size: size, asked: asked, account: account, answered: now}, &st, err)
		p.taking = nil
		close(taking)
	})
	return true
}

// taken puts a slice that was granted to use. The pool is locked.
func (p *pool) taken(g grant, st *store.State, err error) {
	switch {
	case p.dead: // reset since, perhaps: it is of no bucket that is still there
	case err != nil:
		p.notBefore = g.answered.mono + int64(pause)
		p.slice.Load().again()
	case !st.Accepted:
		p.notBefore = g.answered.mono + int64(max(breath, min(st.RetryAfter, longest)))
		p.size = g.size / 2
		p.slice.Load().again()
	default:
		after, served := p.slice.Load().next(g, p.limit, st)
		p.slice.Store(after)
		p.used += served
		p.size = g.size
	}
}

// again has the next call that finds the slice low look after another.
func (l *slice) again() {
	if l != nil {
		l.refilling.Store(false)
	}
}
