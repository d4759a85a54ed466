package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

// maxRequests is the largest number of requests in a flush. Requests for one bucket take one
// place of a script, so it is larger than the size of scripts.
const maxRequests = 2048

// minBatch is how many requests must wait before a script is sent beside one in flight. Scripts of
// some buckets cost the server and the client more for each than scripts of many: with 16, 64
// callers of a cluster got a quarter more decisions than with 1.
const minBatch = 16

// node combines the requests for one server: the only one, or a primary of a cluster.
type node struct {
	s       *Store
	client  *redis.Client
	calls   *combine.Combiner[request, answer]
	batches []*batch // by lane
	// apart is set in a cluster when the server refuses scripts over several slots.
	apart atomic.Bool
}

func newNode(s *Store, client *redis.Client) (*node, error) {
	n := &node{s: s, client: client}
	for range s.o.Lanes {
		n.batches = append(n.batches, newBatch(s.name))
	}
	o := combine.Options{Lanes: s.o.Lanes, MinBatch: minBatch, MaxBatch: maxRequests}
	if tell := s.o.Trace.Flush; tell != nil {
		o.Flushed = func(requests int, took time.Duration, err error) {
			tell(store.Flush{Backend: backend, Requests: requests, Took: took, Err: err})
		}
	}
	var err error
	n.calls, err = combine.New(n.flush, &o)
	return n, err
}

// flush answers requests, by as many scripts as their buckets need.
func (n *node) flush(lane int, reqs []*fillRequest) {
	b := n.batches[lane]
	now := time.Now()
	for len(reqs) > 0 && now.Sub(reqs[0].In.since) > n.s.o.CallTimeout/queuing { // the queue is in order of time
		reqs[0].Err = errLate
		reqs = reqs[1:]
	}
	until := now.Add(n.s.o.CallTimeout / starting)
	for len(reqs) > 0 {
		reqs = b.take(reqs, n.s.o.BatchSize)
		if n.s.closed.Load() {
			b.fail(store.ErrClosed) // Close waits for one flush alone
			continue
		}
		if time.Now().After(until) {
			b.fail(errLate)
			continue
		}
		var elsewhere []*fillRequest
		if n.s.cluster != nil && n.apart.Load() {
			elsewhere = n.decide(n.s.sorted(b.reqs, n.s.bySlot), until)
		} else {
			elsewhere = n.decide([]*batch{b}, until)
		}
		if len(elsewhere) > 0 {
			n.s.follow(elsewhere, until)
		}
	}
}

// retries is the largest number of attempts after the first.
const retries = 3

// decide answers the requests of batches by one script each, sent before a time. It returns those
// that another server of a cluster has to decide, of which nothing was applied.
func (n *node) decide(open []*batch, until time.Time) (elsewhere []*fillRequest) {
	s := n.s
	for attempt := 1; ; attempt++ {
		calls := make([]*call, 0, len(open))
		ready := open[:0]
		for _, b := range open {
			form := slotScript
			if s.cluster != nil && !n.apart.Load() {
				form = crossScript
			}
			if c := s.call(b, form); c != nil {
				calls, ready = append(calls, c), append(ready, b)
			}
		}
		s.run(n.client, calls, false, until)
		var retry []*batch
		var cause error
		for i, c := range calls {
			b, meaning := ready[i], c.judge()
			switch {
			case c.err == nil:
				elsewhere = append(elsewhere, s.answer(b, c)...)
			case meaning == noFlags:
				if !n.apart.Swap(true) {
					s.o.Logger.Info(backend + ": the server refuses scripts over several hash slots; sending one for each slot")
				}
				elsewhere = append(elsewhere, n.decide(s.sorted(b.reqs, s.bySlot), until)...)
			case s.cluster != nil && time.Now().Before(until) &&
				(meaning == again || meaning == redirect || meaning == split || meaning == unsent):
				elsewhere = append(elsewhere, b.reqs...)
			case meaning == again && attempt <= retries && time.Now().Before(until):
				retry, cause = append(retry, b), s.explainCall(c)
			default:
				b.fail(s.explainCall(c))
			}
		}
		if len(retry) == 0 {
			return elsewhere
		}
		s.retrying(attempt, cause)
		backoff(attempt)
		open = retry
	}
}

// call makes a call of the batch's requests. It returns nil if it has failed them all, because the
// store's clock is out of its range.
func (s *Store) call(b *batch, form *script) *call {
	var clock *int64
	if s.o.Clock != nil {
		us := s.o.Clock().UnixMicro()
		if us < -store.MaxTime || us > store.MaxTime {
			b.fail(fmt.Errorf("%w: Options.Clock reads the year %d; it must be from 1685 to 2254",
				store.ErrMisconfigured, time.UnixMicro(us).UTC().Year()))
			return nil
		}
		clock = &us
	}
	b.encode(clock, s.o.MaxSkew)
	return &call{script: form, keys: b.keys, input: input{bytes: b.input}, asks: b.asks}
}

