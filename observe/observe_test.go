package observe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func TestConformance(t *testing.T) {
	operations := 5000
	if testing.Short() {
		operations = 1000 // package memory makes a full run
	}
	at := func(t *testing.T, clock func() time.Time) store.Store {
		hooks := observe.Hooks{
			Start:    func(ctx context.Context, _ observe.Call) context.Context { return ctx },
			Decision: func(context.Context, observe.Decision) {},
			End:      func(context.Context, observe.Call, observe.Outcome) {},
		}
		return wrap(t, inMemory(t, clock), hooks, nil)
	}
	storetest.Run(t, func(t *testing.T) store.Store { return at(t, nil) }, &storetest.Options{
		OpenAt: at, Operations: operations, Keys: 1000,
	})
}

func inMemory(t testing.TB, clock func() time.Time) store.Store {
	t.Helper()
	s := memory.New(&memory.Options{Clock: clock})
	return s
}

func wrap(t testing.TB, s store.Store, h observe.Hooks, o *observe.Options) store.Store {
	t.Helper()
	w, err := observe.New(s, h, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// recorder records the calls of its hooks, one line each, in order.
type recorder struct{ lines []string }

func (w *recorder) add(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

type mark struct{}

func (w *recorder) hooks() observe.Hooks {
	return observe.Hooks{
		Start: func(ctx context.Context, c observe.Call) context.Context {
			w.add("start %s %d", c.Method, c.Size)
			return context.WithValue(ctx, mark{}, c.Method)
		},
		Decision: func(ctx context.Context, d observe.Decision) {
			w.add("decision in %v: key %q, mode %d, amount %v, hold %v: %v of %d, level %v, wait %v",
				ctx.Value(mark{}), d.Key, d.Mode, d.Amount, d.Hold, d.Accepted, d.Operations, d.State.Level, d.State.RetryAfter)
		},
		Block: func(ctx context.Context, b observe.Block) {
			w.add("block in %v: mode %d, key %q, reason %q, blocked %v, level %v",
				ctx.Value(mark{}), b.Mode, b.Key, b.Reason, !b.State.BlockedUntil.IsZero(), b.State.Level)
		},
		End: func(ctx context.Context, c observe.Call, o observe.Outcome) {
			w.add("end %v %s: %v, failed %d, error %v", ctx.Value(mark{}), c.Method, o.Took, o.Failed, o.Err)
		},
	}
}

// TestHooks checks which hooks each method calls, and with which arguments.
func TestHooks(t *testing.T) {
	limit := store.Limit{Capacity: 10}
	b := limit.For("secret")
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name string
		call func(ctx context.Context, s store.Store) error
		want []string
	}{
		{"fill", func(ctx context.Context, s store.Store) error {
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 4, Hold: 1})
			return err
		}, []string{
			"start fill 1",
			`decision in fill: key "", mode 0, amount 4, hold 1: true of 1, level 4, wait 0s`,
			"end fill fill: 1s, failed 0, error <nil>",
		}},
		{"refused", func(ctx context.Context, s store.Store) error {
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 11})
			return err
		}, []string{
			"start fill 1",
			`decision in fill: key "", mode 0, amount 11, hold 0: false of 1, level 0, wait 1281023h53m38.427387903s`,
			"end fill fill: 1s, failed 0, error <nil>",
		}},
		{"failed", func(_ context.Context, s store.Store) error {
			_, err := s.Fill(done, store.Op{Bucket: b, Amount: 1})
			return err
		}, []string{
			"start fill 1",
			"end fill fill: 1s, failed 0, error memory: fill: context canceled",
		}},
		{"apply", func(ctx context.Context, s store.Store) error {
			_, err := s.Apply(ctx,
				store.Txn{{Bucket: limit.For("a"), Amount: 9}, {Bucket: limit.For("b"), Amount: 11}},
				store.Txn{{Bucket: limit.For("a"), Hold: -1, Mode: store.Always}},
				store.Txn{{Bucket: limit.For("a"), Amount: 2}})
			return err
		}, []string{
			"start apply 3",
			`decision in apply: key "", mode 0, amount 9, hold 0: false of 2, level 0, wait 0s`,
			`decision in apply: key "", mode 0, amount 11, hold 0: false of 2, level 0, wait 1281023h53m38.427387903s`,
			`decision in apply: key "", mode 0, amount 2, hold 0: true of 1, level 2, wait 0s`,
			"end apply apply: 1s, failed 1, error <nil>",
		}},
		{"read", func(ctx context.Context, s store.Store) error { _, err := s.Read(ctx, b, b); return err }, []string{
			"start read 2", "end read read: 1s, failed 0, error <nil>",
		}},
		{"delete", func(ctx context.Context, s store.Store) error { return s.Delete(ctx, "a", "b", "c") }, []string{
			"start delete 3", "end delete delete: 1s, failed 0, error <nil>",
		}},
		{"ask", func(ctx context.Context, s store.Store) error {
			_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 4, Mode: store.Ask})
			return err
		}, []string{"start fill 1", "end fill fill: 1s, failed 0, error <nil>"}},
		{"block", func(ctx context.Context, s store.Store) error {
			ctx = observe.WithReason(ctx, "card reported stolen")
			_, err := s.Fill(ctx, store.Op{Bucket: b, BlockFor: time.Hour, Mode: store.Block})
			return err
		}, []string{
			"start fill 1",
			`block in fill: mode 4, key "", reason "card reported stolen", blocked true, level 0`,
			"end fill fill: 1s, failed 0, error <nil>",
		}},
		{"unblock and fill", func(ctx context.Context, s store.Store) error {
			unblock := store.Op{Bucket: store.Bucket{Key: b.Key}, Mode: store.Unblock}
			_, err := s.Apply(ctx, store.Txn{unblock, {Bucket: b, Amount: 4}}, store.Txn{unblock, {Bucket: b, Amount: 11}})
			return err
		}, []string{
			"start apply 2",
			`block in apply: mode 5, key "", reason "", blocked false, level 0`,
			`decision in apply: key "", mode 0, amount 4, hold 0: true of 2, level 4, wait 0s`,
			`decision in apply: key "", mode 0, amount 11, hold 0: false of 2, level 4, wait 1281023h53m38.427387903s`,
			"end apply apply: 1s, failed 0, error <nil>",
		}},
		{"visit", func(ctx context.Context, s store.Store) error {
			return s.Visit(ctx, "p", func(store.Entry) bool { return true })
		}, []string{"start visit 0", "end visit visit: 1s, failed 0, error <nil>"}},
		{"prune", func(ctx context.Context, s store.Store) error { _, err := s.Prune(ctx); return err }, []string{
			"start prune 0", "end prune prune: 1s, failed 0, error <nil>",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w recorder
			now := time.Unix(0, 0)
			s := wrap(t, inMemory(t, nil), w.hooks(), &observe.Options{Clock: func() time.Time {
				now = now.Add(time.Second)
				return now
			}})
			_ = c.call(t.Context(), s)
			if got, want := strings.Join(w.lines, "\n"), strings.Join(c.want, "\n"); got != want {
				t.Errorf("the hooks recorded:\n%s\nwant:\n%s", got, want)
			}
			if strings.Contains(strings.Join(w.lines, ""), "secret") {
				t.Error("the hooks got the key, want none")
			}
		})
	}
}

