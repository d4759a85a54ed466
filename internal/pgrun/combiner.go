package pgrun

import (
	"context"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/combine"
)

// Combiner is a combiner whose flushes run on lanes. It closes with its runner.
//
// A flush never waits long for a row that another transaction holds. The statements of a flush
// bound their waits by [Lane.LockTimeout]. Where a flush stalls, the combiner finds the rows that
// are held, sends the other requests again, and has the requests for the held rows wait in a
// queue of their own, which one more lane serves.
type Combiner[Q, A any] struct {
	r     *Runner
	rows  Rows[Q]
	lanes []*Lane // the last one serves the requests for stuck rows
	fast  *combine.Combiner[Q, A]
	slow  *combine.Combiner[Q, A]
	stuck *stuck
	// usual is the smoothed duration of flushes that did not stall, in nanoseconds. It begins at
	// 0: the first flush of a lane takes long, because the server has to plan its statements.
	usual atomic.Int64
}

// Batching are the choices of [NewCombiner]; see [combine.Options] for each.
type Batching struct {
	Lanes, MinBatch, MaxBatch, Patience int
}

// Rows tell a combiner which rows a request locks.
type Rows[Q any] struct {
	// Names returns the names of the rows.
	Names func(Q) iter.Seq[string]
	// Probe is a statement whose $1 is an array of names of rows. It returns the names of the rows
	// that another transaction holds, with true, and of the rows that are missing, with false. It
	// may also return names that $1 does not have.
	Probe string
	// Insert, if set, returns a statement that inserts the row of a name that is missing, and waits
	// only for a transaction that is inserting the same row. The combiner rolls the insertion back.
	Insert func(name string) (sql string, args [][]byte)
}

// Batch is the requests of a flush.
type Batch[Q, A any] = []*combine.Request[Q, A]

// Flush answers a batch. It returns the requests that it leaves open because a statement waited
// for a row for too long, which [Stalled] tells.
type Flush[Q, A any] func(context.Context, Batch[Q, A]) (open Batch[Q, A])

// NewCombiner returns a combiner that takes a connection before each flush, bounds the flush by
// the runner's timeout, and reports it to the trace. It calls flusher once for each lane; the
// function that flusher returns answers the batches of that lane, and sends to the server by
// [Lane.Attempt] alone.
func NewCombiner[Q, A any](
	r *Runner, b Batching, rows Rows[Q], flusher func(*Lane) Flush[Q, A],
) (*Combiner[Q, A], error) {
	c := &Combiner[Q, A]{r: r, rows: rows, stuck: newStuck()}
	var flushes []Flush[Q, A]
	for n := range max(1, b.Lanes) + 1 {
		lane := &Lane{r: r}
		if n < b.Lanes {
			lane.stuck = c.stuck
		}
		c.lanes = append(c.lanes, lane)
		flushes = append(flushes, flusher(lane))
	}
	last := len(c.lanes) - 1
	var err error
	c.fast, err = combine.New(
		func(i int, batch Batch[Q, A]) { c.flush(c.lanes[i], flushes[i], batch) },
		&combine.Options{
			Lanes: b.Lanes, MinBatch: b.MinBatch, MaxBatch: b.MaxBatch, Patience: b.Patience,
			Before:  func(i int) error { return c.lanes[i].acquire() },
			Cut:     func(i int) { c.lanes[i].cut() },
			After:   func(i int) { c.lanes[i].release() },
			Flushed: r.flushed(),
		})
	if err != nil {
		return nil, err
	}
	c.slow, err = combine.New(
		func(_ int, batch Batch[Q, A]) { c.flushSlow(flushes[last], batch) },
		&combine.Options{
			MaxBatch: b.MaxBatch, Grace: grace,
			Before:  func(int) error { return c.awaitRows() },
			After:   func(int) { c.lanes[last].release() },
			Flushed: r.flushed(),
		})
	if err != nil {
		return nil, err
	}
	c.slow.Gate(func(in Q) bool { return c.stuck.ready(rows.Names(in)) })
	if !r.keep(c) {
		c.Close()
	}
	return c, nil
}

// Do decides a request; see [combine.Combiner.Do]. While another transaction holds a row of the
// request, Do waits at most for the runner's timeout. The error is then
// [store.ErrUnavailable], and the context's error as well if the context has ended.
func (c *Combiner[Q, A]) Do(ctx context.Context, hash uint64, in Q) (out A, err error) {
	if c.stuck.empty() || !c.stuck.has(c.rows.Names(in)) {
		if out, err = c.fast.Do(ctx, hash, in); err != errStuck {
			return out, err
		}
	}
	return c.doSlow(ctx, hash, in)
}

// DoAll decides requests of one hash together; see [combine.Combiner.DoAll]. A request of which
// another transaction holds a row waits apart from the others, as in Do.
func (c *Combiner[Q, A]) DoAll(ctx context.Context, hash uint64, in []Q) (out []A, errs []error) {
	var free []Q
	var at []int // in in
	out, errs = make([]A, len(in)), make([]error, len(in))
	for i, q := range in {
		if errs[i] = errStuck; c.stuck.empty() || !c.stuck.has(c.rows.Names(q)) {
			free, at = append(free, q), append(at, i)
		}
	}
	answers, failed := c.fast.DoAll(ctx, hash, free)
	for k, i := range at {
		out[i], errs[i] = answers[k], failed[k]
	}
	var wg sync.WaitGroup
	for i, err := range errs {
		if err == errStuck {
			wg.Go(func() { out[i], errs[i] = c.doSlow(ctx, hash, in[i]) })
		}
	}
	wg.Wait()
	return out, errs
}

// Close refuses further calls and waits for those in flight. Calls that wait for rows of other
// transactions fail.
func (c *Combiner[Q, A]) Close() {
	c.stuck.close()
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
)

// grace is how long a caller that waits for a row stays beyond its deadline, if its request is just
// being tried. It covers some statements that stall.
const grace = 10 * leastWait

// flush answers a batch of the usual requests.
func (c *Combiner[Q, A]) flush(l *Lane, flush Flush[Q, A], batch Batch[Q, A]) {
	wait := min(max(waitRatio*time.Duration(c.usual.Load()), leastWait), mostWait)
	l.wait = min(wait, c.r.Timeout/stallsPerFlush)
	ctx, start := l.ctx, time.Now()
	open := flush(ctx, batch)
	if len(open) == 0 {
		usual := c.usual.Load()
		c.usual.Store(usual + (int64(time.Since(start))-usual)/8)
		return
	}
	for tries := 0; len(open) > 0; tries++ {
		again := c.setAside(ctx, l, open, tries)
		if len(again) > 0 {
			again = flush(ctx, again)
		}
		open = again
	}
}

// milliseconds formats a lock_timeout. Zero would mean none.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}
