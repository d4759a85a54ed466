package brim_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

// broken is a store that fails every call and counts them.
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
func (b *broken) Delete(context.Context, ...string) error { return b.fail() }
func (b *broken) Scan(context.Context, string, string, int) ([]store.Entry, error) {
	return nil, b.fail()
}
func (b *broken) Prune(context.Context) (int64, error) { return 0, b.fail() }
func (b *broken) Close() error                         { return b.fail() }

func TestStoreErrors(t *testing.T) {
	for _, want := range []error{brim.ErrUnavailable, brim.ErrUnknownOutcome, brim.ErrCorrupt} {
		s := &broken{err: &store.Error{Backend: "test", Op: "call", Err: want}}
		l := brim.New(s, nil)
		for method, call := range calls {
			before := s.calls
			if err := call(t.Context(), l); !errors.Is(err, want) {
				t.Errorf("%s = %v; want what the store answered, %v", method, err, want)
			}
			if s.calls != before+1 {
				t.Errorf("%s called the store %d times; want once", method, s.calls-before)
			}
		}
	}
}

func TestInvalid(t *testing.T) {
	ctx := t.Context()
	inf, nan := math.Inf(1), math.NaN()
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
		{"amount is NaN", "SQL's least(100, NaN) is 100: it would fill silently", limit(10, 1), nan, brim.ErrInvalidAmount},
		{"amount is infinite", "no bucket holds it", limit(10, 1), inf, brim.ErrInvalidAmount},
		{"amount is negative infinity", "no bucket gives it back", limit(10, 1), -inf, brim.ErrInvalidAmount},
		{"amount is negative", "units are given back by Drain, not by a negative fill", limit(10, 1), -1, brim.ErrInvalidAmount},
		{"amount above 2^53", "doubles cannot count it", limit(big, 1), big + 2, brim.ErrInvalidAmount},
		{"amount lost in rounding", "adding it to the capacity changes nothing", limit(big, 1), 0.5, brim.ErrInvalidAmount},
		{"capacity is zero", "nothing ever fits", limit(0, 1), 1, brim.ErrInvalidLimit},
		{"capacity is negative", "nothing ever fits", limit(-1, 1), 1, brim.ErrInvalidLimit},
		{"capacity is NaN", "no comparison with it holds", limit(nan, 1), 1, brim.ErrInvalidLimit},
		{"capacity is infinite", "the limit is wrong, not the amount", limit(inf, 1), 1, brim.ErrInvalidLimit},
		{"capacity above 2^53", "the limit is wrong, not the amount", limit(2*big, 1), 1, brim.ErrInvalidLimit},
		{"leak rate is negative", "buckets do not fill themselves", limit(10, -1), 1, brim.ErrInvalidLimit},
		{"leak rate is NaN", "no comparison with it holds", limit(10, nan), 1, brim.ErrInvalidLimit},
		{"leak rate is infinite", "the bucket would always be empty", limit(10, inf), 1, brim.ErrInvalidLimit},
		{"leak rate below 1e-12", "times to empty would overflow", limit(10, 1e-13), 1, brim.ErrInvalidLimit},
		{"leak rate above 2^53", "doubles cannot count it", limit(10, 2*big), 1, brim.ErrInvalidLimit},
		{"period of zero", "Over says that it is refused at the call", brim.Over(10, 0).For("secret-key"), 1, brim.ErrInvalidLimit},
		{"negative period", "Over says that it is refused at the call", brim.Over(10, -1).For("secret-key"), 1, brim.ErrInvalidLimit},
		{"key is empty", "every caller who forgot it would share a bucket", key(""), 1, brim.ErrInvalidKey},
		{"key too long", "an index could not hold it", key(strings.Repeat("k", 513)), 1, brim.ErrInvalidKey},
		{"key with NUL", "PostgreSQL's text cannot hold it", key("secret\x00key"), 1, brim.ErrInvalidKey},
		{"key not UTF-8", "PostgreSQL's text cannot hold it", key("secret-key\xff"), 1, brim.ErrInvalidKey},
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
				_, byMethod["TryFillupAll"] = l.TryFillupAll(ctx, brim.Fill{Bucket: tens.For("other"), Amount: 1}, brim.Fill{Bucket: b, Amount: n})
				if !errors.Is(test.want, brim.ErrInvalidAmount) {
					_, byMethod["State"] = l.State(ctx, b)
				}
				if errors.Is(test.want, brim.ErrInvalidKey) {
					_, byMethod["StateOf"] = l.StateOf(ctx, b.Key)
					byMethod["Reset"] = l.Reset(ctx, b.Key)
				}
				if errors.Is(test.want, brim.ErrInvalidKey) && b.Key != "" { // an empty prefix lists everything
					for _, err := range l.List(ctx, b.Key) {
						byMethod["List"] = err
					}
				}
				for method, err := range byMethod {
					if !errors.Is(err, test.want) {
						t.Errorf("%s = %v; want %v: %s", method, err, test.want, test.why)
					} else if strings.Contains(err.Error(), "secret") {
						t.Errorf("%s: the error holds the key, which may be personal data: %v", method, err)
					}
				}
				if s.calls != 0 {
					t.Errorf("the store was called %d times; nonsense is refused before any I/O", s.calls)
				}
			}
		})
	}
}

// A prefix is part of the key, so it counts towards its length.
func TestPrefixLength(t *testing.T) {
	l, _, _ := open(t, &brim.Options{Prefix: "tenant:"})
	if _, err := l.TryFillup(t.Context(), tens.For(strings.Repeat("k", 505)), 1); err != nil {
		t.Errorf("512 bytes with the prefix: %v; want it accepted", err)
	}
	if _, err := l.TryFillup(t.Context(), tens.For(strings.Repeat("k", 506)), 1); !errors.Is(err, brim.ErrInvalidKey) {
		t.Errorf("513 bytes with the prefix: %v; want ErrInvalidKey", err)
	}
}
