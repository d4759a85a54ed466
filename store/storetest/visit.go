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

// visit tests [store.Visit] on the store, whether the store is a [store.Visitor] or not.
func (s *suite) visit(t *testing.T) {
	t.Run("each bucket once", s.visitEach)
	t.Run("stopping", s.visitStops)
	t.Run("calls meanwhile", s.visitCalls)
}

// visited returns the keys that Visit visits, sorted. A key that is visited twice occurs twice.
func visited(t *testing.T, st store.Store, prefix string) (keys []string) {
	t.Helper()
	err := store.Visit(t.Context(), st, prefix, func(e store.Entry) bool { keys = append(keys, e.Key); return true })
	if err != nil {
		t.Fatalf("Visit: %v", err)
	}
	slices.Sort(keys)
	return keys
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
		"p", "p/", "p/a", "p/a/b", "p0", "P/a", "p%", "p_", "é", "p/\u00e9", "p/\U0010ffff", "\U0010ffff", "p\x01",
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
	list, err := st.Scan(t.Context(), "p/", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	err = store.Visit(t.Context(), st, "p/", func(e store.Entry) bool {
		i := slices.IndexFunc(list, func(l store.Entry) bool { return l.Key == e.Key })
		if i < 0 {
			t.Errorf("Visit visits %q, which Scan does not list", e.Key)
			return true
		}
		e.At, list[i].At = time.Time{}, time.Time{} // of two moments
		if e != list[i] {
			t.Errorf("Visit visits %+v, and Scan lists %+v", e, list[i])
		}
		return true
	})
	if err != nil {
		t.Errorf("Visit: %v", err)
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
		err := store.Visit(t.Context(), st, "", func(store.Entry) bool { seen++; return seen < n })
		if err != nil || seen != n {
			t.Errorf("after f has returned false at bucket %d: %d visited, %v; want no further bucket and no error",
				n, seen, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	err := store.Visit(ctx, st, "", func(store.Entry) bool { seen++; cancel(); return true })
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
		err := store.Visit(ctx, st, "", func(e store.Entry) bool {
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
