package lease

import (
	"context"
	"time"

	"github.com/brimgo/brim/store"
)

const (
	// maxWaits is the number of allotments that a caller waits for before it calls the store
	// itself.
	maxWaits = 3
	// errorPause is the pause between a request that failed and the next request.
	errorPause = 100 * time.Millisecond
	// refusalPause is the least pause between a request that was refused and the next request.
	refusalPause = time.Millisecond
	// requestTimeout limits the duration of a request.
	requestTimeout = 10 * time.Second
)

// prefetch requests the next allotment before the current one is used up. n is the amount of the
// call that found the allotment low.
func (s *Store) prefetch(a *account, n float64, now instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending == nil {
		if size := a.nextSize(n, s.share, s.ahead, now); size > 0 {
			s.request(a, size)
		}
	}
}

// await decides an op that the current allotment cannot serve. It requests an allotment, or waits
// for the pending one, and serves op from it. If there is no allotment to request, await lets the
// store decide op alone.
func (s *Store) await(ctx context.Context, a *account, op *store.Op) (st store.State, err error) {
	for range maxWaits {
		now := s.readClocks()
		a.mu.Lock()
		if current := a.allotment.Load(); current != nil && current.serve(op.Amount, now) {
			a.mu.Unlock()
			current.state(&st, op, now)
			return st, nil
		}
		if a.pending == nil {
			if size := a.nextSize(op.Amount, s.share, s.ahead, now); size == 0 || !s.request(a, size) {
				a.served += op.Amount
				a.mu.Unlock()
				break
			}
		}
		pending := a.pending
		a.mu.Unlock()
		select {
		case <-pending:
		case <-ctx.Done():
			return st, store.Wrap(backend, "fill", ctx.Err())
		}
	}
	if s.closed.Load() {
		return st, store.Wrap(backend, "fill", store.ErrClosed)
	}
	return s.inner.Fill(ctx, *op)
}

// request asks the store for an allotment of size units, in a goroutine of its own. The request
// does not end with the context of a caller, because other callers may wait for the allotment,
// too. request returns false if the Store is closed. The account is locked.
func (s *Store) request(a *account, size float64) bool {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.closed.Load() {
		return false
	}
	pending := make(chan struct{})
	a.pending = pending
	s.requests.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, requestTimeout)
		defer cancel()
		asked := s.readClocks()
		balance := a.allotment.Load().balanceAt(asked) // only this goroutine replaces the allotment
		op := store.Op{
			Bucket: a.limit.For(a.key), Amount: size, Mode: store.IfFits,
			Ceiling: s.share * a.limit.Capacity,
		}
		// If the fill fails, it may have gone in. Its units then leak from the bucket unused.
		st, err := s.inner.Fill(ctx, op)
		received := s.readClocks()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.answered(grant{size: size, asked: asked, balance: balance, received: received}, &st, err)
		a.pending = nil
		close(pending)
	})
	return true
}

// answered puts the allotment g to use if the store has granted it, and pauses the account
// otherwise. The account is locked.
func (a *account) answered(g grant, st *store.State, err error) {
	switch {
	case a.closed: // the bucket may have been reset since, and the grant with it
	case err != nil:
		a.pausedUntil = g.received.mono + int64(errorPause)
		a.allotment.Load().allowPrefetch()
	case !st.Accepted:
		a.pausedUntil = g.received.mono + int64(max(refusalPause, min(st.RetryAfter, maxAge)))
		a.size = g.size / 2
		a.allotment.Load().allowPrefetch()
	default:
		following, served := a.allotment.Load().next(g, a.limit, st)
		a.allotment.Store(following)
		a.served += served
		a.size = g.size
	}
}
