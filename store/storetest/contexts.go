package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// method is a valid call of a method that takes a context.
type method struct {
	name string
	call func(ctx context.Context, st store.Store) error
}

// methods returns a call of every method that takes a context, and of each mode that the store
// supports and that is not decided like a fill.
func (s *suite) methods() []method {
	b := store.Limit{Capacity: 10}.For("b")
	calls := []method{
		{"Fill", func(ctx context.Context, st store.Store) error {
			_, err := st.Fill(ctx, store.Op{Bucket: b, Amount: 1})
			return err
		}},
		{"Fill of 0", func(ctx context.Context, st store.Store) error {
			_, err := st.Fill(ctx, store.Op{Bucket: b})
			return err
		}},
		{"Apply", func(ctx context.Context, st store.Store) error {
			one := store.Op{Bucket: b, Amount: 1}
			_, err := st.Apply(ctx, store.Txn{one}, store.Txn{one, one})
			return err
		}},
		{"Read", func(ctx context.Context, st store.Store) error {
			_, err := st.Read(ctx, b)
			return err
		}},
		{"Delete", func(ctx context.Context, st store.Store) error { return st.Delete(ctx, "kept") }},
		{"Prune", func(ctx context.Context, st store.Store) error {
			_, err := st.Prune(ctx)
			return err
		}},
		{"Visit", func(ctx context.Context, st store.Store) error {
			return st.Visit(ctx, "", func(store.Entry) bool { return true })
		}},
	}
	for name, op := range map[string]store.Op{
		"Ask":     {Bucket: b, Amount: 1, Mode: store.Ask},
		"Block":   {Bucket: store.Limit{Capacity: 10}.For("blocked"), BlockFor: time.Hour, Mode: store.Block},
		"Unblock": {Bucket: store.Bucket{Key: "blocked"}, Mode: store.Unblock},
	} {
		if !s.supports(op) {
			continue
		}
		calls = append(calls, method{name, func(ctx context.Context, st store.Store) error {
			_, err := st.Fill(ctx, op)
			return err
		}}, method{name + " in Apply", func(ctx context.Context, st store.Store) error {
			_, err := st.Apply(ctx, store.Txn{op})
			return err
		}})
	}
	return calls
}

func (s *suite) contexts(t *testing.T) {
	t.Run("already done", s.contextDone)
	t.Run("cancelled in flight", s.contextInFlight)
}

// contextDone calls every method with a context that is already done.
func (s *suite) contextDone(t *testing.T) {
	const why = "if the context is already done, a method returns the context's error and does nothing"
	st := s.real(t)
	if _, err := st.Fill(t.Context(), store.Op{Bucket: store.Limit{Capacity: 10}.For("kept"), Amount: 3}); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Hour))
	defer cancel()
	for _, m := range s.methods() {
		for _, c := range []struct {
			ctx  context.Context
			want error
		}{{cancelled, context.Canceled}, {late, context.DeadlineExceeded}} {
			err := m.call(c.ctx, st)
			if !errors.Is(err, c.want) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("%s: %v, want %v\nwhy: %s", m.name, err, c.want, why)
			}
		}
	}
	list := entriesOf(t, st, "")
	if len(list) != 1 || list[0].Key != "kept" || list[0].Level != 3 {
		t.Errorf("afterwards %+v; want one unchanged bucket\nwhy: %s", list, why)
	}
}

// contextInFlight cancels some callers in the middle of a call, beside callers that are not
// cancelled.
func (s *suite) contextInFlight(t *testing.T) {
	const (
		why       = "an error other than ErrUnknownOutcome means that nothing was applied"
		neighbour = "the cancelled context of one caller must not fail or delay its neighbours"
	)
	st := s.real(t)
	limit := store.Limit{Capacity: 1 << 50}
	hot, cold := limit.For("hot"), func(g int) store.Bucket { return limit.For(fmt.Sprintf("cold/%d", g%4)) }
	var acknowledged, unknown, kept, cancelling atomic.Int64
	count := func(err error, n int64) {
		switch {
		case err == nil:
			acknowledged.Add(n)
		case errors.Is(err, store.ErrUnknownOutcome):
			unknown.Add(n)
		case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("cancelled call: %v, want the context's error or ErrUnknownOutcome", err)
		}
	}
	var wg sync.WaitGroup
	s.finishes(t, "cancelled callers", func(ctx context.Context) {
		cancelling.Store(16)
		for range 8 {
			wg.Go(func() {
				// A neighbour calls until a call of its own has begun after the last cancelled
				// one: it cannot be done before the others have been cancelled.
				for last := false; !last; {
					last = cancelling.Load() == 0
					got, err := st.Fill(ctx, store.Op{Bucket: hot, Amount: 1})
					if err != nil || !got.Accepted {
						t.Errorf("caller that was not cancelled: %+v, %v\nwhy: %s", got, err, neighbour)
						return
					}
					kept.Add(1)
				}
			})
		}
		for g := range 16 {
			wg.Go(func() {
				defer cancelling.Add(-1)
				for i := range 20 {
					// The timeouts differ, so that some calls are cancelled before they are
					// sent, some in flight, and some too late.
					short, cancel := context.WithTimeout(ctx, time.Duration(g*i%32)*32*time.Microsecond)
					if g%2 == 0 {
						_, err := st.Fill(short, store.Op{Bucket: hot, Amount: 1})
						count(err, 1)
					} else {
						res, err := st.Apply(short, store.Txn{{Bucket: cold(g), Amount: 1}, {Bucket: hot, Amount: 1}})
						if err == nil {
							err = res[0].Err
						}
						count(err, 1)
					}
					cancel()
				}
			})
		}
		wg.Wait()
	})
	s.finishes(t, "fills after the cancelled ones", func(ctx context.Context) {
		res, err := st.Apply(ctx, store.Txn{
			{Bucket: hot, Amount: 1}, {Bucket: cold(0), Amount: 1}, {Bucket: cold(1), Amount: 1},
		})
		if err != nil || !res[0].Accepted {
			t.Errorf("%+v, %v\nwhy: %s", res, err, neighbour)
		}
		kept.Add(1)
	})
	got, err := st.Read(t.Context(), hot)
	if err != nil {
		t.Fatal(err)
	}
	stored, least := int64(got[0].Level), acknowledged.Load()+kept.Load()
	if stored < least || stored > least+unknown.Load() {
		t.Errorf("stored %d, acknowledged %d, unknown outcome %d; want acknowledged <= stored <= acknowledged + "+
			"unknown\nwhy: %s",
			stored, least, unknown.Load(), why)
	}
}
