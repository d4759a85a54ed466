package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// crowd makes calls at once and reports their errors with the reason of the rule. If the calls have
// not returned within the suite's patience, t fails and their contexts end. The calls must not use
// t, which may have ended by the time at which they return.
func (s *suite) crowd(t *testing.T, why string, callers int, call func(ctx context.Context, g int) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error, callers)
	for g := range callers {
		go func() { errs <- call(ctx, g) }()
	}
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	for range callers {
		select {
		case err := <-errs:
			if err != nil {
				t.Errorf("%v\nwhy: %s", err, why)
			}
		case <-timer.C:
			t.Fatalf("calls have not returned after %v: deadlock?\nwhy: %s", s.patience, why)
		}
	}
}

// wants returns an error that shows the answer to a call, unless it is as wanted.
func wants(ok bool, call string, got any, err error) error {
	if ok && err == nil {
		return nil
	}
	return fmt.Errorf("%s: %+v, error %q", call, got, fmt.Sprint(err))
}

// contest lets callers race for the same buckets, through one or more handles on the same data.
type contest struct {
	*suite
	handles []store.Store
	callers int
	rounds  int
}

// races races callers through one handle.
func (s *suite) races(t *testing.T) {
	st := s.real(t)
	s.contest(t, 64, 6, st)
	t.Run("nothing shows of a refused transaction", func(t *testing.T) { s.invisible(t, st) })
	t.Run("everything at once", func(t *testing.T) { s.everything(t, st) })
}

// peerRaces does the same through two handles on the same data.
func (s *suite) peerRaces(t *testing.T) {
	st := s.real(t)
	other := s.o.Peer(t, st)
	s.closeAtEnd(t, &other)
	s.contest(t, 64, 6, st, other)
}

// reading is the time that a slow clock takes for one reading. With 16 callers each of them waits
// for more than a millisecond. From then on, a mutex of package sync is fair: its holder hands it
// to the longest waiter and queues up to lock it again. The mutex measures the wall time, so this
// clock has to sleep.
const reading = 200 * time.Microsecond

// slowClock races callers on a slow clock. All callers of a store that reads the clock under its
// lock wait for the lock all the time. If the store releases the lock before it has finished,
// another caller always comes in between.
func (s *suite) slowClock(t *testing.T) {
	s.contest(t, 16, 2, *s.reopenable(t, func() time.Time {
		time.Sleep(reading)
		return time.UnixMicro(start)
	}))
}

func (s *suite) contest(t *testing.T, callers, rounds int, handles ...store.Store) {
	c := &contest{s, handles, callers, rounds}
	t.Run("exactly the capacity", c.exactly)
	t.Run("first use", c.firstUse)
	t.Run("overlapping keys", c.overlapping)
	t.Run("holds", c.holds)
}

// race makes n calls, each by the next caller that is free.
func (c *contest) race(t *testing.T, why string, n int, call func(ctx context.Context, i int, st store.Store) error) {
	t.Helper()
	var next atomic.Int64
	c.crowd(t, why, c.callers, func(ctx context.Context, _ int) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			if err := call(ctx, i, c.handles[i%len(c.handles)]); err != nil {
				return err
			}
		}
	})
}

// level reads the level of a bucket and compares it.
func (c *contest) level(t *testing.T, why string, b store.Bucket, want int64) {
	t.Helper()
	got, err := c.handles[0].Read(t.Context(), b)
	if err != nil || got[0].Level != float64(want) || got[0].Held != 0 {
		t.Errorf("%s afterwards: %+v, %v; want level %d and nothing held\nwhy: %s", b.Key, got, err, want, why)
	}
}

// exactly makes 400 tries for one unit. A bucket of 100 units that does not leak must accept
// exactly 100.
func (c *contest) exactly(t *testing.T) {
	const why = "a fill decided from an earlier read, or without a lock until the write, lets racing callers overfill"
	for round := range c.rounds {
		b := store.Limit{Capacity: 100}.For(fmt.Sprintf("exactly/%d", round))
		var accepted, fulls atomic.Int64
		c.race(t, why, 400, func(ctx context.Context, _ int, st store.Store) error {
			got, err := tryVia(ctx, st, store.Op{Bucket: b, Amount: 1}, round%2 == 1)
			if got.Accepted {
				accepted.Add(1)
			}
			if got.Full {
				fulls.Add(1)
			}
			return wants(got.Level <= 100 && got.Accepted == (got.RetryAfter == 0), "try of 1 in 100", got, err)
		})
		if accepted.Load() != 100 || fulls.Load() != 1 {
			t.Errorf("round %d: %d of 400 accepted and %d of them Full, want exactly 100 and 1\nwhy: %s",
				round, accepted.Load(), fulls.Load(), why)
		}
		c.level(t, why, b, 100)
	}
}

