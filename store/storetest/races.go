package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// races fills the same buckets from many goroutines through one handle.
func (s *suite) races(t *testing.T) {
	st := s.real(t)
	t.Run("exactly the capacity", func(t *testing.T) { s.exactly(t, st) })
	t.Run("first use", func(t *testing.T) { s.firstUse(t, st) })
	t.Run("holds", func(t *testing.T) { s.racingHolds(t, st) })
	t.Run("everything at once", func(t *testing.T) { s.everything(t, st) })
}

// peerRaces does the same through two handles on the same data.
func (s *suite) peerRaces(t *testing.T) {
	st := s.real(t)
	other := s.o.Peer(t, st)
	s.closeAtEnd(t, &other)
	t.Run("exactly the capacity", func(t *testing.T) { s.exactly(t, st, other) })
	t.Run("first use", func(t *testing.T) { s.firstUse(t, st, other) })
	t.Run("holds", func(t *testing.T) { s.racingHolds(t, st, other) })
}

// exactly makes 400 tries for one unit in 64 goroutines. A bucket of 100 units that does not
// leak must accept exactly 100.
func (s *suite) exactly(t *testing.T, handles ...store.Store) {
	const why = "a fill decided from an earlier read lets racing callers overfill"
	for round := range 6 {
		b := store.Limit{Capacity: 100}.For(fmt.Sprintf("exactly/%d", round))
		var accepted, fulls, tries atomic.Int64
		var wg sync.WaitGroup
		s.finishes(t, "400 tries", func(ctx context.Context) {
			for g := range 64 {
				wg.Go(func() {
					h := handles[g%len(handles)]
					for tries.Add(1) <= 400 {
						got, err := tryVia(ctx, h, store.Op{Bucket: b, Amount: 1}, round%2 == 1)
						if err != nil {
							t.Errorf("try: %v", err)
							return
						}
						if got.Accepted {
							accepted.Add(1)
						}
						if got.Full {
							fulls.Add(1)
						}
						if got.Level > 100 || got.Accepted == (got.RetryAfter != 0) {
							t.Errorf("%+v: want a level of at most 100, and a RetryAfter if and only if "+
								"refused\nwhy: %s",
								got, why)
							return
						}
					}
				})
			}
			wg.Wait()
		})
		if accepted.Load() != 100 || fulls.Load() != 1 {
			t.Errorf("round %d: %d of 400 accepted and %d of them Full, want exactly 100 and 1\nwhy: %s",
				round, accepted.Load(), fulls.Load(), why)
		}
		if got, err := handles[0].Read(t.Context(), b); err != nil || got[0].Level != 100 {
			t.Errorf("round %d: afterwards %+v, %v; want level 100", round, got, err)
		}
	}
}

// tryVia decides op by Fill, or by Apply.
func tryVia(ctx context.Context, st store.Store, op store.Op, apply bool) (store.State, error) {
	if !apply {
		return st.Fill(ctx, op)
	}
	res, err := st.Apply(ctx, store.Txn{op})
	if err != nil {
		return store.State{}, err
	}
	if len(res) != 1 || len(res[0].States) != 1 && res[0].Err == nil {
		return store.State{}, fmt.Errorf("Apply of one operation returns %+v", res)
	}
	if res[0].Err != nil {
		return store.State{}, res[0].Err
	}
	return res[0].States[0], nil
}

// firstUse races for keys that do not exist yet.
func (s *suite) firstUse(t *testing.T, handles ...store.Store) {
	const why = "if two callers use a key for the first time at once, neither fails and no fill is lost"
	for i := range 12 {
		b := store.Limit{Capacity: 1000}.For(fmt.Sprintf("first/%d", i))
		op := store.Op{Bucket: b, Amount: 1, Mode: store.Mode(i % 3)}
		if !s.supports(op) {
			continue
		}
		gate := make(chan struct{})
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				<-gate
				got, err := tryVia(t.Context(), handles[g%len(handles)], op, (g/2)%2 == 1)
				if err != nil || !got.Accepted {
					t.Errorf("first use: %+v, %v\nwhy: %s", got, err, why)
				}
			})
		}
		close(gate)
		s.finishes(t, "first use", func(context.Context) { wg.Wait() })
		if got, err := handles[0].Read(t.Context(), b); err != nil || got[0].Level != 16 {
			t.Errorf("after 16 fills of 1: %+v, %v\nwhy: %s", got, err, why)
		}
	}
}

