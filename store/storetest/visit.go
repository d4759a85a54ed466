package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/store"
)

// visit tests Visit, and that Read keeps the order of its arguments.
func (s *suite) visit(t *testing.T) {
	t.Run("each bucket once", s.visitEach)
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

// fillKeys puts a unit into the bucket of each key.
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
	for _, prefix := range []string{"", "p", "p/", "p/a", "many/", "many/01", "p%", "P", "z", "\U0010ffff", "\xff", "p\xff", "p\x00"} {
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

// visitStops tests how a visit ends, and that calls that name nothing do nothing.
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
	states, err := st.Read(t.Context())
	results, err2 := st.Apply(t.Context())
	if err := errors.Join(err, err2, st.Delete(t.Context())); err != nil || len(states)+len(results) != 0 {
		t.Errorf("calls that name no bucket: %v, %v, %v; want nothing", states, results, err)
	}
	// Read keeps the order of its arguments, which may name a bucket again, and with other limits.
	states, err = st.Read(t.Context(), store.Limit{Capacity: 7}.For("k00001"), store.Bucket{Key: "nobody"},
		store.Bucket{Key: "k00001"}, store.Limit{Capacity: 3}.For("nobody"))
	for i, want := range []store.State{{Level: 1, Capacity: 7}, {}, {Level: 1, Capacity: 100}, {Capacity: 3}} {
		if err != nil || states[i].Level != want.Level || states[i].Capacity != want.Capacity {
			t.Fatalf("Read: %+v, %v; want each state by the limit of its own argument", states, err)
		}
	}
	if err := st.Delete(t.Context(), slices.Concat(keys[1:], keys[1:2], []string{"nobody"})...); err != nil {
		t.Errorf("Delete of several: %v", err)
	}
	if got := visited(t, st, ""); !slices.Equal(got, keys[:1]) {
		t.Errorf("Delete of all but one key left %q", got)
	}
}

// visitCalls calls the store while Visit is under way: from f, and from another goroutine for which
// f waits. Buckets come and go, and most of them are deleted. Those that stay must be visited once.
func (s *suite) visitCalls(t *testing.T) {
	const why = "a bucket that exists from the beginning to the end is visited exactly once"
	st := s.real(t)
	limit := store.Limit{Capacity: 1000}
	op := func(key string) store.Op { return store.Op{Bucket: limit.For(key), Amount: 1, Mode: store.Always} }
	var stays, goes []string
	for i := range 2000 {
		stays = append(stays, fmt.Sprintf("stays/%04d", i))
		goes = append(goes, fmt.Sprintf("goes/%d", i))
	}
	fillKeys(t, st, limit, stays)
	fillKeys(t, st, limit, goes)
	var got []string
	s.crowd(t, why, 1, func(ctx context.Context, _ int) error {
		n := 0
		var failed error
		err := st.Visit(ctx, "", func(e store.Entry) bool {
			if strings.HasPrefix(e.Key, "stays/") {
				got = append(got, e.Key)
			}
			if n++; n%200 != 1 {
				return true
			}
			done := make(chan error)
			go func() {
				_, err := st.Fill(ctx, op(e.Key))
				done <- err
			}()
			chunk := min(200, len(goes))
			failed = errors.Join(<-done, st.Delete(ctx, goes[:chunk]...))
			goes = goes[chunk:]
			var txns []store.Txn
			for i := range 300 {
				txns = append(txns, store.Txn{op(fmt.Sprintf("comes/%d/%d", n, i))})
			}
			_, err := st.Apply(ctx, txns...)
			failed = errors.Join(failed, err)
			return failed == nil && n < 20_000 // Visit may visit new buckets, but must come to an end
		})
		return errors.Join(err, failed, wants(n < 20_000, "Visit", n, nil))
	})
	slices.Sort(got)
	if !slices.Equal(got, stays) {
		t.Errorf("visited %d of the %d buckets that stay\nwhy: %s", len(got), len(stays), why)
	}
}
