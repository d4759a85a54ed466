package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestTrace sees that Options.Trace gets flushes and retries, without a key.
func TestTrace(t *testing.T) {
	var requests, retried atomic.Int64
	s := open(t, postgres.Options{Trace: store.Trace{
		Flush: func(f store.Flush) {
			if f.Backend != "postgres" || f.Requests == 0 || f.Took <= 0 || f.Err != nil {
				t.Errorf("%+v", f)
			}
			requests.Add(int64(f.Requests))
		},
		Retry: func(r store.Retry) {
			if r.Backend != "postgres" || r.Attempt != 1 || r.Err == nil {
				t.Errorf("%+v", r)
			}
			retried.Add(1)
		},
	}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if _, err := s.Fill(t.Context(), op(steady.For(secret), 1, store.IfFits)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := s.Apply(t.Context(), store.Txn{op(steady.For(secret), 1, store.IfFits), op(steady.For("other"), 1, store.IfFits)}); err != nil {
		t.Fatal(err)
	}

	// Two transactions lock two rows in opposite order. The server ends one of them, and the
	// store runs it again.
	var met sync.WaitGroup
	met.Add(2)
	for _, keys := range [][2]string{{"a", "b"}, {"b", "a"}} {
		wg.Go(func() {
			var once sync.Once
			if err := s.Update(t.Context(), func(in store.Store) error {
				if _, err := in.Fill(t.Context(), op(steady.For(keys[0]), 1, store.IfFits)); err != nil {
					return err
				}
				once.Do(func() { met.Done(); met.Wait() })
				_, err := in.Fill(t.Context(), op(steady.For(keys[1]), 1, store.IfFits))
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil { // waits for the last flush
		t.Fatal(err)
	}
	if requests.Load() != 41 || retried.Load() != 1 {
		t.Errorf("%d requests in flushes, %d retries; want 41 and 1", requests.Load(), retried.Load())
	}
}
