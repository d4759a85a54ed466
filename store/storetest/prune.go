package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// prune tests which buckets are pruned and when, and that pruning changes no answer.
func (s *suite) prune(t *testing.T) {
	t.Run("expired buckets only", s.pruneExpired)
	t.Run("no answer changes", s.pruneTwins)
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
			op := store.Op{Bucket: b, Amount: 1}
			_, err := tryVia(t.Context(), st, op, i%2 == 1)
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
	const hour = time.Hour
	limit := store.Limit{Capacity: 3600, LeakRate: 1}
	block := func(d time.Duration) store.Op { return store.Op{Bucket: limit.For(""), Amount: 3601, BlockFor: d} }
	buckets := []struct {
		key  string
		why  string
		ops  []store.Op    // on this bucket, at the start
		goes time.Duration // when it expires, after the start; 0 if never
	}{
		{
			"a minute's worth",
			"the bucket is empty after a minute; MaxSkew later no clock that is believed can find units in it",
			[]store.Op{{Bucket: limit.For(""), Amount: 60}},
			time.Minute + maxSkew,
		},
		{
			"full", "the last call was long ago, but the bucket still leaks",
			[]store.Op{{Bucket: limit.For(""), Amount: 3600}},
			hour + maxSkew,
		},
		{
			"above the capacity", "units above the capacity have to leak too",
			[]store.Op{{Bucket: limit.For(""), Amount: 7200, Mode: store.Always}},
			2*hour + maxSkew,
		},
		{
			"drained", "the bucket is empty, but its time counts until no believed clock can be behind it",
			[]store.Op{{Bucket: limit.For(""), Amount: 9}, {Bucket: limit.For(""), Amount: -9, Mode: store.Always}},
			maxSkew,
		},
		{
			"held", "held units do not leak",
			[]store.Op{{Bucket: limit.For(""), Hold: 1}},
			0,
		},
		{
			"no leak", "a bucket that does not leak never empties",
			[]store.Op{{Bucket: store.Limit{Capacity: 10}.For(""), Amount: 1}},
			0,
		},
		{
			"no leak, drained", "with a leak rate of 0 a bucket never expires",
			[]store.Op{
				{Bucket: store.Limit{Capacity: 10}.For(""), Amount: 1},
				{Bucket: store.Limit{Capacity: 10}.For(""), Amount: -1, Mode: store.Always},
			},
			0,
		},
		{
			"blocked", "the bucket is empty, but nothing fits; without the bucket everything would",
			[]store.Op{block(hour)},
			hour + maxSkew,
		},
		{
			"blocked for less than it leaks", "the later of leak and block counts",
			[]store.Op{{Bucket: limit.For(""), Amount: 600}, block(time.Minute)},
			10*time.Minute + maxSkew,
		},
		{
			"slower by the limit last written", "the leak rate last written counts",
			[]store.Op{
				{Bucket: limit.For(""), Amount: 60},
				{Bucket: store.Limit{Capacity: 3600, LeakRate: 0.5}.For(""), Amount: 60},
			},
			4*time.Minute + maxSkew,
		},
		{
			"slowest", "the bucket empties in far more than 292 years: nothing may overflow",
			[]store.Op{{Bucket: store.Limit{Capacity: 1 << 53, LeakRate: 1e-12}.For(""), Amount: 1 << 53}},
			0,
		},
	}
	st, clock := s.at(t)
	there := make(map[string]bool)
	at := map[int64]bool{start: true}
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
	at[start+(1000*hour).Microseconds()] = true
	var moments []int64
	for us := range at {
		moments = append(moments, us)
	}
	slices.Sort(moments)
	for _, us := range moments {
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

// pruneTwins plays one random script on two stores and prunes one of them all the time. Every
// answer must be the same. The clock sometimes steps back by less than MaxSkew, as it may after
// a prune.
func (s *suite) pruneTwins(t *testing.T) {
	const why = "pruning never changes an answer, even if the clock then steps back by less than MaxSkew"
	clock := newClock()
	open := func() store.Store {
		st := s.o.OpenAt(t, clock.now)
		s.closeAtEnd(t, &st)
		return st
	}
	pruned, whole := open(), open()
	rng := rand.New(rand.NewPCG(8, 8))
	limits := []store.Limit{
		{Capacity: 60, LeakRate: 1}, {Capacity: 100, LeakRate: 0.25}, {Capacity: 8, LeakRate: 4}, {Capacity: 16},
	}
	var highest, removed int64
	for i := range 1000 {
		now := clock.now().UnixMicro()
		highest = max(highest, now)
		switch rng.IntN(3) {
		case 0:
			clock.step(time.Duration(rng.IntN(20)*rng.IntN(30)) * time.Second)
		case 1:
			clock.set(max(highest-maxSkew.Microseconds(), now-rng.Int64N(300)*1_000_000))
		}
		index := rng.IntN(4)
		limit := limits[index%len(limits)]
		op := store.Op{Bucket: limit.For(string(rune('a' + index)))}
		n := float64(rng.IntN(int(limit.Capacity) + 4))
		switch rng.IntN(10) {
		case 0:
			op.Mode, op.Amount = store.Always, -n
		case 1:
			op.Mode, op.Amount = store.Clamp, n
		case 2:
			op.Amount, op.BlockFor = n, 100*time.Second
		case 3:
			op.Hold = n / 4
		case 4: // release all held units, or the bucket would never expire
			got, err := whole.Read(t.Context(), op.Bucket)
			if err != nil {
				t.Fatal(err)
			}
			op.Mode, op.Hold = store.Always, -got[0].Held
		default:
			op.Amount = n
		}
		if !s.supports(op) {
			continue
		}
		if rng.IntN(2) == 0 {
			n, err := pruned.Prune(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			removed += n
		}
		a, errA := pruned.Fill(t.Context(), op)
		b, errB := whole.Fill(t.Context(), op)
		a.Estimate, b.Estimate = false, false // a wrapper may forget a pruned bucket and ask the store again
		if (errA == nil) != (errB == nil) || !sameState(a, b) {
			t.Fatalf("step %d, %+v:\n   pruned: %+v, %v\nnot pruned: %+v, %v\nwhy: %s", i, op, a, errA, b, errB, why)
		}
	}
	if removed == 0 {
		t.Error("Prune removed nothing in 1000 steps, although buckets expired")
	}
}

// sameState reports whether two states are equal. It compares instants, not time zones.
func sameState(a, b store.State) bool {
	if !a.At.Equal(b.At) || !a.BlockedUntil.Equal(b.BlockedUntil) {
		return false
	}
	a.At, b.At, a.BlockedUntil, b.BlockedUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return a == b
}
