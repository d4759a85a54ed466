package brim_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// argument is a part of the arguments of a method.
type argument int

const (
	anAmount argument = iota
	aLimit
	aKey
	none
)

// failures calls the methods of l that take the argument, or all for none, and returns their errors
// by name.
func failures(ctx context.Context, l *brim.Limiter, taking argument, b brim.Bucket, n float64) map[string]error {
	errs := map[string]error{}
	_, errs["TryFillup"] = l.TryFillup(ctx, b, n)
	_, errs["Fillup"] = l.Fillup(ctx, b, n)
	_, errs["AbleToAccept"] = l.AbleToAccept(ctx, b, n)
	_, errs["Drain"] = l.Drain(ctx, b, n)
	_, errs["Hold"] = l.Hold(ctx, b, n)
	_, errs["Release"] = l.Release(ctx, b, n)
	_, errs["Capture, used"] = l.Capture(ctx, b, 1, n)
	_, errs["Capture, held"] = l.Capture(ctx, b, n, 1)
	valid := brim.Fill{Bucket: tens.For("other"), Amount: 1}
	_, errs["TryFillupAll"] = l.TryFillupAll(ctx, valid, brim.Fill{Bucket: b, Amount: n})
	if taking == anAmount {
		return errs
	}
	_, errs["State"] = l.State(ctx, b)
	if taking == aLimit {
		return errs
	}
	_, errs["Block"] = l.Block(ctx, b.Key, time.Hour)
	_, errs["StateOf"] = l.StateOf(ctx, b.Key)
	errs["Reset"] = l.Reset(ctx, b.Key)
	_, errs["Unblock"] = l.Unblock(ctx, b.Key)
	if b.Key != "" { // an empty prefix lists all buckets
		errs["List"] = nil
		for _, err := range l.List(ctx, b.Key) {
			errs["List"] = err
		}
	}
	if taking == none {
		_, errs["Prune"] = l.Prune(ctx)
	}
	return errs
}

func TestClosed(t *testing.T) {
	closed, s, _ := open(t, nil)
	noError(t, s.Close())
	for name, l := range map[string]*brim.Limiter{
		"zero":                 new(brim.Limiter),
		"no store":             brim.New(nil, nil),
		"no store, but prefix": brim.New(nil, &brim.Options{Prefix: "p:"}),
		"closed store":         closed,
	} {
		for method, err := range failures(t.Context(), l, none, tens.For("k"), 1) {
			if !errors.Is(err, brim.ErrClosed) {
				t.Errorf("%s: %s = %v; want ErrClosed", name, method, err)
			}
		}
	}
}

func TestContextDone(t *testing.T) {
	l, s, _ := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for method, err := range failures(ctx, l, none, tens.For("k"), 1) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context = %v; want the context's error", method, err)
		}
	}
	if entries, err := paging.All(t.Context(), s, ""); err != nil || len(entries) != 0 {
		t.Errorf("calls with a cancelled context left %v, %v in the store; want nothing", entries, err)
	}
}

// broken is a store that counts its calls and fails all of them.
type broken struct {
	calls int
	err   error
}

func (b *broken) fail() error { b.calls++; return b.err }

func (b *broken) Fill(context.Context, store.Op) (store.State, error) {
	return store.State{}, b.fail()
}

func (b *broken) Apply(context.Context, ...store.Txn) ([]store.Result, error) {
	return nil, b.fail()
}

func (b *broken) Read(context.Context, ...store.Bucket) ([]store.State, error) {
	return nil, b.fail()
}
func (b *broken) Delete(context.Context, ...string) error                     { return b.fail() }
func (b *broken) Visit(context.Context, string, func(store.Entry) bool) error { return b.fail() }
func (b *broken) Size(context.Context) (int64, error)                         { return 0, b.fail() }
func (b *broken) Prune(context.Context) (int64, error)                        { return 0, b.fail() }
func (b *broken) Close() error                                                { return b.fail() }

func TestStoreErrors(t *testing.T) {
	for _, want := range []error{brim.ErrUnavailable, brim.ErrUnknownOutcome, brim.ErrCorrupt} {
		s := &broken{err: &store.Error{Backend: "test", Op: "call", Err: want}}
		errs := failures(t.Context(), brim.New(s, nil), none, tens.For("k"), 1)
		for method, err := range errs {
			if !errors.Is(err, want) {
				t.Errorf("%s = %v; want the store's error, %v", method, err, want)
			}
		}
		if s.calls != len(errs) {
			t.Errorf("%d methods called the store %d times; want each once", len(errs), s.calls)
		}
	}
}

