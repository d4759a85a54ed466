package redisstore

import (
	"strconv"
	"strings"

	"github.com/brimgo/brim/store"
)

// longest is the length in bytes that no text of a bucket exceeds, with six numbers of at most 24.
const longest = 160

// parse decodes the text of a bucket, as decide.lua does: level, time, capacity, leak rate; and,
// where there are any, held units and the end of the block. parse reports whether the text is
// whole, and that of a record which a call can have written.
func parse(raw string) (rec store.Record, whole bool) {
	f := strings.Split(raw, " ")
	if len(raw) > longest || len(f) < 4 || len(f) > 6 {
		return rec, false
	}
	whole = true
	amount := func(field string) float64 {
		v, err := strconv.ParseFloat(field, 64)
		whole = whole && err == nil && '0' <= field[0] && field[0] <= '9' &&
			strings.Trim(field, "0123456789.e+-") == ""
		return v
	}
	micros := func(field string) int64 {
		t, ok := parseTime(field)
		whole = whole && ok
		return t
	}
	rec.Level, rec.Time = amount(f[0]), micros(f[1])
	rec.Capacity, rec.LeakRate = amount(f[2]), amount(strings.TrimPrefix(f[3], "-"))
	if strings.HasPrefix(f[3], "-") { // the end of a period
		rec.LeakRate = -rec.LeakRate
	}
	if len(f) > 4 {
		rec.Held = amount(f[4])
	}
	if len(f) > 5 {
		rec.BlockedUntil = micros(f[5])
		whole = whole && rec.BlockedUntil != 0
	}
	return rec, whole && exists(&rec) && rec.Validate() == nil
}

// exists reports whether a record is that of a bucket: it has had a limit, or has a block.
func exists(r *store.Record) bool { return r.Limit != store.Limit{} || r.BlockedUntil != 0 }

// parseTime decodes seconds since 1970 with six decimals, up to [store.MaxTime] on either side.
func parseTime(text string) (us int64, ok bool) {
	seconds, micros, _ := strings.Cut(text, ".")
	digits := strings.TrimPrefix(seconds, "-")
	if digits == "" || len(micros) != 6 || strings.Trim(digits+micros, "0123456789") != "" {
		return 0, false
	}
	t, err := strconv.ParseFloat(seconds+micros, 64) // as Lua does, which has no integers
	return int64(t), err == nil && t >= -store.MaxTime && t <= store.MaxTime
}
