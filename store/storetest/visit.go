package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// visit tests Visit, and that Read keeps the order of its arguments.
func (s *suite) visit(t *testing.T) {
	t.Run("each bucket once", s.visitEach)
	t.Run("entries", s.entries)
	t.Run("stopping", s.visitStops)
	t.Run("calls meanwhile", s.visitCalls)
}

// entriesOf returns the buckets that Visit visits, sorted by key. A bucket that is visited twice
// occurs twice.
func entriesOf(t testing.TB, st store.Store, prefix string) (entries []store.Entry) {
	t.Helper()
	err := st.Visit(t.Context(), prefix, func(e store.Entry) bool { entries = append(entries, e); return true })
	if err != nil {
		t.Fatalf("Visit: %v", err)
	}
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
	return entries
}

// visited returns the keys that Visit visits, sorted.
func visited(t testing.TB, st store.Store, prefix string) (keys []string) {
	t.Helper()
	for _, e := range entriesOf(t, st, prefix) {
		keys = append(keys, e.Key)
	}
	return keys
}

// touch is a Visit that ends at the first bucket.
func touch(ctx context.Context, st store.Store, prefix string) error {
	return st.Visit(ctx, prefix, func(store.Entry) bool { return false })
}

// fillKeys puts i+1 units into the bucket of the ith key.
func fillKeys(t *testing.T, st store.Store, limit store.Limit, keys []string) {
	t.Helper()
	for chunk := range slices.Chunk(keys, 500) {
		var txns []store.Txn
		for _, k := range chunk {
			txns = append(txns, store.Txn{{Bucket: limit.For(k), Amount: 1, Mode: store.Always}})
		}
		if _, err := st.Apply(t.Context(), txns...); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *suite) visitEach(t *testing.T) {
	st := s.real(t)
	if got := visited(t, st, ""); len(got) != 0 {
		t.Errorf("Visit of an empty store visits %q", got)
	}
	keys := []string{
		"p", "p/", "p/a", "p/a/b", "p0", "P/a", "p%", "p_", "é", "p/\u00e9", "p/\U0010ffff", "p/\U0010ffff\U0010ffff",
		"\U0010ffff", "o\U0010ffff", "p\x01", "p/\x7f",
		strings.Repeat("p/long", 80),
	}
	for i := range 2500 {
		keys = append(keys, fmt.Sprintf("many/%05d", i))
	}
	fillKeys(t, st, store.Limit{Capacity: 100}, keys)
	for _, prefix := range []string{"", "p", "p/", "p/a", "many/", "many/01", "p%", "P", "z", "\U0010ffff", "\xff"} {
		var want []string
		for _, k := range keys {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		slices.Sort(want)
		if got := visited(t, st, prefix); !slices.Equal(got, want) {
			t.Errorf("Visit(%q) visits %d buckets, want %d: %.300q\nwhy: each bucket with the prefix is visited "+
				"exactly once", prefix, len(got), len(want), got)
		}
	}
}

func (s *suite) visitStops(t *testing.T) {
	st := s.real(t)
	keys := make([]string, 2500)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%05d", i)
	}
	fillKeys(t, st, store.Limit{Capacity: 100}, keys)
	for _, n := range []int{1, 2, 1500} {
		seen := 0
		err := st.Visit(t.Context(), "", func(store.Entry) bool { seen++; return seen < n })
		if err != nil || seen != n {
			t.Errorf("after f has returned false at bucket %d: %d visited, %v; want no further bucket and no error",
				n, seen, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	err := st.Visit(ctx, "", func(store.Entry) bool { seen++; cancel(); return true })
	if !errors.Is(err, context.Canceled) || seen == len(keys) {
		t.Errorf("Visit whose context ended at the first bucket visited %d of %d: %v; want the context's error",
			seen, len(keys), err)
	}
}

// visitCalls calls the store while Visit is under way: from f, and from another goroutine for which
// f waits. Buckets come and go, and most of them are pruned. Those that stay must be visited once.
func (s *suite) visitCalls(t *testing.T) {
	const why = "a bucket that exists from the beginning to the end is visited exactly once"
	st := s.real(t)
	limit := store.Limit{Capacity: 1000}
	var stays, goes []string
	for i := range 2000 {
		stays = append(stays, fmt.Sprintf("stays/%d", i))
		goes = append(goes, fmt.Sprintf("goes/%d", i))
	}
	fillKeys(t, st, limit, stays)
	fillKeys(t, st, limit, goes)
	var got []string
	s.finishes(t, "Visit and the calls of its function", func(ctx context.Context) {
		n := 0
		err := st.Visit(ctx, "", func(e store.Entry) bool {
			if strings.HasPrefix(e.Key, "stays/") {
				got = append(got, e.Key)
			}
			if n++; n%200 != 1 {
				return true
			}
			done := make(chan error)
			go func() {
				_, err := st.Fill(ctx, store.Op{Bucket: limit.For(e.Key), Amount: 1, Mode: store.Always})
				done <- err
			}()
			err := errors.Join(<-done, st.Delete(ctx, goes[:min(200, len(goes))]...))
			goes = goes[min(200, len(goes)):]
			var txns []store.Txn
			for i := range 300 {
				b := limit.For(fmt.Sprintf("comes/%d/%d", n, i))
				txns = append(txns, store.Txn{{Bucket: b, Amount: 1, Mode: store.Always}})
			}
			_, applied := st.Apply(ctx, txns...)
			if err := errors.Join(err, applied); err != nil {
				t.Errorf("a call during Visit: %v", err)
				return false
			}
			return n < 20_000 // Visit may visit new buckets, but must come to an end
		})
		if err != nil || n >= 20_000 {
			t.Errorf("Visit: %v after %d buckets", err, n)
		}
	})
	slices.Sort(got)
	slices.Sort(stays)
	if !slices.Equal(got, stays) {
		t.Errorf("visited %d of the %d buckets that stay\nwhy: %s", len(got), len(stays), why)
	}
}

// entries tests the states of entries and of reads without a limit.
func (s *suite) entries(t *testing.T) {
	const why = "an entry, and a Read with a zero limit, report the state by the limit last written"
	st := s.real(t)
	ops := []store.Op{
		{Bucket: store.Limit{Capacity: 10}.For("a"), Amount: 10},
		{Bucket: store.Limit{Capacity: 20}.For("b"), Amount: 1, Hold: 5},
		{Bucket: store.Limit{Capacity: 30}.For("b"), Amount: 2},
		{Bucket: store.Limit{Capacity: 5}.For("c"), Amount: 6, BlockFor: time.Hour},
	}
	want := map[string]store.State{
		"a": {Level: 10, Capacity: 10},
		"b": {Level: 3, Held: 5, Capacity: 30},
		"c": {Capacity: 5},
	}
	if !s.supports(ops...) {
		t.Log("left out because the store does not support an operation")
		return
	}
	var until time.Time
	for _, op := range ops {
		got, err := st.Fill(t.Context(), op)
		if err != nil {
			t.Fatal(err)
		}
		until = got.BlockedUntil
	}
	check := func(source, key string, got store.State) {
		t.Helper()
		w := want[key]
		if got.Level != w.Level || got.Held != w.Held || got.Capacity != w.Capacity || got.LeakRate != w.LeakRate ||
			got.Accepted || got.Full || got.Spilled != 0 || got.RetryAfter != 0 || got.At.IsZero() {
			t.Errorf("%s of %s: %+v, want %+v\nwhy: %s", source, key, got, w, why)
		}
		if (key == "c") != got.BlockedUntil.Equal(until) || key != "c" && !got.BlockedUntil.IsZero() {
			t.Errorf("%s of %s: blocked until %v, want only c, until %v", source, key, got.BlockedUntil, until)
		}
	}
	list := entriesOf(t, st, "")
	if len(list) != 3 {
		t.Fatalf("Visit visits %d buckets, want 3", len(list))
	}
	for _, e := range list {
		check("entry", e.Key, e.State)
	}
	order := []string{"c", "nobody", "a", "b", "a"}
	buckets := make([]store.Bucket, len(order))
	for i, k := range order {
		buckets[i].Key = k
	}
	states, err := st.Read(t.Context(), buckets...)
	if err != nil || len(states) != len(order) {
		t.Fatalf("Read: %d states, %v; want %d", len(states), err, len(order))
	}
	for i, k := range order {
		check("Read", k, states[i])
	}
	// One call may read buckets by different limits.
	states, err = st.Read(t.Context(),
		store.Limit{Capacity: 7}.For("a"), store.Bucket{Key: "a"}, store.Limit{Capacity: 3}.For("nobody"))
	if err != nil || states[0].Capacity != 7 || states[1].Capacity != 10 ||
		states[2].Capacity != 3 || states[2].Level != 0 {
		t.Errorf("Read with limits: %+v, %v; want each state by the limit of its own argument", states, err)
	}
	if got, err := st.Read(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("Read without buckets: %v, %v", got, err)
	}
	if got, err := st.Apply(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("Apply without transactions: %v, %v", got, err)
	}
	if err := st.Delete(t.Context()); err != nil {
		t.Errorf("Delete without keys: %v", err)
	}
	if err := st.Delete(t.Context(), "a", "nobody", "c", "a"); err != nil {
		t.Errorf("Delete of several: %v", err)
	}
	if got := visited(t, st, ""); !slices.Equal(got, []string{"b"}) {
		t.Errorf("Delete of several left %q, want b", got)
	}
}
