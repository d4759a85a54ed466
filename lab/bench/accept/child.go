package main

import (
	"context"
	"encoding/gob"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

// childEnv is the environment variable that makes this program one of the processes that share a
// bucket. Its value is the connection string of the server.
const childEnv = "BRIM_ACCEPT_CHILD"

// child connects to the server, reports that it is ready, reads its order, works, and returns its
// outcome.
func child(ctx context.Context, url string, in io.Reader, out io.Writer) (err error) {
	server, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	leased, err := local.Leases(server.store, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leased.Close()) }()
	clock, err := ask(ctx, server)
	if err != nil {
		return err
	}
	answers := gob.NewEncoder(out)
	if err := answers.Encode(true); err != nil {
		return err
	}
	var o order
	if err := gob.NewDecoder(in).Decode(&o); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // the parent has given up, because another process failed
		}
		return err
	}
	var s store.Store = leased
	if o.Direct {
		s = server.store
	}
	found, err := work(ctx, brim.New(s, nil), clock, &o)
	if err != nil {
		return err
	}
	return answers.Encode(found)
}

// serverClock is a reading of the server's clock. The monotonic clock of this process adds the
// time since the reading.
type serverClock struct {
	local, server time.Time     // read at the same moment
	unsure        time.Duration // the largest error
}

// ask reads the server's clock many times, and keeps the quickest answer. The server has read its
// clock between question and answer, so the quickest answer is the most exact.
func ask(ctx context.Context, s *server) (c serverClock, err error) {
	c.unsure = time.Hour
	for range 200 {
		before := time.Now()
		server, err := s.now(ctx)
		if err != nil {
			return c, err
		}
		half := time.Since(before) / 2
		if unsure := half + time.Microsecond; unsure < c.unsure { // the server returns whole microseconds
			c = serverClock{before.Add(half), server, unsure}
		}
	}
	return c, nil
}

// work lets all callers ask for one unit after the other until the time is up.
func work(ctx context.Context, lim *brim.Limiter, clock serverClock, o *order) (*outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := clock.local.Add(o.Begin.Sub(clock.server)) // on the clock of this process
	found := &outcome{Admitted: admitted{}, Unsure: clock.unsure}
	var mu sync.Mutex
	var callers sync.WaitGroup
	time.Sleep(time.Until(begin))
	for range leaseCallers {
		callers.Go(func() {
			// Each caller has counters of its own, because shared counters would slow the callers
			// down.
			c := caller{lim: lim, bucket: o.Limit.For(o.Key), begin: begin, unsure: clock.unsure, spans: admitted{}}
			c.slots = make([]uint32, (o.For+time.Second)/slot)
			if err := c.work(ctx, o.For); err != nil {
				cancel(err)
			}
			mu.Lock()
			defer mu.Unlock()
			found.Refused += c.refused
			found.Estimates += c.estimates
			found.Admitted.add(c.all())
		})
	}
	callers.Wait()
	found.Elapsed = time.Since(begin)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return found, nil
}

// caller is one caller with its counters.
type caller struct {
	lim                *brim.Limiter
	bucket             brim.Bucket
	begin              time.Time
	unsure             time.Duration
	slots              []uint32 // units of calls and bursts that began and ended in one slot
	spans              admitted // units of the others
	refused, estimates uint64
}

// burst is the largest number of calls between two readings of the clock. A reading takes a good
// part of the time of a call that is served from memory.
const burst = 16

func (c *caller) work(ctx context.Context, length time.Duration) error {
	for before := time.Since(c.begin); before < length; {
		units := uint32(0)
		for range burst {
			st, err := c.lim.TryFillup(ctx, c.bucket, 1)
			if err != nil {
				return err
			}
			if st.Accepted {
				units++
			} else {
				c.refused++
			}
			if !st.Estimate {
				break // it has asked the store, and took longer than all calls from memory
			}
			c.estimates++
		}
		after := time.Since(c.begin)
		if units > 0 {
			c.note(before, after, units)
		}
		before = after
	}
	return nil
}

// note counts units that were admitted between two times.
func (c *caller) note(before, after time.Duration, units uint32) {
	first, last := int(max(0, before-c.unsure)/slot), int((after+c.unsure)/slot)
	if first == last && first < len(c.slots) {
		c.slots[first] += units
	} else {
		c.spans[span{first, last}] += uint64(units)
	}
}

// all returns all admitted units.
func (c *caller) all() admitted {
	for i, n := range c.slots {
		if n > 0 {
			c.spans[span{i, i}] += uint64(n)
		}
	}
	return c.spans
}
