package pgrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/sleep"
	"github.com/brimgo/brim/store"
)

// Combiner is a combiner whose flushes run on lanes. It closes with its runner.
//
// A flush never waits long for a row that another transaction holds. The statements of a flush
// bound their waits by [Lane.LockTimeout]. Where a flush stalls, it is sent once more and leaves
// out the rows that are held; see [Lane.Skips]. The requests for these rows go to one more lane,
// the slow one. That lane waits a moment, since most holders are other processes that commit, and
// then tries again after pauses, until the caller's time is up. Meanwhile the calls of the same
// hash go there at once.
type Combiner[Q, A any] struct {
	r       *Runner
	lanes   []*Lane       // the last is the slow one
	flushes []Flush[Q, A] // of the lanes
	fast    *combine.Combiner[Q, A]
	slow    *combine.Combiner[Q, A]
	// held are the hashes whose calls go to the slow lane at once: a call that finds the row held
	// delays those of other rows. Of two hashes with one place, the last one has it.
	held  [4096]atomic.Pointer[held]
	pause time.Duration // of the slow lane, before it tries again
	tried time.Time     // by the slow lane, for the last time
	// usual is the smoothed duration of flushes that did not stall, in nanoseconds. It begins at
	// 0: the first flush of a lane takes long, because the server has to plan its statements.
	usual  atomic.Int64
	closed context.Context
	close  context.CancelFunc
}

// held is a hash of which another transaction has held a row, and until when its calls go to the
// slow lane. A call of another hash stays away from that lane. Its success there would tell nothing
// about the row, and yet have the lane wait again.
type held struct {
	hash  uint64
	until time.Time
}

// Batching are the choices of [NewCombiner]; see [combine.Options] for each.
type Batching struct {
	Lanes, MinBatch, MaxBatch, Patience int
}

// Batch is the requests of a flush.
type Batch[Q, A any] = []*combine.Request[Q, A]

// Flush answers a batch. It returns the requests that it leaves open because a statement waited
// for a row for too long, which [Stalled] tells. A request that the statement left out has the Err
// [ErrHeld].
type Flush[Q, A any] func(context.Context, Batch[Q, A]) (open Batch[Q, A])

// NewCombiner returns a combiner that takes a connection before each flush, bounds the flush by
// the runner's timeout, and reports it to the trace. It calls flusher once for each lane. The
// function that flusher returns answers the batches of that lane, and sends to the server by
// [Lane.Attempts] alone.
func NewCombiner[Q, A any](
	r *Runner, b Batching, flusher func(*Lane) Flush[Q, A],
) (*Combiner[Q, A], error) {
	c := &Combiner[Q, A]{r: r}
	c.closed, c.close = context.WithCancel(context.Background())
	for range max(1, b.Lanes) + 1 {
		lane := &Lane{r: r}
		c.lanes, c.flushes = append(c.lanes, lane), append(c.flushes, flusher(lane))
	}
	last := len(c.lanes) - 1
	var err error
	c.fast, err = combine.New(c.flush, &combine.Options{
		Lanes: b.Lanes, MinBatch: b.MinBatch, MaxBatch: b.MaxBatch, Patience: b.Patience,
		Before:  func(i int) error { return c.lanes[i].acquire() },
		Cut:     func(i int) { c.lanes[i].cut() },
		After:   func(i int) { c.lanes[i].release() },
		Flushed: r.flushed(),
	})
	if err != nil {
		return nil, err
	}
	c.slow, err = combine.New(func(_ int, batch Batch[Q, A]) { c.flushSlow(batch) }, &combine.Options{
		MaxBatch: b.MaxBatch, Grace: grace,
		Before: func(int) error {
			if time.Since(c.tried) > 2*longestPause { // nobody has waited since
				c.pause = 0
			}
			_ = sleep.For(c.closed, c.pause) // Close ends it
			return c.lanes[last].acquire()
		},
		After:   func(int) { c.lanes[last].release() },
		Flushed: r.flushed(),
	})
	if err != nil {
		return nil, err
	}
	if !r.keep(c) {
		c.Close()
	}
	return c, nil
}

// NewTransactions returns a combiner whose flushes are those of [Transactions].
func NewTransactions[Q, A any](
	r *Runner, b Batching,
	decide func(context.Context, *Lane, *pgxpool.Conn, Batch[Q, A]) error,
) (*Combiner[Q, A], error) {
	return NewCombiner(r, b, func(l *Lane) Flush[Q, A] { return Transactions(l, decide) })
}

