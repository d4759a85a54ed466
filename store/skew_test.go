package store

import (
	"testing"
	"time"
)

// TestOperatorsMendSkew tests that Block and Unblock write a time that was too far ahead back to
// the clock, also where there was no block to end.
func TestOperatorsMendSkew(t *testing.T) {
	const clock, maxSkew = int64(1_000_000_000), time.Second
	limit := Limit{Capacity: 10, LeakRate: 1}
	for _, mode := range []Mode{Block, Unblock} {
		for ahead, want := range map[time.Duration]int64{
			maxSkew:                    clock + maxSkew.Microseconds(), // still believed
			maxSkew + time.Microsecond: clock,
		} {
			r := Record{Limit: limit, Level: 5, Time: clock + ahead.Microseconds()}
			op := Op{Bucket: limit.For("k"), Mode: mode}
			if mode == Block {
				op.BlockFor = time.Hour
			}
			_, effect, err := r.Fill(&op, clock, maxSkew)
			writes := effect&Write != 0
			if err != nil || r.Time != want || writes != (mode == Block || want == clock) {
				t.Errorf("mode %v, %v ahead: time %d, writes %v, %v; want time %d", mode, ahead, r.Time, writes, err, want)
			}
		}
	}
}
