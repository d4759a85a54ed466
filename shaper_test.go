package brim_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// A reservation is taken back only where nobody has reserved behind it. Turns are hours away by this process's clock, so that
// only the store's counts.
func TestCancel(t *testing.T) {
	queue := brim.Limit{Capacity: 100, LeakRate: 0.001} // a unit in 1000 s
	const unit = 1000 * time.Second
	type step struct {
		reserve float64       // units, or
		cancel  int           // which reservation, from 1, or
		advance time.Duration // of the store's clock
		turn    time.Duration // of what was reserved, since start
		given   bool          // whether it was taken back
	}
	for _, tc := range []struct {
		name, why string
		steps     []step
	}{
		{
			name: "nobody behind", why: "the place is free again: the next one gets the same turn",
			steps: []step{{reserve: 1}, {reserve: 2, turn: unit}, {cancel: 2, given: true}, {reserve: 1, turn: unit}},
		},
		{
			name: "nobody behind, later", why: "what has leaked since is leaked: giving back gives no more than was put in (trap 25)",
			steps: []step{
				{reserve: 3}, {reserve: 2, turn: 3 * unit}, {advance: unit / 3}, {cancel: 2, given: true}, {reserve: 1, turn: 3 * unit},
			},
		},
		{
			name: "somebody behind", why: "those behind keep their turns, so a newcomer must not get this one (trap 27)",
			steps: []step{
				{reserve: 1}, {reserve: 1, turn: unit}, {reserve: 1, turn: 2 * unit}, {cancel: 2}, {reserve: 1, turn: 3 * unit},
			},
		},
		{
			name: "somebody behind, later", why: "the level is lower by then, but so is what was in front",
			steps: []step{
				{reserve: 2}, {reserve: 1, turn: 2 * unit}, {advance: unit}, {reserve: 1, turn: 3 * unit}, {cancel: 2}, {reserve: 1, turn: 4 * unit},
			},
		},
		{
			name: "behind and before", why: "whoever was behind has gone as well: now nobody is",
			steps: []step{
				{reserve: 1}, {reserve: 1, turn: unit}, {reserve: 1, turn: 2 * unit}, {cancel: 3, given: true}, {cancel: 2, given: true}, {reserve: 1, turn: unit},
			},
		},
		{
			name: "before and behind", why: "a gap stays a gap: the last one gives back its own place only",
			steps: []step{
				{reserve: 1}, {reserve: 1, turn: unit}, {reserve: 1, turn: 2 * unit}, {cancel: 2}, {cancel: 3, given: true}, {reserve: 1, turn: 2 * unit},
			},
		},
		{
			name: "twice", why: "a second Cancel would take out what belongs to those in front",
			steps: []step{
				{reserve: 3}, {reserve: 1, turn: 3 * unit}, {cancel: 2, given: true}, {cancel: 2}, {reserve: 1, turn: 3 * unit},
			},
		},
		{
			name: "a first turn", why: "it has come at once, so there is nothing to take back",
			steps: []step{{reserve: 1}, {cancel: 1}, {reserve: 1, turn: unit}},
		},
		{
			name: "a clock that stepped back", why: "the bucket's time does not go back, and neither does the ceiling (trap 10)",
			steps: []step{
				{reserve: 1},
				{advance: -time.Minute},
				{reserve: 1, turn: unit},
				{reserve: 1, turn: 2 * unit},
				{cancel: 2},
				{cancel: 3, given: true},
				{advance: time.Minute},
				{reserve: 1, turn: 2 * unit},
			},
		},
		{
			name: "a clock that was an hour ahead and was set right", why: "a ceiling that rose with it would give the second place twice",
			steps: []step{
				{advance: time.Hour},
				{reserve: 4, turn: time.Hour},
				{reserve: 2, turn: time.Hour + 4*unit},
				{reserve: 1, turn: time.Hour + 6*unit},
				{advance: -time.Hour},
				{cancel: 2},
				{reserve: 1, turn: 7 * unit},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onEachBackend(t, func(t *testing.T, s store.Store, clock *ticking) {
				sh := shaper(t, s, 0)
				var made []*brim.Reservation
				for i, step := range tc.steps {
					switch {
					case step.reserve > 0:
						r, err := sh.Reserve(t.Context(), queue.For("k"), step.reserve)
						if err != nil {
							t.Fatal(err)
						}
						if got := r.Turn().Sub(start).Round(time.Microsecond); !r.State.Accepted || got != step.turn {
							t.Errorf("step %d: turn at %v, want %v: %s", i+1, got, step.turn, tc.why)
						}
						made = append(made, r)
					case step.cancel > 0:
						given, err := made[step.cancel-1].Cancel(t.Context())
						if err != nil || given != step.given {
							t.Errorf("step %d: taken back %v, %v; want %v: %s", i+1, given, err, step.given, tc.why)
						}
					default:
						clock.Advance(step.advance)
					}
				}
			})
		})
	}
}

