package postgres_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestSkewIsLogged: a decision under a row lock that finds a stored time further ahead than MaxSkew
// logs it once, and no other decision does.
func TestSkewIsLogged(t *testing.T) {
	const skew = time.Hour
	clock, log := newHandClock(), &records{}
	s := open(t, postgres.Options{Clock: clock.now, MaxSkew: skew, Logger: log.logger()})
	for _, c := range []struct {
		why  string
		back time.Duration // of the clock, before the decision
		want int
	}{
		{"the clock has not moved", 0, 0},
		{"the stored time is ahead by MaxSkew, and is believed", skew, 0},
		{"the stored time is further ahead", skew + time.Microsecond, 1},
	} {
		b, before := steady.For(c.why), log.count("MaxSkew")
		fill(t, s, op(b, 1, store.Always))
		clock.advance(-c.back)
		fill(t, s, store.Op{Bucket: b, Hold: 1})
		if n := log.count("MaxSkew") - before; n != c.want {
			t.Errorf("%s: %d lines about MaxSkew, want %d", c.why, n, c.want)
		}
	}
}