// tryVia decides op by Fill, or by Apply.
func tryVia(ctx context.Context, st store.Store, op store.Op, apply bool) (store.State, error) {
	if !apply {
		return st.Fill(ctx, op)
	}
	res, err := st.Apply(ctx, store.Txn{op})
	switch {
	case err != nil:
		return store.State{}, err
	case len(res) != 1 || len(res[0].States) != 1 && res[0].Err == nil:
		return store.State{}, fmt.Errorf("Apply of one operation returns %+v", res)
	case res[0].Err != nil:
		return store.State{}, res[0].Err
	}
	return res[0].States[0], nil
}

// firstUse races for keys that do not exist yet.
func (c *contest) firstUse(t *testing.T) {
	const why = "if two callers use a key for the first time at once, neither fails and no fill is lost"
	const each = 16
	b := func(key int) store.Bucket { return store.Limit{Capacity: 1000}.For(fmt.Sprintf("first/%d", key)) }
	c.race(t, why, 12*each, func(ctx context.Context, i int, st store.Store) error {
		op := store.Op{Bucket: b(i / each), Amount: 1, Mode: store.Mode(i / each % 3)}
		got, err := tryVia(ctx, st, op, i/2%2 == 1)
		return wants(got.Accepted, "first use", got, err)
	})
	for key := range 12 {
		c.level(t, why, b(key), each)
	}
}

// overlapping fills overlapping sets of keys in random order, and compares the levels with the
// accepted transactions.
func (c *contest) overlapping(t *testing.T) {
	const why = "callers may name keys in any order without a deadlock, and no transaction goes in by half"
	const keys = 8
	b := func(key int) store.Bucket { return store.Limit{Capacity: 100}.For(fmt.Sprintf("overlap/%d", key)) }
	var filled [keys]atomic.Int64
	var refused atomic.Int64
	c.race(t, why, 400, func(ctx context.Context, i int, st store.Store) error {
		rng := rand.New(rand.NewPCG(uint64(i), 15))
		chosen := rng.Perm(keys)[:2+rng.IntN(4)]
		var txn store.Txn
		for _, k := range chosen {
			txn = append(txn, store.Op{Bucket: b(k), Amount: float64(1 + k%2)})
		}
		res, err := st.Apply(ctx, txn)
		if err != nil || len(res) != 1 || res[0].Err != nil {
			return wants(false, "Apply", res, err)
		}
		waits, ok := 0, true
		for _, state := range res[0].States {
			if state.RetryAfter != 0 {
				waits++
			}
			ok = ok && state.Accepted == res[0].Accepted && state.Level <= 100
		}
		if !res[0].Accepted {
			refused.Add(1)
			return wants(ok && waits > 0, "refused transaction", res[0], nil)
		}
		for _, k := range chosen {
			filled[k].Add(int64(1 + k%2))
		}
		return wants(ok && waits == 0, "accepted transaction", res[0], nil)
	})
	for k := range keys {
		c.level(t, why, b(k), filled[k].Load())
	}
	if refused.Load() == 0 {
		t.Error("no transaction was refused, although they exceed the capacities")
	}
}

// holds holds and captures. Level and held units together must never exceed the capacity, and no
// hold may be left.
func (c *contest) holds(t *testing.T) {
	const why = "nobody else may use the room of a hold before it is captured or released"
	b := store.Limit{Capacity: 40}.For("holds")
	hold := store.Op{Bucket: b, Hold: 2}
	var captured atomic.Int64
	if !c.supports(hold, store.Op{Bucket: b, Amount: 1, Hold: -2, Mode: store.Always}) {
		t.Skip("the store does not support holds")
	}
	c.race(t, why, 192, func(ctx context.Context, i int, st store.Store) error {
		got, err := st.Fill(ctx, hold)
		if err != nil || got.Level+got.Held > 40 {
			return wants(false, "hold", got, err)
		}
		if !got.Accepted {
			return nil
		}
		captured.Add(int64(i % 2))
		got, err = st.Fill(ctx, store.Op{Bucket: b, Hold: -2, Amount: float64(i % 2), Mode: store.Always})
		return wants(got.Accepted, "capture", got, err)
	})
	c.level(t, why, b, captured.Load())
}