// TestContextOfStart checks that the call gets the context that Start returns.
func TestContextOfStart(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	start := func(context.Context, observe.Call) context.Context { return done }
	s := wrap(t, inMemory(t, nil), observe.Hooks{Start: start}, nil)
	if _, err := s.Read(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled from the context that Start returned", err)
	}
}

func TestKey(t *testing.T) {
	hash := observe.HashKey([]byte("0123456789abcdef0123456789abcdef"))
	var w recorder
	s := wrap(t, inMemory(t, nil), observe.Hooks{Decision: w.hooks().Decision}, &observe.Options{Key: hash})
	op := store.Op{Bucket: store.Limit{Capacity: 1}.For("card:4711"), Amount: 1}
	if _, err := s.Fill(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	digits := hash("card:4711")
	recorded := strings.Join(w.lines, "\n")
	if len(w.lines) != 1 || !strings.Contains(recorded, fmt.Sprintf("key %q", digits)) || strings.Contains(recorded, "card:4711") {
		t.Errorf("the hooks recorded %q, want the key as %s", recorded, digits)
	}
	if len(digits) != 16 || digits == hash("card:4712") || digits == observe.HashKey([]byte("another"))("card:4711") {
		t.Errorf("%s, want 16 digits that depend on the key and on the secret", digits)
	}
}

func TestNoHooks(t *testing.T) {
	s := wrap(t, inMemory(t, nil), observe.Hooks{}, nil)
	op := store.Op{Bucket: store.Limit{Capacity: 1}.For("k"), Amount: 1}
	ctx := t.Context()
	if st, err := s.Fill(ctx, op); err != nil || !st.Accepted {
		t.Errorf("%+v, %v", st, err)
	}
	if res, err := s.Apply(ctx, store.Txn{op}); err != nil || res[0].Accepted {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := observe.New(nil, observe.Hooks{}, nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("no store: %v, want ErrClosed", err)
	}
	if allocs := testing.AllocsPerRun(100, func() {
		if _, err := s.Fill(ctx, op); err != nil {
			t.Error(err)
		}
	}); allocs != 0 {
		t.Errorf("a call without hooks allocates %v times", allocs)
	}
}

// TestShadowed sees that hooks tell a refusal that a Limiter let pass from one that it enforces,
// and that they count an operation as accepted only if its units went in.
func TestShadowed(t *testing.T) {
	var labels []string
	s := wrap(t, inMemory(t, func() time.Time { return time.Unix(1_800_000_000, 0) }), observe.Hooks{
		Decision: func(_ context.Context, d observe.Decision) {
			labels = append(labels, fmt.Sprint(d.Key, " ", d.Label(), " ", d.Accepted))
		},
	}, &observe.Options{Key: func(key string) string { return key }})
	tried := brim.New(s, &brim.Options{Shadow: func(context.Context, brim.Fill, error) {}})
	fill := func(key string, n float64) brim.Fill {
		return brim.Fill{Bucket: brim.Limit{Capacity: 10, LeakRate: 1}.For(key), Amount: n}
	}
	for _, c := range []struct {
		lim   *brim.Limiter
		fills []brim.Fill
	}{
		{tried, []brim.Fill{fill("a", 8)}},
		{tried, []brim.Fill{fill("a", 5)}},
		{tried, []brim.Fill{fill("b", 1), fill("a", 5)}},
		{tried, []brim.Fill{{Bucket: brim.Nobody.For("c"), Amount: 1}}},
		{brim.New(s, nil), []brim.Fill{fill("a", 5)}},
	} {
		if _, err := c.lim.TryFillupAll(t.Context(), c.fills...); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := tried.TryFillup(t.Context(), fill("a", 5).Bucket, 5); err != nil || !st.Accepted {
		t.Errorf("%+v, %v", st, err)
	}
	want := "[a accepted true a shadowed false b shadowed false a shadowed false c shadowed false a refused false a shadowed false]"
	if got := fmt.Sprint(labels); got != want {
		t.Errorf("labels %s, want %s", got, want)
	}
}

// TestLimits sees that a decision has the limit of its call, although a bucket that refuses may
// leak at the rate of another one.
func TestLimits(t *testing.T) {
	var got []string
	written, called := brim.Limit{Capacity: 10, LeakRate: 1}, brim.Limit{Capacity: 8, LeakRate: 4}
	names := map[string]brim.Limit{"written": written, "called": called, "quota": brim.Per(10, brim.Day, time.UTC), "nobody": brim.Nobody}
	s := wrap(t, inMemory(t, func() time.Time { return time.Unix(1_800_000_000, 0) }), observe.Hooks{
		Decision: func(_ context.Context, d observe.Decision) {
			for name, l := range names {
				if d.Under(l) {
					got = append(got, fmt.Sprintf("%s, leaks %v", name, d.State.LeakRate))
				}
			}
		},
	}, nil)
	lim := brim.New(s, nil)
	try := func(name string, n float64) {
		t.Helper()
		if _, err := lim.TryFillup(t.Context(), names[name].For("k"), n); err != nil {
			t.Fatal(err)
		}
	}
	try("written", 5)
	if _, err := lim.Block(t.Context(), "k", time.Hour); err != nil {
		t.Fatal(err)
	}
	try("called", 1)
	try("quota", 1)
	try("nobody", 1)
	if _, err := lim.Drain(t.Context(), brim.Nobody.For("k"), 1); err != nil { // by the limit last written
		t.Fatal(err)
	}
	want := "[written, leaks 1 called, leaks 1 quota, leaks 1 nobody, leaks 0 written, leaks 1]"
	if fmt.Sprint(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Joined hooks are called in their order, and each Start gets the context of the one before it.
func TestJoin(t *testing.T) {
	var heard []string
	type started struct{}
	hooks := func(name string) observe.Hooks {
		note := func(ctx context.Context, what string) {
			heard = append(heard, fmt.Sprint(name, " ", what, " in ", ctx.Value(started{})))
		}
		return observe.Hooks{
			Start: func(ctx context.Context, _ observe.Call) context.Context {
				note(ctx, "start")
				return context.WithValue(ctx, started{}, name)
			},
			Decision: func(ctx context.Context, _ observe.Decision) { note(ctx, "decision") },
			Block:    func(ctx context.Context, _ observe.Block) { note(ctx, "block") },
			End:      func(ctx context.Context, _ observe.Call, _ observe.Outcome) { note(ctx, "end") },
			Flush:    func(store.Flush) { note(t.Context(), "flush") },
			Retry:    func(store.Retry) { note(t.Context(), "retry") },
		}
	}
	h := observe.Join(hooks("a"), observe.Hooks{}, hooks("b"))
	ctx := h.Start(t.Context(), observe.Call{})
	h.Decision(ctx, observe.Decision{})
	h.Block(ctx, observe.Block{})
	h.End(ctx, observe.Call{}, observe.Outcome{})
	h.Flush(store.Flush{})
	h.Retry(store.Retry{})
	want := []string{
		"a start in <nil>", "b start in a", "a decision in b", "b decision in b", "a block in b", "b block in b",
		"a end in b", "b end in b", "a flush in <nil>", "b flush in <nil>", "a retry in <nil>", "b retry in <nil>",
	}
	if !slices.Equal(heard, want) {
		t.Errorf("heard %q; want %q", heard, want)
	}
	if none := observe.Join(observe.Hooks{}, observe.Hooks{}); none.End != nil || none.Flush != nil || observe.Join().Start != nil {
		t.Error("hooks that nobody set are called")
	}
}
