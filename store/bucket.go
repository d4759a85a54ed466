package store

import (
	"math"
	"strconv"
	"time"
)

// Never is the RetryAfter of an amount for which no wait makes room: the amount exceeds the
// capacity less the held units, the bucket does not leak, or the wait is longer than 146 years, or
// ends after the year 2255; see [MaxTime]. It is half of the largest Duration, so that a time added
// to it is still positive: compare with >=.
const Never = time.Duration(1<<62 - 1)

// Limit is the capacity and the leak rate of a bucket. It comes with each call, so it can
// change at any time.
//
// A bucket that starts empty lets about twice its Capacity through in the time that a full
// bucket takes to drain. For "never more than c in any window", see package spend.
//
// A limit of [Per] is a quota of the calendar: it has a Capacity, and no LeakRate.
type Limit struct {
	Capacity float64 // units, from 0 to 2^53; integers up to 2^53 are exact
	LeakRate float64 // units per second: 0, which never leaks, or from 1e-12 to 2^53
	special  special // a mark that no computed limit can have by accident
	period   uint32  // of a quota of the calendar, the number of its periods; see kinds
}

// special tells the limits apart that are not a capacity and a leak rate.
type special uint8

const (
	nobody special = 1 + iota
	unlimited
	invalidPeriod
	tooManyPeriods
)

// Nobody is the limit under which nothing fits but an amount of 0, with a RetryAfter of [Never].
// Unlimited is the limit under which everything fits and nothing is counted.
//
// The Limiter answers TryFillup, Fillup, AbleToAccept and Hold under them itself. A call that ends
// a hold or takes units out goes on to the store without a limit, so a store never gets them.
var (
	Nobody    = Limit{special: nobody}
	Unlimited = Limit{special: unlimited}
)

// Over returns the limit of a bucket that drains in period once it is full. With a capacity of 0
// and a positive period it is [Nobody]. If period is not positive, [Limit.Validate] refuses the
// limit.
func Over(capacity float64, period time.Duration) Limit {
	if capacity == 0 && period > 0 {
		return Nobody
	}
	return Limit{Capacity: capacity, LeakRate: capacity / period.Seconds()}
}

// MaxWait reports the time that a full bucket takes to drain, rounded up to a microsecond. In a
// bucket that is used as a queue no unit waits longer. The time is [Never] if the bucket does
// not leak, or if the time exceeds 146 years.
func (l Limit) MaxWait() time.Duration {
	us := l.Capacity / l.LeakRate * 1e6
	// The capacity or the leak rate was often computed from the time. The quotient is then a few
	// roundings off, and must not be rounded up to the next microsecond.
	if whole := math.Round(us); math.Abs(us-whole) <= whole*0x1p-50 {
		us = whole
	}
	return microseconds(us)
}

// For returns the bucket with that key under this limit. The key alone identifies the bucket:
// two limits for one key apply to the same bucket.
func (l Limit) For(key string) Bucket { return Bucket{Key: key, Limit: l} }

// Bucket is a key and the limit that the caller applies to it.
type Bucket struct {
	Key   string // UTF-8 without NUL, 1 to 512 bytes; compared byte by byte
	Limit        // the limit that this call decides by
}

// State is a bucket as a call found it or left it. A State does not change when the bucket
// changes.
type State struct {
	// Level is the number of units that leak, after the call.
	Level float64
	// Held is the number of reserved units, which do not leak, after the call.
	Held float64
	// Capacity is the capacity in units that the call decided by. A read without a limit
	// reports the limit last written.
	Capacity float64
	// LeakRate is the rate in units per second at which the bucket leaks until the next write: that
	// of the call, if the call wrote it, and else the one last written. A question writes none. It
	// is 0 under a quota of the calendar. A bucket that is empty and not blocked shows the rate of
	// the call.
	LeakRate float64
	// Spilled is the number of units that a Fillup lost because they exceeded the capacity.
	Spilled float64
	// Taken is the number of units that a TakeUpTo put in.
	Taken float64
	// Drained is the number of units that a Drain took out of the level.
	Drained float64
	// RetryAfter is the wait on the store's clock until the amount fits, if it was not accepted and
	// no other caller comes, at LeakRate. It is rounded up to a microsecond. It is 0 after an
	// accepted call, and [Never] if no wait helps. A Limiter with Options.Shadow accepts calls that
	// the limit refuses, and leaves their RetryAfter.
	RetryAfter time.Duration
	// At is the bucket's time at the decision: the store's clock, or the time of the last write
	// if the clock is behind it.
	At time.Time
	// Empties is the end of the period of a quota of the calendar, on the store's clock, at which
	// the bucket empties. It is zero if the bucket leaks at LeakRate.
	Empties time.Time
	// BlockedUntil is the time on the store's clock before which nothing fits. It is zero if
	// the bucket is not blocked.
	BlockedUntil time.Time
	// Accepted reports whether the amount of this call fits and no block keeps it out. TryFillup
	// and Hold put their amount in only if they are accepted. AbleToAccept puts nothing in. A
	// Fillup into a blocked bucket puts its units in and is not accepted.
	Accepted bool
	// Full reports whether this call filled the bucket to its capacity. A Fillup that loses
	// units is Full, too. A refusal by TryFillup or Hold, a read, a Drain, a Release and a
	// Capture of held units are never Full.
	Full bool
	// Estimate reports whether a wrapper answered from memory instead of asking the store; see
	// package local.
	Estimate bool
}