// invisible reads a bucket while transactions are refused that fit into this bucket but not into
// another.
func (s *suite) invisible(t *testing.T, st store.Store) {
	const why = "if a store puts an amount in and takes it out again, other callers find it, and it stays in " +
		"after a crash"
	limit := store.Limit{Capacity: 10}
	a, b := limit.For("seen/a"), limit.For("seen/b")
	if _, err := st.Fill(t.Context(), store.Op{Bucket: b, Amount: 10}); err != nil {
		t.Fatal(err)
	}
	s.crowd(t, why, 8, func(ctx context.Context, g int) error {
		for range 50 {
			if g%2 == 0 {
				res, err := st.Apply(ctx, store.Txn{{Bucket: a, Amount: 6}, {Bucket: b, Amount: 1}})
				if err != nil || res[0].Accepted {
					return wants(false, "Apply, which must be refused", res, err)
				}
				continue
			}
			// A refused call reports the level too.
			got, err := st.Read(ctx, a)
			refused, err2 := st.Fill(ctx, store.Op{Bucket: a, Amount: 11})
			if err := errors.Join(err, err2); err != nil || got[0].Level != 0 || refused.Level != 0 {
				return wants(false, "Read, and a refusal", []any{got, refused}, err)
			}
		}
		return nil
	})
}

// everything calls all methods at once. None may fail, and the fills must add up.
func (s *suite) everything(t *testing.T, st store.Store) {
	const why = "methods that meet neither fail nor lose a fill"
	limit := store.Limit{Capacity: 1 << 40}
	one := func(key string) store.Op { return store.Op{Bucket: limit.For("all/" + key), Amount: 1} }
	s.crowd(t, why, 24, func(ctx context.Context, g int) (err error) {
		for i := 0; i < 10 && err == nil; i++ {
			gone := fmt.Sprintf("gone/%d", i)
			switch g % 8 {
			case 0:
				err = touch(ctx, st, "all/")
			case 1:
				_, err = st.Prune(ctx)
			case 2:
				err = st.Delete(ctx, "all/"+gone, "all/none")
			case 3:
				_, err = st.Read(ctx, limit.For("all/a"), limit.For("all/b"))
			case 4:
				_, err = st.Fill(ctx, one(gone))
			case 5:
				_, err = st.Apply(ctx, store.Txn{one("b"), one("a")})
			default:
				_, err = st.Fill(ctx, one("a"))
			}
		}
		return err
	})
	got, err := st.Read(t.Context(), limit.For("all/a"), limit.For("all/b"))
	if err != nil || got[0].Level != 90 || got[1].Level != 30 {
		t.Errorf("afterwards %+v, %v; want levels 90 and 30\nwhy: %s", got, err, why)
	}
}

// waiters runs callers on a clock that advances at every reading. So a caller that waits for a lock
// has read an earlier time than the caller before it stores. The same interval must not leak twice.
func (s *suite) waiters(t *testing.T) {
	const why = "a timestamp taken before the lock is older than the stored time; the bucket's time must not go back"
	var us, accepted atomic.Int64
	us.Store(start)
	st := *s.reopenable(t, func() time.Time { return time.UnixMicro(us.Add(10_000)) })
	// A sixteenth of a unit leaks per reading, so that most of the 960 calls find room: a refused
	// call stores no time.
	b := store.Limit{Capacity: 320, LeakRate: 6.25}.For("b")
	s.crowd(t, why, 16, func(ctx context.Context, _ int) error {
		var last time.Time
		for range 60 {
			got, err := st.Fill(ctx, store.Op{Bucket: b, Amount: 1})
			if err != nil || !got.Estimate && got.At.Before(last) { // an estimated At is a lower bound
				return wants(false, fmt.Sprint("fill after the time ", last), got, err)
			}
			if got.Accepted {
				accepted.Add(1)
			}
			last = got.At
		}
		return nil
	})
	elapsed := float64(us.Load()-start) / 1e6
	if bound := b.Capacity + b.LeakRate*elapsed; float64(accepted.Load()) > bound {
		t.Errorf("%d units accepted in %v s, want at most %v\nwhy: %s", accepted.Load(), elapsed, bound, why)
	}
}
