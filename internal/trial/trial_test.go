package trial_test

import (
	"context"
	"errors"
	"testing"

	"github.com/brimgo/brim/internal/trial"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// faulty is a store of which one call fails, or has a wrong answer.
type faulty struct {
	store.Store
	at    int   // the number of the call, from 1
	err   error // nil makes its answer wrong
	calls int
}

func (f *faulty) now() bool { f.calls++; return f.calls == f.at }

func (f *faulty) Fill(ctx context.Context, op store.Op) (store.State, error) {
	now := f.now()
	if now && f.err != nil {
		return store.State{}, f.err
	}
	st, err := f.Store.Fill(ctx, op)
	if now {
		st.Accepted = !st.Accepted
	}
	return st, err
}

func (f *faulty) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if !f.now() {
		return f.Store.Apply(ctx, txns...)
	}
	return make([]store.Result, len(txns)), f.err
}

func (f *faulty) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if !f.now() {
		return f.Store.Read(ctx, buckets...)
	}
	return make([]store.State, len(buckets)), f.err
}

// TestDecide makes each decision of a trial fail, and be wrong. No held units may stay, since a
// bucket with them never expires.
func TestDecide(t *testing.T) {
	down := errors.New("the store is down")
	steps := []string{"", "a fill", "a hold", "a fill that does not fit", "a transaction over two buckets", "a read"}
	for at, step := range steps {
		for _, err := range []error{nil, down} {
			inner := memory.New(nil)
			got := trial.Decide(t.Context(), &faulty{Store: inner, at: at, err: err}, trial.Key())
			var failure *trial.Failure
			switch {
			case step == "" && got != nil:
				t.Errorf("a store that works: %v", got)
			case step != "" && (!errors.As(got, &failure) || failure.Step != step || !errors.Is(failure.Err, err)):
				t.Errorf("%s: %v", step, got)
			}
			if problem := inner.Visit(t.Context(), "", func(e store.Entry) bool {
				if e.Held > 0 {
					t.Errorf("%s: %v units stay held", step, e.Held)
				}
				return true
			}); problem != nil {
				t.Error(problem)
			}
			_ = inner.Close()
		}
	}
}
