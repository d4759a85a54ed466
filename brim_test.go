package brim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// manual is a clock that stands still until it is told otherwise.
type manual struct{ now time.Time }

func (m *manual) Now() time.Time          { return m.now }
func (m *manual) Advance(d time.Duration) { m.now = m.now.Add(d) }

// start is the time at which every test begins.
var start = time.Date(2024, 2, 29, 23, 59, 50, 0, time.UTC)

// open returns a Limiter over an empty store in memory, the store, and their clock.
func open(t testing.TB, o *brim.Options) (*brim.Limiter, *memory.Store, *manual) {
	t.Helper()
	clock := &manual{now: start}
	s, err := memory.New(&memory.Options{Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return brim.New(s, o), s, clock
}

// tens is a bucket of ten that leaks one unit in a second.
var tens = brim.Limit{Capacity: 10, LeakRate: 1}

// must returns the state of a call that may not fail.
func must(t testing.TB) func(brim.State, error) brim.State {
	return func(st brim.State, err error) brim.State {
		t.Helper()
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return st
	}
}

func TestMethods(t *testing.T) {
	ctx := t.Context()
	b := tens.For("b")
	at := start
	for _, test := range []struct {
		name, why string
		setup     func(t *testing.T, l *brim.Limiter, clock *manual)
		call      func(l *brim.Limiter) (brim.State, error)
		want      brim.State
	}{
		{
			name: "TryFillup fits", why: "what fits goes in wholly",
			call: func(l *brim.Limiter) (brim.State, error) { return l.TryFillup(ctx, b, 4) },
			want: brim.State{Level: 4, Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "TryFillup to the rim", why: "exactly full is accepted, and full at that instant",
			call: func(l *brim.Limiter) (brim.State, error) { return l.TryFillup(ctx, b, 10) },
			want: brim.State{Level: 10, Capacity: 10, LeakRate: 1, At: at, Accepted: true, Full: true},
		},
		{
			name: "TryFillup does not fit", why: "a refusal is a state, changes nothing, is not Full, and says when to come back",
			setup: func(t *testing.T, l *brim.Limiter, _ *manual) { must(t)(l.TryFillup(ctx, b, 8)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.TryFillup(ctx, b, 5) },
			want:  brim.State{Level: 8, Capacity: 10, LeakRate: 1, At: at, RetryAfter: 3 * time.Second},
		},
		{
			name: "TryFillup can never fit", why: "an impossible cost has no finite wait",
			call: func(l *brim.Limiter) (brim.State, error) { return l.TryFillup(ctx, b, 11) },
			want: brim.State{Capacity: 10, LeakRate: 1, At: at, RetryAfter: brim.Never},
		},
		{
			name: "TryFillup leaks first", why: "leaking after the fill would clamp the sum and lose the fill",
			setup: func(t *testing.T, l *brim.Limiter, clock *manual) {
				must(t)(l.TryFillup(ctx, b, 5))
				clock.Advance(30 * time.Second)
			},
			call: func(l *brim.Limiter) (brim.State, error) { return l.TryFillup(ctx, b, 9) },
			want: brim.State{Level: 9, Capacity: 10, LeakRate: 1, At: at.Add(30 * time.Second), Accepted: true},
		},
		{
			name: "TryFillup of nothing", why: "zero always fits, even into a full bucket, and is not Full",
			setup: func(t *testing.T, l *brim.Limiter, _ *manual) { must(t)(l.TryFillup(ctx, b, 10)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.TryFillup(ctx, b, 0) },
			want:  brim.State{Level: 10, Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "Fillup spills", why: "what has happened goes in up to the rim, the rest is lost and told",
			setup: func(t *testing.T, l *brim.Limiter, _ *manual) { must(t)(l.Fillup(ctx, b, 7)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.Fillup(ctx, b, 5) },
			want:  brim.State{Level: 10, Capacity: 10, LeakRate: 1, At: at, Spilled: 2, Full: true, RetryAfter: 5 * time.Second},
		},
		{
			name: "Fillup fits", why: "a Fillup that fits loses nothing",
			call: func(l *brim.Limiter) (brim.State, error) { return l.Fillup(ctx, b, 7) },
			want: brim.State{Level: 7, Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "Drain", why: "units given back leave room",
			setup: func(t *testing.T, l *brim.Limiter, _ *manual) { must(t)(l.TryFillup(ctx, b, 7)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.Drain(ctx, b, 3) },
			want:  brim.State{Level: 4, Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "Drain below empty", why: "a refund of an empty bucket is accepted and gives no credit",
			call: func(l *brim.Limiter) (brim.State, error) { return l.Drain(ctx, b, 3) },
			want: brim.State{Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "Hold", why: "held units take up room beside the level and do not leak",
			setup: func(t *testing.T, l *brim.Limiter, clock *manual) {
				must(t)(l.TryFillup(ctx, b, 3))
				must(t)(l.Hold(ctx, b, 2))
				clock.Advance(time.Hour)
			},
			call: func(l *brim.Limiter) (brim.State, error) { return l.Hold(ctx, b, 4) },
			want: brim.State{Held: 6, Capacity: 10, LeakRate: 1, At: at.Add(time.Hour), Accepted: true},
		},
		{
			name: "Hold refused", why: "no leaking makes room beside what is held, so the wait is Never",
			setup: func(t *testing.T, l *brim.Limiter, _ *manual) { must(t)(l.Hold(ctx, b, 8)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.Hold(ctx, b, 3) },
			want:  brim.State{Held: 8, Capacity: 10, LeakRate: 1, At: at, RetryAfter: brim.Never},
		},
		{
			name: "Capture", why: "used goes in and leaks from now on, the rest of the hold is free",
			setup: func(t *testing.T, l *brim.Limiter, _ *manual) { must(t)(l.Hold(ctx, b, 8)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.Capture(ctx, b, 8, 3) },
			want:  brim.State{Level: 3, Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "Capture of more than was held for it", why: "what was spent was spent, even past the rim",
			setup: func(t *testing.T, l *brim.Limiter, _ *manual) { must(t)(l.Hold(ctx, b, 8)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.Capture(ctx, b, 8, 12) },
			want:  brim.State{Level: 12, Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "Release", why: "a hold that was not used leaves nothing behind",
			setup: func(t *testing.T, l *brim.Limiter, _ *manual) { must(t)(l.Hold(ctx, b, 8)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.Release(ctx, b, 8) },
			want:  brim.State{Capacity: 10, LeakRate: 1, At: at, Accepted: true},
		},
		{
			name: "State", why: "a read leaks what has leaked, and neither accepts nor is Full",
			setup: func(t *testing.T, l *brim.Limiter, clock *manual) {
				must(t)(l.TryFillup(ctx, b, 10))
				clock.Advance(4 * time.Second)
			},
			call: func(l *brim.Limiter) (brim.State, error) { return l.State(ctx, b) },
			want: brim.State{Level: 6, Capacity: 10, LeakRate: 1, At: at.Add(4 * time.Second)},
		},
		{
			name: "State of no bucket", why: "a bucket that was never filled is empty",
			call: func(l *brim.Limiter) (brim.State, error) { return l.State(ctx, b) },
			want: brim.State{Capacity: 10, LeakRate: 1, At: at},
		},
		{
			name: "StateOf", why: "an operator knows the key and not the limit",
			setup: func(t *testing.T, l *brim.Limiter, _ *manual) { must(t)(l.TryFillup(ctx, b, 5)) },
			call:  func(l *brim.Limiter) (brim.State, error) { return l.StateOf(ctx, "b") },
			want:  brim.State{Level: 5, Capacity: 10, LeakRate: 1, At: at},
		},
		{
			name: "StateOf of no bucket", why: "a capacity of 0 says that there is none",
			call: func(l *brim.Limiter) (brim.State, error) { return l.StateOf(ctx, "b") },
			want: brim.State{At: at},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, o := range []*brim.Options{nil, {Prefix: "app:"}} {
				l, _, clock := open(t, o)
				if test.setup != nil {
					test.setup(t, l, clock)
				}
				got, err := test.call(l)
				if err != nil || got != test.want {
					t.Errorf("%s\n got %+v, %v\nwant %+v", test.why, got, err, test.want)
				}
			}
		})
	}
}

func TestAbleToAccept(t *testing.T) {
	ctx := t.Context()
	l, s, clock := open(t, nil)
	b := tens.For("b")
	able := func(n float64, want bool, why string) {
		t.Helper()
		got, err := l.AbleToAccept(ctx, b, n)
		if err != nil || got.Accepted != want || (got.RetryAfter > 0) == want {
			t.Errorf("AbleToAccept(%v) = %+v, %v; want %v: %s", n, got, err, want, why)
		}
	}
	able(10, true, "an empty bucket takes its capacity")
	able(10.5, false, "and no more")
	if entries, err := s.Scan(ctx, "", "", 1); err != nil || len(entries) != 0 {
		t.Errorf("asking left %v, %v in the store; want nothing: it only asks", entries, err)
	}

	must(t)(l.TryFillup(ctx, b, 4))
	must(t)(l.Hold(ctx, b, 3))
	able(3, true, "level and held leave three")
	able(3.5, false, "held units take up room")
	clock.Advance(time.Hour)
	able(7, true, "the level leaks")
	able(7.5, false, "held units do not")

	penalty := store.Op{Bucket: b, Amount: 9, BlockFor: time.Minute}
	if st, err := s.Fill(ctx, penalty); err != nil || st.Accepted {
		t.Fatalf("penalty = %+v, %v; want a refusal", st, err)
	}
	able(1, false, "nothing fits while the bucket is blocked")
	able(0, true, "but nothing always does")
	clock.Advance(time.Minute)
	able(1, true, "the block has ended")
}

// AbleToAccept must answer as a TryFillup at the same time does. Its RetryAfter may be a microsecond later, never earlier:
// AbleToAccept computes it from the level now, and TryFillup from the level that is stored.
func TestAbleToAcceptAnswersLikeTryFillup(t *testing.T) {
	ctx := t.Context()
	l, _, clock := open(t, nil)
	b := brim.Limit{Capacity: 1, LeakRate: 0.1}.For("k")
	answers := map[bool]int{}
	for i := range 200 {
		if i == 150 {
			must(t)(l.WithPenalty(3*time.Second).TryFillup(ctx, b, 1))
		}
		n := float64(i%11) / 10
		asked := must(t)(l.AbleToAccept(ctx, b, n))
		st := must(t)(l.TryFillup(ctx, b, n))
		later := asked.RetryAfter - st.RetryAfter
		if asked.Accepted != st.Accepted || later < 0 || later > time.Microsecond || asked.BlockedUntil != st.BlockedUntil {
			t.Fatalf("step %d, %v units: AbleToAccept answers %+v and TryFillup %+v", i, n, asked, st)
		}
		answers[st.Accepted]++
		clock.Advance(700 * time.Millisecond)
	}
	if answers[true] < 20 || answers[false] < 20 {
		t.Errorf("%d accepted, %d refused; both answers must be compared", answers[true], answers[false])
	}
}

func TestNotHeld(t *testing.T) {
	ctx := t.Context()
	l, _, _ := open(t, nil)
	b := tens.For("b")
	must(t)(l.Hold(ctx, b, 2))
	for name, call := range map[string]func() (brim.State, error){
		"Release": func() (brim.State, error) { return l.Release(ctx, b, 2.5) },
		"Capture": func() (brim.State, error) { return l.Capture(ctx, b, 3, 1) },
	} {
		if _, err := call(); !errors.Is(err, brim.ErrNotHeld) {
			t.Errorf("%s of more than is held = %v; want ErrNotHeld", name, err)
		}
	}
	if st := must(t)(l.State(ctx, b)); st.Held != 2 || st.Level != 0 {
		t.Errorf("after both, %+v; want 2 held and nothing else: a failed call changes nothing", st)
	}
}

// calls is every method, each with arguments that make sense.
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
	"Reset": func(ctx context.Context, l *brim.Limiter) error { return l.Reset(ctx, "k") },
	"Prune": func(ctx context.Context, l *brim.Limiter) error { _, err := l.Prune(ctx); return err },
}

func TestClosed(t *testing.T) {
	closed, s, _ := open(t, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*brim.Limiter{
		"a Limiter over nil":        brim.New(nil, nil),
		"a Limiter over nil, named": brim.New(nil, &brim.Options{Prefix: "p:"}),
		"a closed store":            closed,
	} {
		for method, call := range calls {
			if err := call(t.Context(), l); !errors.Is(err, brim.ErrClosed) {
				t.Errorf("%s.%s = %v; want ErrClosed", name, method, err)
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
			t.Errorf("%s with a context that is done = %v; want its error", method, err)
		}
	}
	if entries, err := s.Scan(t.Context(), "", "", 1); err != nil || len(entries) != 0 {
		t.Errorf("calls with a context that is done left %v, %v; want nothing", entries, err)
	}
}
