package brim_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// calls holds a valid call of every method of a Limiter.
var calls = map[string]func(ctx context.Context, l *brim.Limiter) error{
	"TryFillup": func(ctx context.Context, l *brim.Limiter) error {
		_, err := l.TryFillup(ctx, tens.For("k"), 1)
		return err
	},
	"Fillup": func(ctx context.Context, l *brim.Limiter) error {
		_, err := l.Fillup(ctx, tens.For("k"), 1)
		return err
	},
	"AbleToAccept": func(ctx context.Context, l *brim.Limiter) error {
		_, err := l.AbleToAccept(ctx, tens.For("k"), 1)
		return err
	},
	"State":   func(ctx context.Context, l *brim.Limiter) error { _, err := l.State(ctx, tens.For("k")); return err },
	"StateOf": func(ctx context.Context, l *brim.Limiter) error { _, err := l.StateOf(ctx, "k"); return err },
	"Drain":   func(ctx context.Context, l *brim.Limiter) error { _, err := l.Drain(ctx, tens.For("k"), 1); return err },
	"Hold":    func(ctx context.Context, l *brim.Limiter) error { _, err := l.Hold(ctx, tens.For("k"), 1); return err },
	"Capture": func(ctx context.Context, l *brim.Limiter) error {
		_, err := l.Capture(ctx, tens.For("k"), 1, 1)
		return err
	},
	"Release": func(ctx context.Context, l *brim.Limiter) error {
		_, err := l.Release(ctx, tens.For("k"), 1)
		return err
	},
	"TryFillupAll": func(ctx context.Context, l *brim.Limiter) error {
		_, err := l.TryFillupAll(ctx, brim.Fill{Bucket: tens.For("k"), Amount: 1})
		return err
	},
	"List": func(ctx context.Context, l *brim.Limiter) error {
		for _, err := range l.List(ctx, "") {
			return err
		}
		return nil
	},
	"Block": func(ctx context.Context, l *brim.Limiter) error {
		_, err := l.Block(ctx, tens.For("k"), 1e9)
		return err
	},
	"Unblock": func(ctx context.Context, l *brim.Limiter) error { _, err := l.Unblock(ctx, "k"); return err },
	"Reset":   func(ctx context.Context, l *brim.Limiter) error { return l.Reset(ctx, "k") },
	"Prune":   func(ctx context.Context, l *brim.Limiter) error { _, err := l.Prune(ctx); return err },
}

func TestClosed(t *testing.T) {
	closed, s, _ := open(t, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*brim.Limiter{
		"zero":                 new(brim.Limiter),
		"no store":             brim.New(nil, nil),
		"no store, but prefix": brim.New(nil, &brim.Options{Prefix: "p:"}),
		"closed store":         closed,
	} {
		for method, call := range calls {
			if err := call(t.Context(), l); !errors.Is(err, brim.ErrClosed) {
				t.Errorf("%s: %s = %v; want ErrClosed", name, method, err)
			}
		}
	}
}

func TestContextDone(t *testing.T) {
	l, s, _ := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for method, call := range calls {
		if err := call(ctx, l); !errors.Is(err, context.Canceled) {
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
		l := brim.New(s, nil)
		for method, call := range calls {
			before := s.calls
			if err := call(t.Context(), l); !errors.Is(err, want) {
				t.Errorf("%s = %v; want the store's error, %v", method, err, want)
			}
			if s.calls != before+1 {
				t.Errorf("%s called the store %d times; want once", method, s.calls-before)
			}
		}
	}
}

// A store that fails has not accepted the amount, so Do must not run the function. The error
// must not look like a refusal.
func TestDoStoreFailure(t *testing.T) {
	for _, failure := range []error{brim.ErrUnavailable, brim.ErrUnknownOutcome} {
		l := brim.New(&broken{err: failure}, nil)
		sh, err := brim.NewShaper(l, nil)
		if err != nil {
			t.Fatal(err)
		}
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

// TestInvalid: package store tests each way to be out of range. Here, each method refuses before any
// I/O, and tells no key.
func TestInvalid(t *testing.T) {
	ctx := t.Context()
	limit := func(capacity, rate float64) brim.Bucket {
		return brim.Limit{Capacity: capacity, LeakRate: rate}.For("secret-key")
	}
	key := func(k string) brim.Bucket { return tens.For(k) }
	const big = 1 << 53
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
				b, n := test.bucket, test.n
				byMethod := map[string]error{}
				_, byMethod["TryFillup"] = l.TryFillup(ctx, b, n)
				_, byMethod["Fillup"] = l.Fillup(ctx, b, n)
				_, byMethod["AbleToAccept"] = l.AbleToAccept(ctx, b, n)
				_, byMethod["Drain"] = l.Drain(ctx, b, n)
				_, byMethod["Hold"] = l.Hold(ctx, b, n)
				_, byMethod["Release"] = l.Release(ctx, b, n)
				_, byMethod["Capture, used"] = l.Capture(ctx, b, 1, n)
				_, byMethod["Capture, held"] = l.Capture(ctx, b, n, 1)
				valid := brim.Fill{Bucket: tens.For("other"), Amount: 1}
				_, byMethod["TryFillupAll"] = l.TryFillupAll(ctx, valid, brim.Fill{Bucket: b, Amount: n})
				if !errors.Is(test.want, brim.ErrInvalidAmount) {
					_, byMethod["State"] = l.State(ctx, b)
					_, byMethod["Block"] = l.Block(ctx, b, 1e9)
				}
				if errors.Is(test.want, brim.ErrInvalidKey) {
					_, byMethod["StateOf"] = l.StateOf(ctx, b.Key)
					byMethod["Reset"] = l.Reset(ctx, b.Key)
					_, byMethod["Unblock"] = l.Unblock(ctx, b.Key)
				}
				if errors.Is(test.want, brim.ErrInvalidKey) && b.Key != "" { // an empty prefix lists all buckets
					for _, err := range l.List(ctx, b.Key) {
						byMethod["List"] = err
					}
				}
				for method, err := range byMethod {
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