func TestReserve(t *testing.T) {
	for _, tc := range []struct {
		name, why string
		limit     brim.Limit
		maxWait   time.Duration
		before    float64 // units in the queue
		n         float64
		accepted  bool
		wait      time.Duration // until the turn, or until it would fit
	}{
		{name: "empty", why: "the first turn in an empty bucket is at once", limit: tens, n: 10, accepted: true},
		{name: "behind others", why: "everything in front drains first", limit: tens, before: 4, n: 6, accepted: true, wait: 4 * time.Second},
		{name: "too deep", why: "it fits when enough has drained", limit: tens, before: 4, n: 7, wait: time.Second},
		{name: "larger than the bucket", why: "no wait helps (trap 9)", limit: tens, n: 11, wait: brim.Never},
		{name: "within MaxWait", why: "a turn at its very end is in time", limit: tens, maxWait: 4 * time.Second, before: 4, n: 6, accepted: true, wait: 4 * time.Second},
		{name: "after MaxWait", why: "one in front too many", limit: tens, maxWait: 4 * time.Second, before: 4.5, n: 1, wait: 500 * time.Millisecond},
		{name: "a large first one within MaxWait", why: "its own size is not waited for", limit: tens, maxWait: time.Second, n: 10, accepted: true},
		{name: "MaxWait beyond the capacity", why: "the capacity decides too", limit: tens, maxWait: time.Hour, before: 9, n: 2, wait: time.Second},
		{name: "nothing", why: "nothing takes no time, and no place", limit: tens, before: 9, accepted: true},
		{name: "decimal fractions", why: "a turn at the very end of MaxWait is in time where doubles round", limit: brim.Limit{Capacity: 10, LeakRate: 0.3}, maxWait: 2 * time.Second, before: 0.6, n: 0.1, accepted: true, wait: 2 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, s, _ := open(t, nil)
			if tc.before > 0 {
				must(t)(l.TryFillup(t.Context(), tc.limit.For("k"), tc.before))
			}
			r, err := shaper(t, s, tc.maxWait).Reserve(t.Context(), tc.limit.For("k"), tc.n)
			if err != nil {
				t.Fatal(err)
			}
			wait := r.Turn().Sub(r.State.At)
			if !tc.accepted {
				wait = r.State.RetryAfter
			}
			if r.State.Accepted != tc.accepted || wait != tc.wait {
				t.Errorf("accepted %v, wait %v; want %v, %v: %s", r.State.Accepted, wait, tc.accepted, tc.wait, tc.why)
			}
			want := tc.before
			if tc.accepted {
				want += tc.n
			}
			if st := must(t)(l.State(t.Context(), tc.limit.For("k"))); math.Abs(st.Level-want) > 1e-15 {
				t.Errorf("level %v; want %v: a refusal puts nothing in", st.Level, want)
			}
			if given, err := r.Cancel(t.Context()); given != (tc.accepted && tc.wait > 0) || err != nil {
				t.Errorf("cancelled: %v, %v", given, err)
			}
		})
	}
}

func TestShaperInvalid(t *testing.T) {
	if _, err := brim.NewShaper(nil, &brim.ShaperOptions{MaxWait: -1}); err == nil {
		t.Error("a negative MaxWait was accepted")
	}
	l, s, _ := open(t, nil)
	sh := shaper(t, s, 0)
	ctx := t.Context()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, tc := range []struct {
		name string
		sh   *brim.Shaper
		ctx  context.Context
		b    brim.Bucket
		n    float64
		want error
	}{
		{"no leak", sh, ctx, brim.Limit{Capacity: 1}.For("k"), 1, brim.ErrInvalidLimit},
		{"no limit", sh, ctx, brim.Bucket{Key: "k"}, 1, brim.ErrInvalidLimit},
		{"no key", sh, ctx, tens.For(""), 1, brim.ErrInvalidKey},
		{"negative", sh, ctx, tens.For("k"), -1, brim.ErrInvalidAmount},
		{"NaN", sh, ctx, tens.For("k"), math.NaN(), brim.ErrInvalidAmount},
		{"NaN with MaxWait", shaper(t, s, time.Second), ctx, tens.For("k"), math.NaN(), brim.ErrInvalidAmount},
		{"infinite with MaxWait", shaper(t, s, time.Second), ctx, tens.For("k"), math.Inf(1), brim.ErrInvalidAmount},
		{"context done", sh, ended, tens.For("k"), 1, context.Canceled},
		{"no store", shaper(t, nil, time.Second), ctx, tens.For("k"), 1, brim.ErrClosed},
		{"an estimate", shaper(t, estimating{s}, 0), ctx, tens.For("estimate"), 1, errors.ErrUnsupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := tc.sh.Reserve(tc.ctx, tc.b, tc.n); !errors.Is(err, tc.want) {
				t.Errorf("Reserve: %v; want %v", err, tc.want)
			}
			if _, err := tc.sh.Wait(tc.ctx, tc.b, tc.n); !errors.Is(err, tc.want) {
				t.Errorf("Wait: %v; want %v", err, tc.want)
			}
		})
	}
	if st := must(t)(l.State(ctx, tens.For("k"))); st.Level != 0 {
		t.Errorf("level %v after calls that made no sense", st.Level)
	}
}