// Transactions returns a flush of a lane that answers a batch by one transaction. decide begins,
// decides and commits it on the lane's connection, and sets the Err of a request that fails by
// itself. Where the server refuses the transaction, its halves get a transaction each, so that one
// bad request fails alone. Among a thousand it takes some twenty transactions to find it.
func Transactions[Q, A any](
	l *Lane, decide func(context.Context, *Lane, *pgxpool.Conn, Batch[Q, A]) error,
) Flush[Q, A] {
	return func(ctx context.Context, batch Batch[Q, A]) (open Batch[Q, A]) {
		for parts := []Batch[Q, A]{batch}; len(parts) > 0; {
			last := len(parts) - 1
			part := parts[last]
			parts = parts[:last]
			try := l.Attempts()
			for try.Next(ctx) {
				for _, request := range part {
					request.Err = nil // of an attempt before
				}
				try.Err = decide(ctx, l, try.Conn, part)
			}
			switch half := len(part) / 2; {
			case Stalled(try.Err):
				open = append(open, part...)
			case Refused(try.Err) && half > 0:
				parts = append(parts, part[half:], part[:half])
			case try.Err != nil:
				for _, request := range part {
					request.Err = try.Err
				}
			}
		}
		return open
	}
}

// Do decides a request; see [combine.Combiner.Do]. While another transaction holds a row of the
// request, Do begins no attempt after the runner's timeout; the last one is bounded as every flush.
// The error is then [store.ErrUnavailable], and the context's error as well if the context has
// ended.
func (c *Combiner[Q, A]) Do(ctx context.Context, hash uint64, in Q) (out A, err error) {
	if h := c.place(hash).Load(); h == nil || h.hash != hash || time.Now().After(h.until) {
		if out, err = c.fast.Do(ctx, hash, in); err != ErrHeld {
			return out, err
		}
	}
	return c.doSlow(ctx, hash, in)
}

// place returns where a hash is noted whose calls go to the slow lane.
func (c *Combiner[Q, A]) place(hash uint64) *atomic.Pointer[held] {
	return &c.held[hash%uint64(len(c.held))]
}

// remember notes the hashes of the requests that a flush has left out, and returns how many they
// are. Their callers may have left meanwhile, so the flush does it.
func (c *Combiner[Q, A]) remember(batch Batch[Q, A]) (left int) {
	until := time.Now().Add(remembered)
	for _, r := range batch {
		if r.Err == ErrHeld {
			c.place(r.Hash).Store(&held{r.Hash, until})
			left++
		}
	}
	return left
}

// DoAll decides requests of one hash together; see [combine.Combiner.DoAll]. A request of which
// another transaction holds a row waits apart from the others, as in Do.
func (c *Combiner[Q, A]) DoAll(ctx context.Context, hash uint64, in []Q) (out []A, errs []error) {
	out, errs = c.fast.DoAll(ctx, hash, in)
	var wg sync.WaitGroup
	for i, err := range errs {
		if err == ErrHeld {
			wg.Go(func() { out[i], errs[i] = c.doSlow(ctx, hash, in[i]) })
		}
	}
	wg.Wait()
	return out, errs
}

// doSlow decides a request on the slow lane, and waits there for its rows.
func (c *Combiner[Q, A]) doSlow(ctx context.Context, hash uint64, in Q) (out A, err error) {
	limit, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.closed, cancel)()
	for start := time.Now(); ; {
		out, err = c.slow.Do(limit, hash, in)
		if err != ErrHeld {
			break
		}
		if time.Since(start) >= c.r.Timeout {
			return out, fmt.Errorf("%w for %v; keep transactions that fill buckets short", ErrHeld, c.r.Timeout)
		}
	}
	if h := c.place(hash).Load(); err == nil && h != nil && h.hash == hash {
		c.place(hash).CompareAndSwap(h, nil)
	}
	switch {
	case err == nil || limit.Err() == nil || !errors.Is(err, limit.Err()):
		return out, err
	case errors.Is(err, store.ErrUnknownOutcome):
		return out, fmt.Errorf("%w: %w while the call was in flight", store.ErrUnknownOutcome, cmp.Or(ctx.Err(), store.ErrClosed))
	case ctx.Err() != nil:
		return out, fmt.Errorf("%w: %w while another transaction held the row", store.ErrUnavailable, ctx.Err())
	}
	return out, store.ErrClosed
}

