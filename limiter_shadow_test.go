package brim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
)

// reports are the calls of Options.Shadow.
type reports []string

func (r *reports) add(_ context.Context, f brim.Fill, err error) {
	text := fmt.Sprintf("%s %v ", f.Bucket.Key, f.Amount)
	if f.AskOnly {
		text += "asked "
	}
	var over *brim.OverLimitError
	switch {
	case !errors.As(err, &over):
		text += err.Error()
	case over.Accepted:
		text += "accepted"
	case over.RetryAfter == brim.Never:
		text += "never"
	default:
		text += over.RetryAfter.String()
	}
	*r = append(*r, text)
}

// passing holds the calls that Options.Shadow lets pass. Each asks for 5 units of "b", and
// TryFillupAll for one of "other" as well.
var passing = map[string]func(ctx context.Context, l *brim.Limiter, limit brim.Limit) ([]brim.State, error){
	"TryFillup": func(ctx context.Context, l *brim.Limiter, limit brim.Limit) ([]brim.State, error) {
		return one(l.TryFillup(ctx, limit.For("b"), 5))
	},
	"AbleToAccept": func(ctx context.Context, l *brim.Limiter, limit brim.Limit) ([]brim.State, error) {
		return one(l.AbleToAccept(ctx, limit.For("b"), 5))
	},
	"Wait": func(ctx context.Context, l *brim.Limiter, limit brim.Limit) ([]brim.State, error) {
		return one(l.WithPenalty(time.Hour).Wait(ctx, limit.For("b"), 5))
	},
	"Do": func(ctx context.Context, l *brim.Limiter, limit brim.Limit) (states []brim.State, err error) {
		err = l.Do(ctx, limit.For("b"), 5, func(context.Context) error {
			states = []brim.State{} // f has run
			return nil
		})
		return states, err
	},
	"TryFillupAll": func(ctx context.Context, l *brim.Limiter, limit brim.Limit) ([]brim.State, error) {
		return l.TryFillupAll(ctx, brim.Fill{Bucket: limit.For("b"), Amount: 5}, brim.Fill{Bucket: tens.For("other"), Amount: 1})
	},
}

func one(st brim.State, err error) ([]brim.State, error) { return []brim.State{st}, err }

// reported returns how a call of passing is reported with the answer to its 5 units.
func reported(name, answer string) string {
	if name == "AbleToAccept" {
		answer = "asked " + answer
	}
	return "b 5 " + answer
}

func TestShadowPasses(t *testing.T) {
	for _, test := range []struct {
		name, why string
		limit     brim.Limit
		level     float64 // of "b", before and after
		report    string  // "" if nothing is refused
		retry     time.Duration
	}{
		{"refused", "the State keeps the wait", tens, 8, "3s", 3 * time.Second},
		{"never", "a wait without an end is kept, too", brim.Limit{Capacity: 4, LeakRate: 1}, 0, "never", brim.Never},
		{"nobody", "a limit that the store does not see passes, too", brim.Nobody, 0, "never", brim.Never},
		{"unlimited", "what is accepted is not reported", brim.Unlimited, 0, "", 0},
	} {
		for name, call := range passing {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				var got reports
				l, s, _ := open(t, &brim.Options{Prefix: "tried:", Shadow: got.add})
				plain := brim.New(s, &brim.Options{Prefix: "tried:"})
				if test.level > 0 {
					must(t)(plain.Fillup(t.Context(), test.limit.For("b"), test.level))
				}
				states, err := call(t.Context(), l, test.limit)
				if err != nil || states == nil {
					t.Fatalf("%v, %v: %s", states, err, test.why)
				}
				for i, st := range states {
					if want := []time.Duration{test.retry, 0}[i]; !st.Accepted || st.RetryAfter != want || i == 0 && st.Level != test.level {
						t.Errorf("state %d: %+v; want level %v, accepted, with a wait of %v: %s", i, st, test.level, want, test.why)
					}
				}
				var want reports
				if test.report != "" {
					want = reports{reported(name, test.report)}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("reported %q; want %q", got, want)
				}
				other := must(t)(plain.State(t.Context(), tens.For("other")))
				if wantOther := test.report == "" && name == "TryFillupAll"; (other.Level > 0) != wantOther {
					t.Errorf("the other bucket has level %v: all go in or none", other.Level)
				}
			})
		}
	}
}