// estimating answers from a slice that it took, as package lease does.
type estimating struct{ store.Store }

func (s estimating) Fill(ctx context.Context, op store.Op) (store.State, error) {
	st, err := s.Store.Fill(ctx, op)
	st.Estimate = true
	return st, err
}

// An outcome that is not known must not be taken for "not applied" (trap 17): a second Cancel could take out what belongs to
// those in front.
func TestCancelUnknownOutcome(t *testing.T) {
	s, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	unreliable := &failingCancel{Store: s, err: brim.ErrUnavailable}
	sh := shaper(t, unreliable, 0)
	slow := brim.Limit{Capacity: 10, LeakRate: 0.001}
	var last *brim.Reservation
	for range 3 {
		if last, err = sh.Reserve(t.Context(), slow.For("k"), 1); err != nil {
			t.Fatal(err)
		}
	}
	if given, err := last.Cancel(t.Context()); given || !errors.Is(err, brim.ErrUnavailable) {
		t.Errorf("got %v, %v", given, err)
	}
	unreliable.err = brim.ErrUnknownOutcome
	if given, err := last.Cancel(t.Context()); given || !errors.Is(err, brim.ErrUnknownOutcome) {
		t.Errorf("after an error that says that nothing was applied, Cancel tries again: got %v, %v", given, err)
	}
	unreliable.err = nil
	calls := unreliable.calls
	if given, err := last.Cancel(t.Context()); given || err != nil || unreliable.calls != calls {
		t.Errorf("got %v, %v after %d calls more", given, err, unreliable.calls-calls)
	}
}

// failingCancel fails what takes out, after counting it.
type failingCancel struct {
	store.Store
	err   error
	calls int
}

func (s *failingCancel) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if op.Amount >= 0 {
		return s.Store.Fill(ctx, op)
	}
	s.calls++
	if s.err != nil {
		return store.State{}, s.err
	}
	return s.Store.Fill(ctx, op)
}

func TestSmooth(t *testing.T) {
	if l := brim.Smooth(5, 2*time.Second); l != (brim.Limit{Capacity: 10, LeakRate: 5}) || l.MaxWait() != 2*time.Second {
		t.Errorf("got %+v, MaxWait %v", l, l.MaxWait())
	}
	if d := (brim.Limit{Capacity: 1}).MaxWait(); d != brim.Never {
		t.Errorf("what never leaks has MaxWait %v", d)
	}
	for _, l := range []brim.Limit{brim.Smooth(0, time.Second), brim.Smooth(1, 0), brim.Smooth(-1, -time.Second), brim.Smooth(math.NaN(), time.Second)} {
		if err := l.Validate(); !errors.Is(err, brim.ErrInvalidLimit) {
			t.Errorf("%+v is accepted as a limit", l)
		}
	}
}

func TestCheckTimeout(t *testing.T) {
	for _, tc := range []struct {
		name    string
		limit   brim.Limit
		maxWait time.Duration
		timeout time.Duration
		says    string // "" for no complaint
	}{
		{"shallow", brim.Smooth(5, time.Second), 0, time.Second, ""},
		{"deep", brim.Smooth(5, 10*time.Second), 0, 2 * time.Second, "up to 10s long and its callers give up after 2s; use a capacity of at most 10"},
		{"deep, with MaxWait", brim.Smooth(5, 10*time.Second), time.Second, 2 * time.Second, ""},
		{"MaxWait too long", brim.Smooth(5, 10*time.Second), 3 * time.Second, 2 * time.Second, "up to 3s long"},
		{"no leak", brim.Limit{Capacity: 5}, 0, time.Hour, "leak rate is 0"},
		{"no limit", brim.Limit{}, 0, time.Hour, "capacity is 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := shaper(t, nil, tc.maxWait).CheckTimeout(tc.limit, tc.timeout)
			switch {
			case tc.says == "" && err != nil:
				t.Errorf("complains: %v", err)
			case tc.says != "" && (!errors.Is(err, brim.ErrInvalidLimit) || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("got %v; want %q", err, tc.says)
			}
		})
	}
}