// answer answers the requests of a batch from the reply to its call.
func (s *Store) answer(b *batch, c *call) (elsewhere []*fillRequest) {
	clock, recs, err := b.reply(c, s.patience)
	if err != nil {
		b.fail(err)
		return nil
	}
	elsewhere, wrote, skewed := b.repeat(clock, recs, s.o.MaxSkew)
	if skewed > 0 {
		s.o.Logger.Warn(backend+": stored time was further ahead of the clock than MaxSkew; set to the clock",
			"buckets", skewed, "max_skew", s.o.MaxSkew)
	}
	if c.short != nil && wrote > 0 {
		for _, r := range b.reqs {
			if r.Out.wrote {
				r.Err = c.short
			}
		}
	}
	return elsewhere
}

// fail answers all requests of the batch with err.
func (b *batch) fail(err error) {
	for _, r := range b.reqs {
		r.Err = err
	}
}

// run sends calls on one connection, and those again whose script the server does not remember.
// With asking, the keys may be in slots that migrate to this server.
func (s *Store) run(client *redis.Client, calls []*call, asking bool, until time.Time) {
	s.send(client, calls, asking, false, until)
	var missing []*call
	for _, c := range calls {
		if c.err != nil && c.judge() == noScript {
			missing = append(missing, c)
		}
	}
	s.send(client, missing, asking, true, until)
}

// send sends calls on one connection. It never sends one of them twice.
func (s *Store) send(client *redis.Client, calls []*call, asking, bySource bool, until time.Time) {
	if len(calls) == 0 {
		return
	}
	ctx, cancel := s.trip(context.Background(), &calls[0].input, until)
	defer cancel()
	defer func() {
		if slices.ContainsFunc(calls, func(c *call) bool { return c.input.sent && isTimeout(c.err) }) {
			s.drop(client)
		}
	}()
	s.dropped(ctx, client)
	asks := !slices.ContainsFunc(calls, func(c *call) bool { return !c.asks })
	if len(calls) == 1 && !asking && (asks || s.o.Replicas == 0 && !s.o.Synced) {
		cmd := calls[0].command(ctx, bySource)
		_ = client.Process(ctx, once{cmd}) // the command has the error
		calls[0].reply, calls[0].err = cmd.Slice()
		return
	}
	pipe := client.Pipeline()
	commands := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		if asking {
			_ = pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
		}
		commands[i] = c.command(ctx, bySource)
		_ = pipe.Process(ctx, once{commands[i]})
	}
	var waits []*redis.Cmd
	limit := max(1, (s.patience / 2).Milliseconds())
	if s.o.Synced && !asks {
		waits = append(waits, redis.NewCmd(ctx, "waitaof", 1, 0, limit))
	}
	if s.o.Replicas > 0 && !asks {
		waits = append(waits, redis.NewCmd(ctx, "wait", s.o.Replicas, limit))
	}
	for _, w := range waits {
		_ = pipe.Process(ctx, w)
	}
	_, _ = pipe.Exec(ctx) // the commands have the errors
	var short error
	for _, w := range waits {
		short = cmp.Or(short, s.shortfall(w))
	}
	for i, c := range calls {
		c.reply, c.err = commands[i].Slice()
		c.short = short
	}
}

// shortfall returns the error of writes that were not acknowledged widely enough, by the answer to
// WAIT or WAITAOF, or nil.
func (s *Store) shortfall(w *redis.Cmd) error {
	got, err := w.Result()
	if err != nil {
		return explain(store.ErrUnknownOutcome, err, s.patience)
	}
	want, who := s.o.Replicas, "replicas"
	if both, ok := got.([]any); ok && len(both) > 0 { // of WAITAOF: the primary and its replicas
		got, want, who = both[0], 1, "append-only file of the primary"
	}
	n, ok := got.(int64)
	switch {
	case !ok:
		return errFormat
	case n < int64(want):
		return fmt.Errorf("%w: the write is on the primary, but %w: %d of %d (%s) within %v",
			store.ErrUnknownOutcome, errFew, n, want, who, s.patience/2)
	}
	return nil
}

// errFew is the error of a write that WAIT or WAITAOF has not confirmed.
var errFew = errors.New("too few servers acknowledged it")

// backoff waits before the nth retry, with full jitter: two callers that collided come back at
// different times.
func backoff(n int) { time.Sleep(rand.N(10 * time.Millisecond << min(n, 5))) }

// retrying reports a retry to the log and the trace. Attempts count from 1.
func (s *Store) retrying(attempt int, err error) {
	s.o.Logger.Info(backend+": retrying; nothing was applied", "attempt", attempt, "error", err)
	if s.o.Trace.Retry != nil {
		s.o.Trace.Retry(store.Retry{Backend: backend, Attempt: attempt, Err: err})
	}
}