var errLate = errors.New("Options.StatementTimeout passed")

// Close refuses further calls and waits for those in flight. Calls that wait for rows of other
// transactions fail.
func (c *Combiner[Q, A]) Close() {
	c.close()
	c.fast.Close()
	c.slow.Close()
	c.r.forget(c)
}

// Bounds of a lock_timeout. A flush that waits for rows takes much longer than usual, so the
// timeout is a multiple of the usual duration: on a server that is slow for everybody nobody is
// taken for a holder of rows. The least allows for a slow commit of another process, and the most
// is the longest time for which the holder of one row delays the calls for others.
const (
	leastWait = 10 * time.Millisecond
	mostWait  = time.Second
	waitRatio = 8
	// A flush may stall more than once. So many stalls still leave it time to tell which of its
	// requests were not applied; a flush that its timeout cuts off cannot tell.
	stallsPerFlush = 8
	// shortWait is the lock_timeout of a flush that leaves out held rows. It then waits only for
	// a row that another transaction is inserting, which no statement can leave out.
	shortWait = 4 * time.Millisecond
	// remembered is how long a row counts as held after a call has last waited for it.
	remembered = time.Second
	// slowWait is the lock_timeout of the first flush of the slow lane.
	slowWait = 2 * leastWait
	// leastPause and longestPause are the bounds of the pauses of the slow lane, which double.
	leastPause   = 2 * time.Millisecond
	longestPause = 25 * time.Millisecond
)

// grace is how long a caller that waits for a row stays beyond its deadline, if its request is just
// being tried.
const grace = 10 * leastWait

// A flush of the slow lane that has lasted for halving sends no more halves of a batch that
// stalls, once it has sent leastHalves statements: it ends within grace also where each statement
// takes long.
const (
	halving     = grace / 2
	leastHalves = 3
)

// flush answers a batch on a usual lane.
func (c *Combiner[Q, A]) flush(lane int, batch Batch[Q, A]) {
	l, flush := c.lanes[lane], c.flushes[lane]
	wait := min(max(waitRatio*time.Duration(c.usual.Load()), leastWait), mostWait)
	l.skip, l.wait = false, min(wait, c.r.Timeout/stallsPerFlush)
	start := time.Now()
	open := flush(l.ctx, batch)
	if len(open) == 0 {
		usual := c.usual.Load()
		c.usual.Store(usual + (int64(time.Since(start))-usual)/8)
		return
	}
	l.skip, l.wait = true, shortWait
	for _, r := range flush(l.ctx, open) {
		r.Err = ErrHeld
	}
	c.remember(open)
}

// flushSlow answers a batch on the slow lane. If the lane was idle, or has just served all
// requests, it waits for the rows first: they may become free in a moment.
func (c *Combiner[Q, A]) flushSlow(batch Batch[Q, A]) {
	start, last := time.Now(), len(c.lanes)-1
	l, open := c.lanes[last], batch
	if c.pause == 0 {
		l.skip, l.wait = false, min(slowWait, c.r.Timeout/stallsPerFlush)
		open = c.flushes[last](l.ctx, batch)
	}
	l.skip, l.wait = true, shortWait
	// A statement that stalls all the same waits for a row that another transaction is inserting.
	// Its halves are sent, the largest first, down to the one request that stalls by itself.
	sent := 0
	for parts := []Batch[Q, A]{open}; len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		goOn := sent < leastHalves || time.Since(start) < halving // else it goes out with the next flush
		if goOn && len(part) > 0 {
			part = c.flushes[last](l.ctx, part)
			sent++
		}
		if half := len(part) / 2; half > 0 && goOn {
			parts = append(parts, part[:half], part[half:])
			continue
		}
		for _, r := range part {
			r.Err = ErrHeld
		}
	}
	switch left := c.remember(batch); left {
	case 0:
		c.pause = 0
	case len(batch):
		c.pause = min(max(2*c.pause, leastPause), longestPause)
	default: // some rows were held for a moment only, but a flush that waits would wait for the others
		c.pause = leastPause
	}
	c.tried = time.Now()
}