// racingHolds holds and captures from many goroutines. Level and held units together must never
// exceed the capacity, and no hold may be left.
func (s *suite) racingHolds(t *testing.T, handles ...store.Store) {
	const why = "nobody else may use the room of a hold before it is captured or released"
	b := store.Limit{Capacity: 40}.For("holds")
	if !s.supports(store.Op{Bucket: b, Hold: 1}, store.Op{Bucket: b, Amount: 1, Hold: -1, Mode: store.Always}) {
		t.Log("left out because the store does not support holds")
		return
	}
	var captured atomic.Int64
	var wg sync.WaitGroup
	s.finishes(t, "racing holds", func(ctx context.Context) {
		for g := range 32 {
			wg.Go(func() {
				st := handles[g%len(handles)]
				for i := range 6 {
					got, err := st.Fill(ctx, store.Op{Bucket: b, Hold: 2})
					if err != nil || got.Level+got.Held > 40 {
						t.Errorf("hold: %+v, %v\nwhy: %s", got, err, why)
						return
					}
					if !got.Accepted {
						continue
					}
					used := float64((g + i) % 2)
					got, err = st.Fill(ctx, store.Op{Bucket: b, Hold: -2, Amount: used, Mode: store.Always})
					if err != nil || !got.Accepted {
						t.Errorf("capture: %+v, %v\nwhy: %s", got, err, why)
						return
					}
					captured.Add(int64(used))
				}
			})
		}
		wg.Wait()
	})
	got, err := handles[0].Read(t.Context(), b)
	if err != nil || got[0].Held != 0 || got[0].Level != float64(captured.Load()) {
		t.Errorf("afterwards %+v, %v; want nothing held and level %d\nwhy: %s", got, err, captured.Load(), why)
	}
}

// everything calls all methods at once. None may fail, and the fills must add up.
func (s *suite) everything(t *testing.T, handles ...store.Store) {
	st := handles[0]
	limit := store.Limit{Capacity: 1 << 40}
	var wg sync.WaitGroup
	s.finishes(t, "all methods at once", func(ctx context.Context) {
		for g := range 24 {
			wg.Go(func() {
				for i := range 10 {
					var err error
					switch g % 8 {
					case 0:
						err = touch(ctx, st, "all/")
					case 1:
						_, err = st.Prune(ctx)
					case 2:
						err = st.Delete(ctx, fmt.Sprintf("all/gone/%d", i), "all/none")
					case 3:
						_, err = st.Read(ctx, limit.For("all/a"), limit.For("all/b"))
					case 4:
						_, err = st.Fill(ctx, store.Op{Bucket: limit.For(fmt.Sprintf("all/gone/%d", i)), Amount: 1})
					case 5:
						_, err = st.Apply(ctx, store.Txn{
							{Bucket: limit.For("all/b"), Amount: 1}, {Bucket: limit.For("all/a"), Amount: 1},
						})
					default:
						_, err = st.Fill(ctx, store.Op{Bucket: limit.For("all/a"), Amount: 1})
					}
					if err != nil {
						t.Errorf("goroutine %d: %v", g, err)
					}
				}
			})
		}
		wg.Wait()
	})
	got, err := st.Read(t.Context(), limit.For("all/a"), limit.For("all/b"))
	if err != nil || got[0].Level != 90 || got[1].Level != 30 {
		t.Errorf("afterwards %+v, %v; want levels 90 and 30", got, err)
	}
}

// waiters runs callers on a clock that advances at every reading. So a caller that waits for a
// lock brings an older time than the caller before it stored. The same interval must not leak
// twice.
func (s *suite) waiters(t *testing.T) {
	const why = "a timestamp taken before the lock is older than the stored time; the bucket's time must not go back"
	var us atomic.Int64
	us.Store(start)
	const tick = 10_000
	st := s.o.OpenAt(t, func() time.Time { return time.UnixMicro(us.Add(tick)) })
	s.closeAtEnd(t, &st)
	// A sixteenth of a unit leaks per reading, so that most of the 960 calls find room: a
	// refused call stores no time.
	b := store.Limit{Capacity: 320, LeakRate: 6.25}.For("b")
	var accepted atomic.Int64
	var wg sync.WaitGroup
	s.finishes(t, "callers on a moving clock", func(ctx context.Context) {
		for range 16 {
			wg.Go(func() {
				var last time.Time
				for i := range 60 {
					got, err := st.Fill(ctx, store.Op{Bucket: b, Amount: 1})
					if err != nil {
						t.Errorf("fill: %v", err)
						return
					}
					if got.Accepted {
						accepted.Add(1)
					}
					if i > 0 && got.At.Before(last) {
						t.Errorf("the bucket's time went back from %v to %v\nwhy: %s", last, got.At, why)
					}
					last = got.At
				}
			})
		}
		wg.Wait()
	})
	elapsed := float64(us.Load()-start) / 1e6
	if bound := b.Capacity + b.LeakRate*elapsed; float64(accepted.Load()) > bound {
		t.Errorf("%d units accepted in %v s, want at most %v\nwhy: %s", accepted.Load(), elapsed, bound, why)
	}
}
