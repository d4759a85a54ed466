package brim_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// TestQuotas decides together by a quota per month, one per day and a rate, on a clock that steps
// back now and then, and counts the units of each month and day. A twin whose buckets are pruned
// gives the same answers.
func TestQuotas(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Pacific/Apia"}
	for run := range uint64(seed.Attempts(60, 300)) {
		x := rand.New(rand.NewPCG(run, 7))
		zone, err := time.LoadLocation(zones[x.IntN(len(zones))])
		noError(t, err)
		now := time.Date(1990+x.IntN(40), time.Month(1+x.IntN(12)), 25, 0, 0, 0, 0, time.UTC)
		clock := func() time.Time { return now }
		var s store.Store = memory.New(&memory.Options{Clock: clock})
		if run%50 == 0 {
			s, err = bolt.Open(filepath.Join(t.TempDir(), "b"), &bolt.Options{Clock: clock})
			noError(t, err)
		}
		twin := memory.New(&memory.Options{Clock: clock})
		lim, other := brim.New(s, nil), brim.New(twin, nil)
		month, day := brim.Per(20, brim.Month, zone), brim.Per(3, brim.Day, zone)
		rate := brim.Limit{Capacity: 2, LeakRate: 1.0 / 4096}
		got, highest := make(map[string]float64), now
		for range 400 {
			now = now.Add(time.Duration(x.Int64N(int64(10 * time.Hour)))).Truncate(time.Microsecond)
			if now.After(highest) {
				highest = now
			}
			if x.IntN(10) == 0 { // by less than MaxSkew, in which no empty bucket is pruned
				now = highest.Add(-time.Duration(x.Int64N(int64(4 * time.Minute)))).Truncate(time.Microsecond)
			}
			fills := []brim.Fill{{Bucket: month.For("m"), Amount: 1}, {Bucket: day.For("d"), Amount: 1}, {Bucket: rate.For("r"), Amount: 1}}
			states, err := lim.TryFillupAll(t.Context(), fills...)
			noError(t, err)
			twins, err := other.TryFillupAll(t.Context(), fills...)
			noError(t, err)
			if !slices.EqualFunc(states, twins, sameState) {
				t.Fatalf("run %d at %v: the twin that is pruned differs:\n%s", run, now, differ.Fields(twins, states))
			}
			inMonth, inDay := states[0].At.In(zone).Format("month 2006-01"), states[1].At.In(zone).Format("day 2006-01-02")
			fits := got[inMonth] < 20 && got[inDay] < 3 && states[2].RetryAfter == 0
			if states[0].Accepted != fits {
				t.Fatalf("run %d at %v: %+v; %s has %v and %s has %v", run, now, states, inMonth, got[inMonth], inDay, got[inDay])
			}
			if fits {
				got[inMonth]++
				got[inDay]++
			}
			for i, st := range states[:2] {
				if st.RetryAfter > 0 && (!now.Add(st.RetryAfter).Equal(st.Empties) || st.When(1) != st.Empties.Sub(st.At)) {
					t.Fatalf("run %d at %v, fill %d: %+v; want a RetryAfter until %v", run, now, i, st, st.Empties)
				}
			}
			if x.IntN(5) == 0 {
				_, err := twin.Prune(t.Context())
				noError(t, err)
			}
			if x.IntN(20) == 0 { // one key changes between the kinds of limits
				b := []brim.Limit{month, day, rate}[x.IntN(3)].For("x")
				if a, c := must(t)(lim.TryFillup(t.Context(), b, 1)), must(t)(other.TryFillup(t.Context(), b, 1)); a != c {
					t.Fatalf("run %d at %v: %+v\nand the twin that is pruned: %+v", run, now, a, c)
				}
			}
		}
		_ = s.Close()
		_ = twin.Close()
	}
}

// sameState compares all fields of two states, except for the times of two empty buckets. A refusal
// dates an existing empty bucket under a new rate, and none that does not exist; after a step back
// of the clock only the first is ahead of it.
func sameState(a, b brim.State) bool {
	if a.Level == 0 && b.Level == 0 {
		a.At = b.At
	}
	return a == b
}

