package caller_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/caller"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// TestCorrectQuota: a charge is given back in its own period alone. In the next one its units have
// emptied already, and giving them back would take out those of others.
func TestCorrectQuota(t *testing.T) {
	quota := store.Per(10, store.Hour, time.UTC)
	for name, c := range map[string]struct {
		passes time.Duration // on the store's clock, between the charge and its end
		aged   time.Duration // on the clock of the process
		others float64       // units of others, in the bucket at the end of the charge
		want   float64
	}{
		"same period": {time.Minute, time.Minute, 3, 3},
		"next period": {time.Hour, time.Hour, 3, 3},
		"next period, which only the store knows":   {time.Hour, 0, 3, 3},
		"next period, with less in it":              {time.Hour, 0, 1, 1},
		"next period, with more in it":              {time.Hour, 0, 9, 9},
		"next period, which only the process knows": {time.Minute, time.Hour, 3, 7},
	} {
		clock := brimtest.NewClock(time.Date(2026, 5, 4, 3, 30, 0, 0, time.UTC))
		s := memory.New(&memory.Options{Clock: clock.Now})
		lim, b := brim.New(s, nil), quota.For("b")
		st, err := lim.TryFillup(t.Context(), b, 4)
		if err != nil {
			t.Fatal(err)
		}
		clock.Advance(c.passes)
		if _, err := lim.TryFillup(t.Context(), b, c.others); err != nil {
			t.Fatal(err)
		}
		charge := caller.Charge{Bucket: b, N: 4, At: st.At, Began: time.Now().Add(-c.aged)}
		if err := charge.Correct(t.Context(), lim); err != nil {
			t.Fatal(err)
		}
		if st, err := lim.State(t.Context(), b); err != nil || st.Level != c.want {
			t.Errorf("%s: %v, %v; want a level of %v", name, st, err, c.want)
		}
		_ = s.Close()
	}
}