// Remaining reports the units that would still fit: Capacity less Level less Held, but never
// below zero. It is 0 while the bucket is blocked.
func (s State) Remaining() float64 {
	if s.BlockedUntil.After(s.At) {
		return 0
	}
	return max(0, s.Capacity-s.Level-s.Held)
}

// When reports the time after At until n units would fit if no other caller came, on the store's
// clock and rounded up to a microsecond, after an acceptance as well. It is 0 if they fit at once,
// and [Never] if no wait helps.
func (s State) When(n float64) time.Duration {
	r := Record{Level: s.Level, Held: s.Held, Time: s.At.UnixMicro(), Limit: s.Limit()}
	if !s.BlockedUntil.IsZero() {
		r.BlockedUntil = s.BlockedUntil.UnixMicro()
	}
	return r.wait(&Op{Bucket: Bucket{Limit: r.Limit}, Amount: n}, n, r.Time, s.Capacity)
}

// String writes the state in one line, for logs: "refused, retry after 2s: 9.5 of 10 units, leak
// 0.5/s". The state of a call that decided about no amount begins with the units.
func (s State) String() string {
	var b []byte
	switch {
	case s.Accepted:
		b = []byte("accepted: ")
	case s.RetryAfter >= Never:
		b = []byte("refused, never fits: ")
	case s.RetryAfter > 0:
		b = append(append([]byte("refused, retry after "), s.RetryAfter.String()...), ": "...)
	}
	unit := func(before string, n float64, after string) {
		b = append(strconv.AppendFloat(append(b, before...), n, 'f', -1, 64), after...)
	}
	unit("", s.Level, "")
	unit(" of ", s.Capacity, " units")
	if s.Held > 0 {
		unit(", ", s.Held, " held")
	}
	if s.Empties.IsZero() {
		unit(", leak ", s.LeakRate, "/s")
	} else {
		b = s.Empties.UTC().AppendFormat(append(b, ", empties at "...), time.RFC3339)
	}
	if s.BlockedUntil.After(s.At) {
		b = s.BlockedUntil.UTC().AppendFormat(append(b, ", blocked until "...), time.RFC3339)
	}
	if s.Estimate {
		b = append(b, ", an estimate"...)
	}
	return string(b)
}

// TimeToEmpty reports the time after At in which Level leaks if nothing more goes in, rounded
// up to a microsecond. It is 0 if Level is 0. Otherwise it is [Never] if the bucket does not
// leak, or if it is empty after the year 2255; see [MaxTime]. Held units do not leak, so they do
// not count. Under a quota of the calendar it is the time to the end of the period.
func (s State) TimeToEmpty() time.Duration {
	switch {
	case s.Level <= 0:
		return 0
	case !s.Empties.IsZero():
		return max(0, s.Empties.Sub(s.At))
	}
	d := seconds(s.Level / s.LeakRate)
	if d.Microseconds() >= MaxTime-s.At.UnixMicro() {
		return Never
	}
	return d
}

// seconds returns s seconds as a Duration, rounded up to a microsecond. NaN, and a time of 146
// years or more, become Never.
func seconds(s float64) time.Duration { return microseconds(s * 1e6) }

// microseconds is seconds for a time in microseconds.
func microseconds(us float64) time.Duration {
	us = math.Ceil(us)
	if !(us < maxWait) {
		return Never
	}
	return time.Duration(us) * time.Microsecond
}

// maxWait is the wait in microseconds that is [Never], about 146 years.
const maxWait = (1<<62 - 1) / 1000