// A store that fails has not accepted the amount, so Do must not run the function. The error
// must not look like a refusal.
func TestDoStoreFailure(t *testing.T) {
	for _, failure := range []error{brim.ErrUnavailable, brim.ErrUnknownOutcome} {
		l := brim.New(&broken{err: failure}, nil)
		sh, err := brim.NewShaper(l, nil)
		noError(t, err)
		f := func(context.Context) error { t.Error("Do ran the function"); return nil }
		for name, err := range map[string]error{
			"Limiter": l.Do(t.Context(), tens.For("k"), 1, f),
			"Shaper":  sh.Do(t.Context(), tens.For("k"), 1, f),
		} {
			if !errors.Is(err, failure) || errors.Is(err, brim.ErrOverLimit) {
				t.Errorf("%s: got %v; want %v", name, err, failure)
			}
		}
	}
}

// TestInvalid: package store tests each way to be out of range. Here, each method refuses before
// any I/O, and tells no key.
func TestInvalid(t *testing.T) {
	limit := func(capacity, rate float64) brim.Bucket {
		return brim.Limit{Capacity: capacity, LeakRate: rate}.For("secret-key")
	}
	key := func(k string) brim.Bucket { return tens.For(k) }
	const big = 1 << 53
	taking := map[error]argument{
		brim.ErrInvalidAmount: anAmount, brim.ErrInvalidLimit: aLimit, brim.ErrInvalidKey: aKey,
	}
	for _, test := range []struct {
		name, why string
		bucket    brim.Bucket
		n         float64
		want      error
	}{
		{
			"amount is NaN", "least(100, NaN) is 100 in SQL, so a NaN would fill the bucket silently", limit(10, 1),
			math.NaN(), brim.ErrInvalidAmount,
		},
		{"amount is negative", "Drain gives units back, not a negative fill", limit(10, 1), -1, brim.ErrInvalidAmount},
		{
			"amount lost in rounding", "capacity plus amount equals capacity", limit(big, 1), 0.5,
			brim.ErrInvalidAmount,
		},
		{"no limit", "somebody forgot it; Nobody is another limit", limit(0, 0), 1, brim.ErrInvalidLimit},
		{"leak rate is negative", "a bucket does not fill itself", limit(10, -1), 1, brim.ErrInvalidLimit},
		{
			"period of zero", "the first call refuses the limit that Over returns",
			brim.Over(10, 0).For("secret-key"), 1, brim.ErrInvalidLimit,
		},
		{"key is empty", "all callers who forgot their key would share a bucket", key(""), 1, brim.ErrInvalidKey},
		{"key too long", "a database index could not hold it", key(strings.Repeat("k", 513)), 1, brim.ErrInvalidKey},
		{"key not UTF-8", "the text type of PostgreSQL cannot hold it", key("secret-key\xff"), 1, brim.ErrInvalidKey},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, o := range []*brim.Options{nil, {Prefix: "p:"}} {
				s := &broken{err: errors.New("the store was called")}
				l := brim.New(s, o)
				for method, err := range failures(t.Context(), l, taking[test.want], test.bucket, test.n) {
					if !errors.Is(err, test.want) {
						t.Errorf("%s = %v; want %v: %s", method, err, test.want, test.why)
					} else if strings.Contains(err.Error(), "secret") {
						t.Errorf("%s: the error contains the key, which may be personal data: %v", method, err)
					}
				}
				if s.calls != 0 {
					t.Errorf("the store was called %d times; want 0, because invalid arguments are refused before any I/O",
						s.calls)
				}
			}
		})
	}
}

// The prefix and its length are part of the store's name, so they count towards the key's length.
func TestPrefixLength(t *testing.T) {
	l, _, _ := open(t, &brim.Options{Prefix: "tenant:"})
	if _, err := l.TryFillup(t.Context(), tens.For(strings.Repeat("k", 502)), 1); err != nil {
		t.Errorf("key of 512 bytes with the prefix: %v; want no error", err)
	}
	if _, err := l.TryFillup(t.Context(), tens.For(strings.Repeat("k", 503)), 1); !errors.Is(err, brim.ErrInvalidKey) {
		t.Errorf("key of 513 bytes with the prefix: %v; want ErrInvalidKey", err)
	}
}
