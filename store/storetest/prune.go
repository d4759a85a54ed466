package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// prune tests which buckets are pruned and when. The model tests that pruning changes no answer.
func (s *suite) prune(t *testing.T) {
	t.Run("expired buckets only", s.pruneExpired)
	t.Run("not by itself before its time", s.pruneUnasked)
}

// pruneUnasked calls the store often while buckets are as good as expired, and then sets the clock
// back by as much as the store must believe. The buckets must have lost nothing.
func (s *suite) pruneUnasked(t *testing.T) {
	const why = "a store that removes empty buckets by itself must wait for MaxSkew as well, or a clock that steps " +
		"back finds room that was taken"
	st, clock := s.at(t)
	limit := store.Limit{Capacity: 64, LeakRate: 1}
	var buckets []store.Bucket
	for i := range 16 {
		b := limit.For(fmt.Sprintf("emptied/%02d", i))
		if _, err := st.Fill(t.Context(), store.Op{Bucket: b, Amount: 30}); err != nil {
			t.Fatal(err)
		}
		buckets = append(buckets, b)
	}
	for round, after := range []time.Duration{29*time.Second + maxSkew, 40 * time.Second} {
		clock.set(start + after.Microseconds())
		for i := range 256 {
			b := limit.For(fmt.Sprintf("other/%d/%d", round, i))
			_, err := tryVia(t.Context(), st, store.Op{Bucket: b, Amount: 1}, i%2 == 1)
			if err == nil {
				_, err = st.Read(t.Context(), b, buckets[i%len(buckets)])
			}
			if err == nil && i%64 == 0 {
				err = touch(t.Context(), st, "")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		back := min(after-10*time.Second, maxSkew)
		clock.step(-back)
		want := max(0, 30-(after-back).Seconds())
		got, err := st.Read(t.Context(), buckets...)
		if err != nil {
			t.Fatal(err)
		}
		for i, st := range got {
			if st.Level != want {
				t.Fatalf("bucket %d at %v, after calls at %v: %+v, want level %v\nwhy: %s",
					i, after-back, after, st, want, why)
			}
		}
	}
}

// pruneExpired prunes at many times. Each bucket must disappear as soon as it has expired, and
// not earlier.
func (s *suite) pruneExpired(t *testing.T) {
	limit, still := store.Limit{Capacity: 3600, LeakRate: 1}, store.Limit{Capacity: 10}
	fill := func(n float64) store.Op { return store.Op{Bucket: limit.For(""), Amount: n} }
	always := func(limit store.Limit, n float64) store.Op {
		return store.Op{Bucket: limit.For(""), Amount: n, Mode: store.Always}
	}
	block := func(d time.Duration) store.Op { return store.Op{Bucket: limit.For(""), Amount: 3601, BlockFor: d} }
	buckets := []struct {
		key  string
		why  string
		goes time.Duration // when it expires, after the start; 0 if never
		ops  []store.Op    // on this bucket, at the start
	}{
		{
			"a minute's worth", "the bucket empties in a minute; MaxSkew later no clock that is believed can find units in it",
			time.Minute + maxSkew,
			[]store.Op{fill(60)},
		},
		{
			"drained", "the bucket is empty, but its time counts until no believed clock can be behind it",
			maxSkew,
			[]store.Op{fill(9), always(limit, -9)},
		},
		{"held", "held units do not leak", 0, []store.Op{{Bucket: limit.For(""), Hold: 1}}},
		{"no leak, drained", "without a leak a bucket never expires", 0, []store.Op{always(still, 1), always(still, -1)}},
		{
			"blocked", "the bucket is empty, but nothing fits; without the bucket everything would",
			time.Hour + maxSkew,
			[]store.Op{block(time.Hour)},
		},
		{
			"blocked by hand", "no units ever went in, so nothing is left when the block has ended",
			time.Hour + maxSkew,
			[]store.Op{{BlockFor: time.Hour, Mode: store.Block}},
		},
		{
			"slowest", "the bucket empties in far more than 146 years: nothing may overflow",
			0,
			[]store.Op{always(store.Limit{Capacity: 1 << 53, LeakRate: 1e-12}, 1<<53)},
		},
	}
	st, clock := s.at(t)
	there := make(map[string]bool)
	at := map[int64]bool{start: true, start + (1000 * time.Hour).Microseconds(): true}
	for _, b := range buckets {
		if !s.supports(b.ops...) {
			t.Logf("%q is left out because the store does not support an operation", b.key)
			continue
		}
		for _, op := range b.ops {
			op.Key = b.key
			if _, err := st.Fill(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
		there[b.key] = true
		if b.goes > 0 {
			at[start+b.goes.Microseconds()-1] = true
			at[start+b.goes.Microseconds()] = true
		}
	}
	for _, us := range slices.Sorted(maps.Keys(at)) {
		clock.set(us)
		n, err := st.Prune(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		left := visited(t, st, "")
		var gone int64
		for _, b := range buckets {
			may := b.goes > 0 && us >= start+b.goes.Microseconds()
			is := slices.Contains(left, b.key)
			if there[b.key] && !is {
				gone++
			}
			if there[b.key] && is == may {
				t.Errorf("after %v the store lists %q: %v, want %v\nwhy: %s",
					time.Duration(us-start)*time.Microsecond, b.key, is, !may, b.why)
			}
			there[b.key] = is
		}
		if n != gone {
			t.Errorf("Prune reports %d removed buckets, but %d have disappeared", n, gone)
		}
	}
}
