package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// scan tests Scan: order, prefix, after, limit and entries. It also tests that Read keeps the
// order of its arguments.
func (s *suite) scan(t *testing.T) {
	st := s.real(t)
	limit := store.Limit{Capacity: 100, LeakRate: 0}
	keys := []string{
		"p", "p/", "p/a", "p/a/b", "p/b", "p0", "P/a", "p%", "p_", "q", "é", "p/\u00e9", "p/\U0010ffff",
		"p/\U0010ffff\U0010ffff",
		"\U0010ffff", "p/B", "p/~", "o\U0010ffff", "p\x01", "p/\x7f",
	}
	for i, k := range keys {
		if _, err := st.Fill(t.Context(), store.Op{Bucket: limit.For(k), Amount: float64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(keys)
	prefixes := []string{"", "p", "p/", "p/a", "p/\U0010ffff", "\U0010ffff", "%", "p_", "p%", "P", "z", "é", "p\x01"}
	afters := []string{"", "a", "p", "p/", "p/a", "p/a\x01", "p/z", "q", "\U0010ffff", "\U0010ffff\U0010ffff"}
	for _, prefix := range prefixes {
		for _, after := range afters {
			var want []string
			for _, k := range keys {
				if strings.HasPrefix(k, prefix) && k > after {
					want = append(want, k)
				}
			}
			for _, n := range []int{1, 2, 3, 100} {
				got, err := st.Scan(t.Context(), prefix, after, n)
				if err != nil {
					t.Fatal(err)
				}
				names := make([]string, len(got))
				for i := range got {
					names[i] = got[i].Key
				}
				if want := want[:min(n, len(want))]; !slices.Equal(names, want) {
					t.Errorf("Scan(%q, after %q, %d) lists %q, want %q\nwhy: keys come in byte order; the prefix "+
						"is no pattern; after is exclusive; limit is the most entries",
						prefix, after, n, names, want)
				}
			}
		}
	}
	for _, page := range []int{1, 3, 7, len(keys), len(keys) + 1} {
		if got := listed(t, st, "", page); !slices.Equal(got, keys) {
			t.Errorf("pages of %d list %q, want %q\nwhy: a page is shorter than limit if and only if no more "+
				"entries follow",
				page, got, keys)
		}
	}
	t.Run("writes between pages", func(t *testing.T) { scanWhileWriting(t, st, limit, keys) })
	t.Run("entries", s.entries)
}

// scanWhileWriting writes between pages. The store must not block writes, and must list every
// key that exists all the time exactly once.
func scanWhileWriting(t *testing.T, st store.Store, limit store.Limit, keys []string) {
	var got []string
	after := ""
	for {
		page, err := st.Scan(t.Context(), "", after, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			after = e.Key
			if !strings.HasPrefix(e.Key, "new") {
				got = append(got, e.Key)
			}
		}
		if len(page) < 3 {
			break
		}
		// Write the last listed key again, and new keys before and behind it.
		for _, k := range []string{after, fmt.Sprintf("new%d", len(got)), after + "!"} {
			if _, err := st.Fill(t.Context(), store.Op{Bucket: limit.For(k), Amount: 1, Mode: store.Always}); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(k, "!") {
				if err := st.Delete(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if !slices.Equal(got, keys) {
		t.Errorf("listed %q, want %q", got, keys)
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
	list, err := st.Scan(t.Context(), "", "", 10)
	if err != nil || len(list) != 3 {
		t.Fatalf("Scan: %d entries, %v; want 3", len(list), err)
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
	if got := listed(t, st, "", 10); !slices.Equal(got, []string{"b"}) {
		t.Errorf("Delete of several left %q, want b", got)
	}
}
