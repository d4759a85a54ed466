package shadow_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/shadow"
	"github.com/brimgo/brim/store"
)

var limit = brim.Limit{Capacity: 10, LeakRate: 1}

// testClock is a clock that moves only when a test advances it.
type testClock struct{ t time.Time }

func (c *testClock) now() time.Time { return c.t }

func inMemory(t *testing.T, clock *testClock) store.Store {
	t.Helper()
	s, err := memory.New(&memory.Options{Clock: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func wrap(t *testing.T, s store.Store) *shadow.Store {
	t.Helper()
	w, err := shadow.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestShadow sees that everything passes, and that each State still tells what the limit says.
func TestShadow(t *testing.T) {
	ctx := t.Context()
	clock := &testClock{time.Unix(1_800_000_000, 0)}
	s := inMemory(t, clock)
	lim := brim.New(wrap(t, s), nil)
	b := limit.For("b")
	if st, err := lim.TryFillup(ctx, b, 8); err != nil || !st.Accepted || st.RetryAfter != 0 || st.Level != 8 {
		t.Errorf("it fits: %+v, %v", st, err)
	}
	ran := 0
	for name, call := range map[string]func() (brim.State, error){
		"TryFillup":    func() (brim.State, error) { return lim.TryFillup(ctx, b, 5) },
		"AbleToAccept": func() (brim.State, error) { return lim.AbleToAccept(ctx, b, 5) },
		"Wait":         func() (brim.State, error) { return lim.Wait(ctx, b, 5) },
		"TryFillupAll": func() (brim.State, error) {
			states, err := lim.TryFillupAll(ctx, brim.Fill{Bucket: limit.For("other"), Amount: 1}, brim.Fill{Bucket: b, Amount: 5})
			if err == nil && (!states[0].Accepted || states[0].RetryAfter != 0) {
				t.Errorf("TryFillupAll, of the bucket with room: %+v", states[0])
			}
			if err != nil {
				return brim.State{}, err
			}
			return states[1], nil
		},
		"Do": func() (brim.State, error) {
			err := lim.Do(ctx, b, 5, func(context.Context) error { ran++; return nil })
			return brim.State{Accepted: true, RetryAfter: 3 * time.Second, Level: 8}, err
		},
	} {
		if st, err := call(); err != nil || !st.Accepted || st.RetryAfter != 3*time.Second || st.Level != 8 {
			t.Errorf("%s: %+v, %v; want a call that passes, with the wait of 3 s that the limit demands", name, st, err)
		}
	}
	if ran != 1 {
		t.Errorf("Do ran the function %d times", ran)
	}
	if st, err := lim.TryFillup(ctx, b, 11); err != nil || !st.Accepted || st.RetryAfter != brim.Never {
		t.Errorf("more than the capacity: %+v, %v", st, err)
	}
	// The calls that pass left nothing in the buckets, as if they had been refused.
	for key, level := range map[string]float64{"b": 8, "other": 0} {
		if st, err := brim.New(s, nil).State(ctx, limit.For(key)); err != nil || st.Level != level {
			t.Errorf("level of %s %v, %v; want %v", key, st.Level, err, level)
		}
	}
	if st, err := lim.Fillup(ctx, b, 5); err != nil || st.Accepted || st.Spilled != 3 {
		t.Errorf("a Fillup tells what it spilled: %+v, %v", st, err)
	}
	if st, err := lim.WithPenalty(time.Hour).TryFillup(ctx, b, 5); err != nil || !st.Accepted || st.BlockedUntil.IsZero() {
		t.Errorf("a penalty: %+v, %v", st, err)
	}
	if st, err := lim.TryFillup(ctx, b, 0); err != nil || !st.Accepted || st.RetryAfter != 0 {
		t.Errorf("nothing: %+v, %v", st, err)
	}
}

// TestUnsupported sees that a hold and a Shaper's turn are errors that give a reason, and that
// nothing is sent.
func TestUnsupported(t *testing.T) {
	ctx := t.Context()
	clock := &testClock{time.Unix(1_800_000_000, 0)}
	s := inMemory(t, clock)
	lim := brim.New(wrap(t, s), nil)
	shaper, err := brim.NewShaper(lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	bounded, err := brim.NewShaper(lim, &brim.ShaperOptions{MaxWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	b := limit.For("b")
	for _, c := range []struct {
		name, reason string
		call         func() error
	}{
		{"hold", "reserves nothing", func() error { _, err := lim.Hold(ctx, b, 1); return err }},
		{"capture", "reserves nothing", func() error { _, err := lim.Capture(ctx, b, 1, 1); return err }},
		{"release", "reserves nothing", func() error { _, err := lim.Release(ctx, b, 1); return err }},
		{"turn", "has no turn", func() error { _, err := shaper.Wait(ctx, b, 1); return err }},
		{"turn within a bound", "has no turn", func() error { _, err := bounded.Reserve(ctx, b, 1); return err }},
		{"transaction", "reserves nothing", func() error {
			_, err := wrap(t, s).Apply(ctx, store.Txn{{Bucket: b, Amount: 1}}, store.Txn{{Bucket: b, Hold: 1}})
			return err
		}},
	} {
		err := c.call()
		var e *store.Error
		if !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, &e) || e.Backend != "shadow" || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v; want a reason: %s", c.name, err, c.reason)
		}
	}
	if page, err := paging.All(ctx, s, ""); err != nil || len(page) != 0 {
		t.Errorf("%d buckets, %v; want none", len(page), err)
	}
	if w, err := shadow.New(nil); w != nil || !errors.Is(err, store.ErrClosed) {
		t.Errorf("over no store: %v, %v", w, err)
	}
}

// TestShadowDecidesAsTheLimit makes the same random calls through a shadow and through the enforced
// limit. All States must be equal, but for Accepted, and the hooks must count the refusals of the
// enforced limit.
func TestShadowDecidesAsTheLimit(t *testing.T) {
	ctx := t.Context()
	clock := &testClock{time.Unix(1_800_000_000, 0)}
	refused, shadowed := 0, 0
	observed := func(s store.Store, count func(observe.Decision)) store.Store {
		w, err := observe.New(s, observe.Hooks{Decision: func(_ context.Context, d observe.Decision) { count(d) }}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	enforced := observed(inMemory(t, clock), func(d observe.Decision) {
		if d.Mode == store.IfFits && !d.Accepted {
			refused++
		}
	})
	tried := observed(wrap(t, inMemory(t, clock)), func(d observe.Decision) {
		if d.Shadowed() {
			shadowed++
		}
	})
	rng := rand.New(rand.NewPCG(1, 2))
	randomOp := func() store.Op {
		op := store.Op{Bucket: limit.For(string(rune('a' + rng.IntN(3)))), Amount: 12 * rng.Float64()}
		switch rng.IntN(8) {
		case 0:
			op.Mode = store.Clamp
		case 1:
			op.Mode, op.Amount = store.Always, -op.Amount
		case 2:
			op.Mode = store.Ask
		case 3:
			op.BlockFor = time.Second
		}
		return op
	}
	for i := range 20_000 {
		clock.t = clock.t.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
		var want, got []store.Result
		var err, errShadow error
		if i%2 == 0 {
			op := randomOp()
			var st, stShadow store.State
			st, err = enforced.Fill(ctx, op)
			stShadow, errShadow = tried.Fill(ctx, op)
			if op.Mode == store.Clamp { // a Fillup refuses nothing
				stShadow.Accepted = true
			}
			want, got = []store.Result{{States: []store.State{st}}}, []store.Result{{States: []store.State{stShadow}}}
		} else {
			var txns []store.Txn
			for range 1 + rng.IntN(2) {
				txns = append(txns, store.Txn{
					{Bucket: limit.For("a"), Amount: 3 * rng.Float64()}, {Bucket: limit.For("b"), Amount: 3 * rng.Float64()},
				})
			}
			want, err = enforced.Apply(ctx, txns...)
			got, errShadow = tried.Apply(ctx, txns...)
		}
		for i := range want {
			want[i].Accepted, got[i].Accepted = true, true
			for j := range want[i].States {
				if !got[i].States[j].Accepted {
					t.Fatalf("call %d did not pass: %+v", i, got[i])
				}
				want[i].States[j].Accepted = true
			}
		}
		if err != nil || errShadow != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("call %d: %+v, %v; the enforced limit: %+v, %v", i, got, errShadow, want, err)
		}
	}
	if shadowed != refused || refused < 1000 {
		t.Errorf("%d operations would have been refused; the enforced limit refused %d", shadowed, refused)
	}
}

// TestLabelsOfTransactions sees that hooks count an operation as accepted only if its units went in.
func TestLabelsOfTransactions(t *testing.T) {
	labels := map[string]string{}
	s := inMemory(t, &testClock{time.Unix(1_800_000_000, 0)})
	w, err := observe.New(wrap(t, s), observe.Hooks{Decision: func(_ context.Context, d observe.Decision) { labels[d.Key] = d.Label() }},
		&observe.Options{Key: func(key string) string { return key }})
	if err != nil {
		t.Fatal(err)
	}
	op := func(key string, n float64, mode store.Mode) store.Op {
		return store.Op{Bucket: limit.For(key), Amount: n, Mode: mode}
	}
	if _, err := w.Apply(t.Context(),
		store.Txn{op("with room", 5, store.IfFits), op("without", 11, store.IfFits)},
		store.Txn{op("went in", 5, store.IfFits), op("over the rim", 11, store.Clamp)},
	); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"with room": "shadowed", "without": "shadowed", "went in": "accepted", "over the rim": "spilled"}
	if !reflect.DeepEqual(labels, want) {
		t.Errorf("labels %v, want %v", labels, want)
	}
}

// TestErrors sees that an error of the store stays one, and that the calls without a decision reach
// the store.
func TestErrors(t *testing.T) {
	ctx := t.Context()
	clock := &testClock{time.Unix(1_800_000_000, 0)}
	s := inMemory(t, clock)
	w := wrap(t, s)
	lim := brim.New(w, nil)
	if _, err := lim.TryFillup(ctx, limit.For("b"), 5); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range lim.List(ctx, "") {
		n++
		if err != nil {
			t.Error(err)
		}
	}
	size, err := w.Size(ctx)
	page, scanErr := paging.All(ctx, w, "")
	if n != 1 || size <= 0 || err != nil || len(page) != 1 || scanErr != nil {
		t.Errorf("%d buckets, size %d, %v, page %v, %v", n, size, err, page, scanErr)
	}
	clock.t = clock.t.Add(time.Hour)
	if n, err := lim.Prune(ctx); n != 1 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	if err := lim.Reset(ctx, "b"); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	st, err := lim.TryFillup(ctx, limit.For("b"), 5)
	if !errors.Is(err, brim.ErrClosed) || st.Accepted {
		t.Errorf("after Close: %+v, %v", st, err)
	}
	if _, err := lim.TryFillupAll(ctx, brim.Fill{Bucket: limit.For("b"), Amount: 1}); !errors.Is(err, brim.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
