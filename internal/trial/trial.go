// Package trial finds out whether a store decides, by decisions on buckets of its own.
package trial

import (
	"context"
	"crypto/rand"

	"github.com/brimgo/brim/store"
)

// Prefix begins the keys of all buckets of a trial.
const Prefix = "brim.check/"

// Key returns a key that nobody else uses.
func Key() string { return Prefix + rand.Text() }

// limit is the limit of the buckets of a trial. A bucket that a trial leaves behind is empty two
// minutes later. Less than a unit leaks while a trial lasts.
var limit = store.Limit{Capacity: 2, LeakRate: 1. / 60}

// Failure is a decision of a trial that failed, or that was wrong.
type Failure struct {
	Step string // the decision, for instance "a fill"
	Err  error  // of the store, or nil if the decision was wrong
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return f.Step + " had a wrong answer"
	}
	return f.Step + " failed: " + f.Err.Error()
}

func (f *Failure) Unwrap() error { return f.Err }

// Keys returns the keys of the buckets of a trial.
func Keys(key string) []string { return []string{key, key + "/2"} }

// Decide makes one decision of each kind on two buckets whose keys begin with key: a fill, a
// hold, a refusal, a transaction over both, and a read. It returns a *Failure for the first that
// fails. The buckets stay; the caller rolls back, deletes them, or lets them expire.
func Decide(ctx context.Context, s store.Store, key string) (err error) {
	keys := Keys(key)
	held := false
	defer func() {
		if err != nil && held { // a bucket with held units would stay for ever
			_ = s.Delete(ctx, keys...)
		}
	}()
	one, two := limit.For(keys[0]), limit.For(keys[1])
	for _, c := range []struct {
		step     string
		op       store.Op
		accepted bool
	}{
		{"a fill", store.Op{Bucket: one, Amount: 1, Mode: store.IfFits}, true},
		{"a hold", store.Op{Bucket: one, Hold: 1, Mode: store.IfFits}, true},
		{"a fill that does not fit", store.Op{Bucket: one, Amount: 1, Mode: store.IfFits}, false},
	} {
		held = held || c.op.Hold > 0
		if st, err := s.Fill(ctx, c.op); err != nil || st.Accepted != c.accepted {
			return &Failure{c.step, err}
		}
	}
	results, err := s.Apply(ctx, store.Txn{
		{Bucket: one, Hold: -1, Amount: 1, Mode: store.Always}, {Bucket: two, Amount: 1, Mode: store.IfFits},
	})
	if err == nil {
		err = results[0].Err
	}
	if err != nil || !results[0].Accepted {
		return &Failure{"a transaction over two buckets", err}
	}
	states, err := s.Read(ctx, one, two)
	if err != nil || states[0].Level <= 1 || states[1].Level <= 0 {
		return &Failure{"a read", err}
	}
	return nil
}

// Commit fills a bucket of a trial and deletes it again.
func Commit(ctx context.Context, s store.Store) error {
	key := Key()
	if _, err := s.Fill(ctx, store.Op{Bucket: limit.For(key), Amount: 1, Mode: store.IfFits}); err != nil {
		return &Failure{"a fill", err}
	}
	if err := s.Delete(ctx, key); err != nil {
		return &Failure{"a delete", err}
	}
	return nil
}
