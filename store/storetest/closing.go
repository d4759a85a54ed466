package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/store"
)

// closing tests that every method of a closed store returns ErrClosed.
func (s *suite) closing(t *testing.T) {
	const why = "after Close every method returns ErrClosed; it neither panics nor answers"
	st := s.openReal(t)
	for _, m := range s.methods() {
		if err := m.call(t.Context(), st); err != nil {
			t.Errorf("%s before Close: %v", m.name, err)
		}
	}
	for i := range 3 {
		if err := st.Close(); err != nil {
			t.Errorf("Close number %d: %v, want nil: a second Close does nothing", i+1, err)
		}
		for _, m := range s.methods() {
			if err := calling(t.Context(), m, st); !errors.Is(err, store.ErrClosed) {
				t.Errorf("%s after Close: %v, want ErrClosed\nwhy: %s", m.name, err, why)
			}
		}
	}
}

// calling calls m and turns a panic into an error.
func calling(ctx context.Context, m method, st store.Store) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return m.call(ctx, st)
}

// closingInFlight closes a store under racing callers. After reopening the store must contain
// all acknowledged fills and no failed one.
func (s *suite) closingInFlight(t *testing.T) {
	const why = "calls in flight complete before Close, or fail with ErrClosed: acknowledged fills are stored, " +
		"failed ones are not"
	st := s.openReal(t)
	s.closeAtEnd(t, &st)
	b := store.Limit{Capacity: 1 << 50}.For("b")
	var acknowledged, unknown atomic.Int64
	closing := st
	var wg sync.WaitGroup
	s.finishes(t, "callers racing with Close", func(ctx context.Context) {
		for g := range 16 {
			wg.Go(func() {
				for {
					got, err := tryVia(ctx, closing, store.Op{Bucket: b, Amount: 1}, g%4 == 0)
					switch {
					case err == nil && got.Accepted:
						acknowledged.Add(1)
						continue
					case errors.Is(err, store.ErrUnknownOutcome):
						unknown.Add(1)
					case !errors.Is(err, store.ErrClosed):
						t.Errorf("%+v, %v; want ErrClosed\nwhy: %s", got, err, why)
					}
					return
				}
			})
		}
		wg.Go(func() {
			for acknowledged.Load() < 200 && ctx.Err() == nil {
				// Reads keep this goroutine busy until enough callers have been answered.
				if _, err := closing.Read(ctx, b); err != nil {
					t.Errorf("Read: %v", err)
					break
				}
			}
			if err := closing.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		wg.Wait()
	})
	st = s.o.Reopen(t, st, nil)
	got, err := st.Read(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	stored := int64(got[0].Level)
	if stored < acknowledged.Load() || stored > acknowledged.Load()+unknown.Load() {
		t.Errorf("stored %d, acknowledged %d, outcome unknown %d\nwhy: %s",
			stored, acknowledged.Load(), unknown.Load(), why)
	}
}