// TestQuotaOnEachBackend sees every call under a quota, and the end of its period.
func TestQuotaOnEachBackend(t *testing.T) {
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		lim, zone := brim.New(s, &brim.Options{Prefix: "p:"}), time.UTC
		quota := brim.Per(10, brim.Month, zone)
		b := quota.For("b")
		_, ends := quota.PeriodAt(clock.Now())
		left := ends.Sub(clock.Now())
		check := func(why string, st brim.State, err error, level float64, retry time.Duration) {
			t.Helper()
			if err != nil || st.Level != level || st.RetryAfter != retry || !st.Empties.Equal(ends) || st.LeakRate != 0 || st.Capacity != 10 {
				t.Errorf("%s: %+v, %v; want level %v, RetryAfter %v and empty at %v", why, st, err, level, retry, ends)
			}
		}
		st, err := lim.TryFillup(t.Context(), b, 4)
		check("TryFillup", st, err, 4, 0)
		st, err = lim.Hold(t.Context(), b, 4)
		check("Hold", st, err, 4, 0)
		st, err = lim.AbleToAccept(t.Context(), b, 3)
		check("AbleToAccept", st, err, 4, left)
		st, err = lim.TryFillup(t.Context(), b, 7)
		check("held units stay", st, err, 4, brim.Never)
		st, err = lim.Capture(t.Context(), b, 4, 2)
		check("Capture", st, err, 6, 0)
		st, err = lim.TakeUpTo(t.Context(), b, 1, 9)
		check("TakeUpTo", st, err, 10, 0)
		st, err = lim.TryFillup(t.Context(), b, 11)
		check("more than the capacity", st, err, 10, brim.Never)
		st, err = lim.Fillup(t.Context(), b, 2)
		check("Fillup", st, err, 10, left)
		st, err = lim.Drain(t.Context(), b, 1)
		check("Drain", st, err, 9, 0)
		st, err = lim.State(t.Context(), b)
		check("State", st, err, 9, 0)
		st, err = lim.StateOf(t.Context(), "b")
		check("StateOf", st, err, 9, 0)
		for e, err := range lim.List(t.Context(), "") {
			check("List", e.State, err, 9, 0)
		}
		st, err = lim.WithPenalty(brim.UntilEmpty).TryFillup(t.Context(), b, 2)
		check("a penalty until empty", st, err, 9, left)
		if !st.BlockedUntil.Equal(ends) {
			t.Errorf("blocked until %v; want %v", st.BlockedUntil, ends)
		}

		clock.Advance(left - time.Microsecond)
		st, err = lim.TryFillup(t.Context(), b, 1)
		check("just before the end", st, err, 9, time.Microsecond)
		before := ends
		clock.Advance(time.Microsecond)
		_, ends = quota.PeriodAt(clock.Now())
		st, err = lim.TryFillup(t.Context(), b, 10)
		check("a new period", st, err, 10, 0)

		// The clock steps back across the end: the bucket stays in its period, and a new one is in
		// the other.
		clock.Advance(-time.Minute)
		st, err = lim.TryFillup(t.Context(), b, 1)
		check("after a step back", st, err, 10, ends.Sub(clock.Now()))
		states, err := lim.TryFillupAll(t.Context(), brim.Fill{Bucket: quota.For("new"), Amount: 1}, brim.Fill{Bucket: b, Amount: 0})
		if err != nil || !states[0].Accepted || !states[0].Empties.Equal(before) || !states[1].Empties.Equal(ends) {
			t.Errorf("two buckets in two periods: %+v, %v; want them empty at %v and %v", states, err, before, ends)
		}
		clock.Advance(time.Minute)
		st, err = lim.TryFillup(t.Context(), brim.Limit{Capacity: 10, LeakRate: 1}.For("b"), 1)
		if err != nil || st.RetryAfter != time.Second || !st.Empties.IsZero() {
			t.Errorf("a rate in the place of the quota: %+v, %v", st, err)
		}
		clock.Advance(2 * time.Second)
		st, err = lim.TryFillup(t.Context(), b, 1)
		check("the quota again", st, err, 9, 0)
	})
}

// TestQuotaAsks counts how often the store is asked: a second time where its clock is in another
// period than that of the process, and once from then on.
func TestQuotaAsks(t *testing.T) {
	now := time.Date(2026, 1, 31, 23, 30, 0, 0, time.UTC)
	s := &asked{Store: memory.New(&memory.Options{Clock: func() time.Time { return now }})}
	lim, b := brim.New(s, nil), brim.Per(3, brim.Month, time.UTC).For("b")
	for i, want := range []int64{2, 1, 1} {
		before := s.fills.Load()
		if st := must(t)(lim.TryFillup(t.Context(), b, 1)); !st.Accepted || s.fills.Load()-before != want {
			t.Errorf("call %d: %+v after %d questions; want %d", i, st, s.fills.Load()-before, want)
		}
	}
	now = time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)
	if _, err := lim.TryFillup(t.Context(), brim.Per(3, brim.Month, time.UTC).For("old"), 1); !errors.Is(err, brim.ErrInvalidLimit) {
		t.Errorf("before 1970: %v; want ErrInvalidLimit", err)
	}
}

// TestQuotaWait waits for the next hour.
func TestQuotaWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, b := brim.New(inMemory(t), nil), brim.Per(1, brim.Hour, time.UTC).For("b")
		must(t)(lim.Wait(t.Context(), b, 1))
		begin := time.Now()
		must(t)(lim.Wait(t.Context(), b, 1))
		if took := time.Since(begin); took < time.Hour || took > time.Hour+250*time.Millisecond {
			t.Errorf("the wait took %v; want an hour and up to a quarter of a second", took)
		}
		if _, err := lim.Wait(t.Context(), b, 2); !errors.Is(err, brim.ErrOverLimit) {
			t.Errorf("more than the quota: %v; want ErrOverLimit", err)
		}
	})
}