// TestShadowErrors sees that a failure of the store is told and lets pass, and that an error of the
// caller's own is returned and not told.
func TestShadowErrors(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, healthy, _ := open(t, nil)
	for _, test := range []struct {
		name  string
		store store.Store
		ctx   context.Context
		limit brim.Limit
		told  error // the call passes
		want  error
	}{
		{"unavailable", &broken{err: brim.ErrUnavailable}, t.Context(), tens, brim.ErrUnavailable, nil},
		{"timeout of the store", &broken{err: context.DeadlineExceeded}, t.Context(), tens, context.DeadlineExceeded, nil},
		{"closed", &broken{err: brim.ErrClosed}, t.Context(), tens, brim.ErrClosed, nil},
		{"the caller has left", healthy, ended, tens, nil, context.Canceled},
		{"the caller left meanwhile", &broken{err: brim.ErrUnavailable}, ended, tens, nil, brim.ErrUnavailable},
		{"the caller has left, nobody", healthy, ended, brim.Nobody, nil, context.Canceled},
		{"invalid", healthy, t.Context(), brim.Limit{}, nil, brim.ErrInvalidLimit},
		{"no store", nil, t.Context(), tens, nil, brim.ErrClosed},
	} {
		for name, call := range passing {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				var got reports
				states, err := call(test.ctx, brim.New(test.store, &brim.Options{Shadow: got.add}), test.limit)
				if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
					t.Errorf("error %v; want %v", err, test.want)
				}
				var want reports
				if test.told != nil {
					want = reports{reported(name, test.told.Error())}
					if name == "TryFillupAll" {
						want = append(want, "other 1 "+test.told.Error())
					}
					for _, st := range states {
						if d := differ.Fields(st, brim.State{Capacity: 10, LeakRate: 1, Accepted: true, Estimate: true}); d != "" {
							t.Error(d)
						}
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("reported %q; want %q", got, want)
				}
			})
		}
	}
}

// TestShadowOthers sees that the methods which refuse nothing are as without Shadow, and that a
// hold and a turn answer that they cannot pass.
func TestShadowOthers(t *testing.T) {
	var got reports
	l, s, _ := open(t, &brim.Options{Shadow: got.add})
	b := tens.For("b")
	must(t)(brim.New(s, nil).Hold(t.Context(), b, 4))
	sh, err := brim.NewShaper(l, &brim.ShaperOptions{MaxWait: time.Second})
	noError(t, err)
	_, errHold := l.Hold(t.Context(), b, 1)
	_, errTurn := sh.Wait(t.Context(), b, 1)
	_, errReserve := sh.Reserve(t.Context(), b, 1)
	for _, err := range []error{errHold, errTurn, errReserve} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v; want errors.ErrUnsupported", err)
		}
	}
	if st := must(t)(l.Capture(t.Context(), b, 4, 6)); st.Held != 0 || st.Level != 6 {
		t.Errorf("%+v; a Capture ends the hold of another Limiter", st)
	}
	if st := must(t)(l.Fillup(t.Context(), b, 5)); st.Accepted || st.Spilled != 1 {
		t.Errorf("%+v; a Fillup tells what it spilled", st)
	}
	if st := must(t)(l.WithPenalty(time.Hour).TryFillup(t.Context(), b, 5)); !st.Accepted || st.BlockedUntil.IsZero() {
		t.Errorf("%+v; a penalty blocks the bucket, and the call passes", st)
	}
	if want := (reports{"b 5 1h0m0s"}); !reflect.DeepEqual(got, want) {
		t.Errorf("reported %q; want %q", got, want)
	}
	down := brim.New(&broken{err: brim.ErrUnavailable}, &brim.Options{Shadow: got.add})
	if _, err := down.Fillup(t.Context(), b, 1); !errors.Is(err, brim.ErrUnavailable) {
		t.Errorf("%v; an error of Fillup stays an error", err)
	}
}

// TestShadowDecidesAsTheLimit makes the same random calls with and without Shadow. The States must
// be equal but for Accepted, and the refusals of the one must be the reports of the other.
func TestShadowDecidesAsTheLimit(t *testing.T) {
	var got reports
	tried, _, clock := open(t, &brim.Options{Shadow: got.add})
	enforced, _, other := open(t, nil)
	var refused int
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 10_000 {
		pause := time.Duration(random.IntN(3000)) * time.Millisecond
		clock.Advance(pause)
		other.Advance(pause)
		kind, n, all := random.IntN(8), 12*random.Float64(), random.IntN(4) == 0
		call := func(l *brim.Limiter) ([]brim.State, error) {
			switch {
			case all:
				return l.TryFillupAll(t.Context(), brim.Fill{Bucket: tens.For("a"), Amount: n / 4},
					brim.Fill{Bucket: tens.For("b"), Amount: n / 3, AskOnly: kind == 0})
			case kind == 0:
				return one(l.Fillup(t.Context(), tens.For("a"), n))
			case kind == 1:
				return one(l.Drain(t.Context(), tens.For("b"), n))
			case kind == 2:
				return one(l.AbleToAccept(t.Context(), tens.For("a"), n))
			case kind == 3:
				return one(l.WithPenalty(time.Second).TryFillup(t.Context(), tens.For("b"), n))
			}
			return one(l.TryFillup(t.Context(), tens.For("a"), n))
		}
		want, err := call(enforced)
		states, errShadow := call(tried)
		for j := range want {
			if isFillup := !all && kind == 0; !isFillup {
				if want[j].RetryAfter > 0 {
					refused++
				}
				want[j].Accepted = true
			}
		}
		if d := differ.Fields(states, want); err != nil || errShadow != nil || d != "" {
			t.Fatalf("call %d: %v, want %v\n%s", i, errShadow, err, d)
		}
	}
	if len(got) != refused || refused < 1000 {
		t.Errorf("%d reports; the enforced limit refused %d fills", len(got), refused)
	}
}
