package store

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of valid keys, amounts and limits.
const (
	MaxKeyLen   = 512     // bytes
	MaxAmount   = 1 << 53 // units; also the largest capacity and leak rate; a double holds integers up to it exactly
	MinLeakRate = 1e-12   // units per second, unless the rate is 0
)

// Bounds of a valid [Record].
const (
	maxUnits  = 1 << 106                // what 2^53 calls with the largest amount put in
	firstEnd  = 1_000_000_000           // no period of a quota that begins in 1970 or later ends before, in microseconds
	firstTime = -62_135_596_800_000_000 // the zero time.Time, in microseconds since the Unix epoch
	lastTime  = 253_402_300_799_999_999 // the end of the year 9999, likewise
)

// plain reports whether key is ASCII without NUL, as nearly every key is. It tests eight bytes
// at a time, because every call pays for the test.
func plain(key string) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(key) >= 8 {
		v := uint64(key[0]) | uint64(key[1])<<8 | uint64(key[2])<<16 | uint64(key[3])<<24 |
			uint64(key[4])<<32 | uint64(key[5])<<40 | uint64(key[6])<<48 | uint64(key[7])<<56
		// Subtracting one from each byte sets the highest bit of a NUL. The highest bit of a
		// byte from 1 to 127 stays clear.
		if ((v-ones)|v)&highs != 0 {
			return false
		}
		key = key[8:]
	}
	for i := range len(key) {
		if key[i]-1 >= 0x7f {
			return false
		}
	}
	return true
}

// ValidateKey returns [ErrInvalidKey] if some backend could not store key unchanged: it is
// empty, longer than 512 bytes, not UTF-8, or contains NUL. Keys are compared byte by byte, so
// keys that differ in case or in Unicode form are different keys.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("brim: %w: the key is empty; a key has 1 to %d bytes", ErrInvalidKey, MaxKeyLen)
	case len(key) > MaxKeyLen:
		return fmt.Errorf("brim: %w: the key has %d bytes; a key has 1 to %d bytes",
			ErrInvalidKey, len(key), MaxKeyLen)
	case plain(key):
		return nil
	case strings.IndexByte(key, 0) >= 0:
		return fmt.Errorf("brim: %w: the key contains NUL; a key is UTF-8 without NUL", ErrInvalidKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("brim: %w: the key is not UTF-8; encode binary keys, for instance in base64",
			ErrInvalidKey)
	}
	return nil
}

// capacityValid reports whether the capacity is in range. The predicates of this file are apart
// from the errors, because the compiler inlines them into [Op.Validate], which every call runs.
func (l Limit) capacityValid() bool { return l.Capacity >= 0 && l.Capacity <= MaxAmount }

func (l Limit) leakRateValid() bool {
	return l.LeakRate == 0 || l.LeakRate >= MinLeakRate && l.LeakRate <= MaxAmount
}

// endValid reports whether the leak rate is the end of a period, as in the records of quotas.
func (l Limit) endValid() bool {
	return l.LeakRate <= -firstEnd && l.LeakRate >= -MaxTime && math.Trunc(l.LeakRate) == l.LeakRate
}

// Validate returns [ErrInvalidLimit] if the capacity or the leak rate is out of range, or both are
// 0: a limit that somebody forgot is not [Nobody].
func (l Limit) Validate() error {
	switch {
	case l == Nobody || l == Unlimited:
		return nil
	case l == Limit{}:
		return fmt.Errorf("brim: %w: the limit is not set; to let nobody in, use Nobody", ErrInvalidLimit)
	case l.special == tooManyPeriods:
		return fmt.Errorf("brim: %w: the process uses %d kinds of calendar periods already, which is the most",
			ErrInvalidLimit, maxPeriods)
	case l.special == invalidPeriod || l.Calendar() && l.LeakRate != 0:
		return fmt.Errorf("brim: %w: a quota of the calendar has one of the periods Hour to Year, a zone by its name, "+
			"such as Europe/Berlin, a day of the week or of the month at which it starts, and no leak rate", ErrInvalidLimit)
	case l.special != 0:
		return fmt.Errorf("brim: %w: Nobody and Unlimited have neither a capacity nor a leak rate", ErrInvalidLimit)
	}
	if !l.capacityValid() {
		return fmt.Errorf("brim: %w: capacity is %v; it must be from 0 to 2^53",
			ErrInvalidLimit, l.Capacity)
	}
	if !l.leakRateValid() {
		return fmt.Errorf("brim: %w: leak rate is %v per second; it must be 0, or from 1e-12 to 2^53",
			ErrInvalidLimit, l.LeakRate)
	}
	return nil
}

// Validate returns [ErrInvalidKey] or [ErrInvalidLimit] if the key or the limit is invalid.
func (b Bucket) Validate() error {
	if err := ValidateKey(b.Key); err != nil {
		return err
	}
	return b.Limit.Validate()
}

func amountValid(n float64) bool { return n >= 0 && n <= MaxAmount }

// loses reports whether n is lost in the rounding of the capacity.
func (l Limit) loses(n float64) bool { return n > 0 && l.Capacity+n == l.Capacity }

// ValidateAmount returns [ErrInvalidAmount] if n is not a number from 0 to 2^53, or so small
// that adding it to the capacity changes nothing. The limit must be valid.
func (l Limit) ValidateAmount(n float64) error {
	if !amountValid(n) {
		return fmt.Errorf("brim: %w: the amount is %v; it must be a number from 0 to 2^53", ErrInvalidAmount, n)
	}
	if l.loses(n) {
		return fmt.Errorf("brim: %w: the amount %v is lost in the rounding of capacity %v; count in larger units",
			ErrInvalidAmount, n, l.Capacity)
	}
	return nil
}

// smallestHold is the smallest hold, as a share of the capacity. Smaller ones could get lost in the
// rounding that the end of a hold allows for; see [Record.Fill].
const smallestHold = 0x1p-38

// validateHold returns ErrInvalidAmount if the hold of n units is too small beside the capacity.
func validateHold(n, capacity float64) error {
	if n > 0 && n < capacity*smallestHold {
		return fmt.Errorf("brim: %w: a hold of %v units is too small beside the capacity %v; "+
			"hold at least 2^-38 of the capacity", ErrInvalidAmount, n, capacity)
	}
	return nil
}

func unitsValid(n float64) bool { return n >= 0 && n <= maxUnits }

// Validate returns [ErrCorrupt] if no call can have written the record. A backend whose records
// others can write or damage calls it on each that it reads. It decides nothing by an invalid one:
// a held amount of -Inf, for instance, would let everything in.
//
// Level and Held are from 0 to 2^106, and the limit is valid, or a quota in the form of
// [Op.SetPeriod]. A record without a limit has a block at
// most. Time is from the year 1 to the year 9999, and no block ends after [MaxTime].
func (r *Record) Validate() error {
	switch {
	case !unitsValid(r.Level):
		return corrupt("level", r.Level)
	case !unitsValid(r.Held):
		return corrupt("held amount", r.Held)
	case !r.capacityValid():
		return corrupt("capacity", r.Capacity)
	case !r.leakRateValid() && !r.endValid():
		return corrupt("leak rate", r.LeakRate)
	case r.Limit == Limit{} && (r.Level > 0 || r.Held > 0):
		return corrupt("no limit, and level and held amount", [...]float64{r.Level, r.Held})
	case r.Time < firstTime || r.Time > lastTime:
		return corrupt("time in microseconds", r.Time)
	case r.BlockedUntil < firstTime || r.BlockedUntil > MaxTime:
		return corrupt("end of a block in microseconds", r.BlockedUntil)
	}
	return nil
}

func corrupt(field string, value any) error {
	return fmt.Errorf("%w: no call writes a record with %s %v; Reset makes the bucket empty and usable again",
		ErrCorrupt, field, value)
}

// Validate returns an error if the operation is invalid. Callers of a [Store] validate every
// operation before they pass it on, so that invalid operations cause no I/O. An operation of mode
// [Block] or [Unblock], or of mode [Always] that only ends a hold or takes units out, or is the
// rest of a capture, may have no limit.
func (o *Op) Validate() error {
	block := o.Mode == Block || o.Mode == Unblock
	if o.Limit == (Limit{}) && (block || o.Mode == Always && o.Hold <= 0) {
		if err := ValidateKey(o.Key); err != nil {
			return err
		}
		if block {
			return o.validateBlock()
		}
		return o.validateUnits()
	}
	if !plain(o.Key) || o.Key == "" || len(o.Key) > MaxKeyLen {
		if err := ValidateKey(o.Key); err != nil {
			return err
		}
	}
	switch {
	case o.special != 0:
		if err := o.Limit.Validate(); err != nil {
			return err
		}
		return fmt.Errorf("brim: %w: a store decides neither by Nobody nor by Unlimited", ErrInvalidLimit)
	case o.LeakRate < 0 && o.capacityValid() && o.endValid() && o.Begins >= 0 && o.Begins < int64(-o.LeakRate) && !o.Calendar():
		// a quota in the form of SetPeriod
	case !o.capacityValid() || !o.leakRateValid() || o.Limit == Limit{}:
		return o.Limit.Validate()
	case o.Calendar():
		return fmt.Errorf("brim: %w: a store decides a quota of the calendar in the form of Op.SetPeriod", ErrInvalidLimit)
	case o.Begins != 0:
		return fmt.Errorf("brim: %w: Begins is set without a quota of the calendar", ErrInvalidLimit)
	}
	if block {
		return o.validateBlock()
	}
	return o.validateUnits()
}

// validateUnits is Validate for the modes that put units in, of an operation whose bucket is valid.
func (o *Op) validateUnits() error {
	if n := math.Abs(o.Amount); !amountValid(n) || o.loses(n) {
		return o.ValidateAmount(n)
	}
	if n := math.Abs(o.Hold); !amountValid(n) || o.loses(n) {
		return o.ValidateAmount(n)
	}
	if o.Hold > 0 && o.Hold < o.Capacity*smallestHold {
		return validateHold(o.Hold, o.Capacity)
	}
	if o.Mode == Clamp && (o.Amount < 0 || o.Hold != 0) {
		return fmt.Errorf("brim: %w: mode Clamp allows neither a negative amount nor a hold", ErrInvalidAmount)
	}
	if o.Mode == UpTo || o.Least != 0 {
		if err := o.validateUpTo(); err != nil {
			return err
		}
	}
	if (o.Mode == IfFits || o.Mode == Ask) && o.Hold < 0 {
		return fmt.Errorf("brim: %w: modes IfFits and Ask do not allow a negative hold; use mode Always",
			ErrInvalidAmount)
	}
	if o.Mode == Ask && o.BlockFor != 0 {
		return fmt.Errorf("brim: %w: mode Ask does not allow a penalty, because it writes nothing", ErrInvalidLimit)
	}
	if !(o.Ceiling >= 0 && o.Ceiling <= math.MaxFloat64) {
		return fmt.Errorf("brim: %w: Ceiling is %v; it must be 0 for none, or positive",
			ErrInvalidLimit, o.Ceiling)
	}
	if !o.CeilingAt.IsZero() && o.Ceiling == 0 {
		return fmt.Errorf("brim: %w: CeilingAt is set without a Ceiling", ErrInvalidLimit)
	}
	if o.BlockFor < 0 && o.BlockFor != UntilEmpty {
		return fmt.Errorf("brim: %w: the penalty is %v; it must be 0, positive, or UntilEmpty",
			ErrInvalidLimit, o.BlockFor)
	}
	if o.BlockFor > 0 && o.BlockFor < time.Microsecond {
		return fmt.Errorf("brim: %w: the penalty is %v; the shortest is a microsecond",
			ErrInvalidLimit, o.BlockFor)
	}
	return nil
}

// validateUpTo is validateUnits for what mode UpTo demands.
func (o *Op) validateUpTo() error {
	switch whole := math.Trunc(o.Least) == o.Least && math.Trunc(o.Amount) == o.Amount; {
	case o.Mode != UpTo:
		return fmt.Errorf("brim: %w: Least is set without mode UpTo", ErrInvalidAmount)
	case o.Hold != 0 || o.Ceiling != 0:
		return fmt.Errorf("brim: %w: mode UpTo allows neither a hold nor a Ceiling", ErrInvalidAmount)
	case !(o.Least >= 1 && o.Least <= o.Amount) || !whole:
		return fmt.Errorf("brim: %w: an amount from %v to %v; both must be whole numbers, the least from 1 to the most",
			ErrInvalidAmount, o.Least, o.Amount)
	}
	return nil
}

// validateBlock is Validate for the modes Block and Unblock, of an operation whose bucket is valid.
func (o *Op) validateBlock() error {
	switch {
	case o.Amount != 0 || o.Hold != 0 || o.Least != 0:
		return fmt.Errorf("brim: %w: modes Block and Unblock allow neither an amount nor a hold", ErrInvalidAmount)
	case o.Ceiling != 0 || !o.CeilingAt.IsZero():
		return fmt.Errorf("brim: %w: modes Block and Unblock do not allow a Ceiling", ErrInvalidLimit)
	case o.Mode == Unblock && o.BlockFor != 0:
		return fmt.Errorf("brim: %w: mode Unblock does not allow a duration", ErrInvalidLimit)
	case o.Mode == Block && o.BlockFor < time.Microsecond && o.BlockFor != UntilEmpty:
		return fmt.Errorf("brim: %w: the block lasts %v; it must last a microsecond or longer, or UntilEmpty",
			ErrInvalidLimit, o.BlockFor)
	}
	return nil
}

// Validate returns an error if an operation is invalid, if one key occurs with two limits or beside
// an operation of mode [UpTo], or if operations of mode [Ask] stand beside others than those of
// modes IfFits and UpTo, or ask about a negative amount beside these.
func (t Txn) Validate() error {
	for i := range t {
		if err := t[i].Validate(); err != nil {
			return err
		}
	}
	if len(t) < 2 {
		return nil
	}
	type dated struct {
		Limit
		begins int64
	}
	limits := make(map[string]dated, len(t))
	upTo := slices.ContainsFunc(t, func(op Op) bool { return op.Mode == UpTo })
	asks := t.asksSome()
	for i := range t {
		if asks && !t[i].refusable() {
			return fmt.Errorf("brim: %w: a transaction has mode Ask beside a mode that cannot be refused; "+
				"use modes Ask, IfFits and UpTo alone", ErrInvalidAmount)
		}
		if upTo && slices.ContainsFunc(t[:i], func(op Op) bool {
			return op.Key == t[i].Key && (op.Mode == UpTo || t[i].Mode == UpTo)
		}) {
			return fmt.Errorf("brim: %w: a key occurs beside an operation of mode UpTo, which leaves nothing for "+
				"the other; name the key once", ErrInvalidAmount)
		}
		if asks && t[i].Mode == Ask && t[i].Amount < 0 && !t.Asks() {
			return fmt.Errorf("brim: %w: a transaction asks about taking units out, beside operations that "+
				"would not find them taken out", ErrInvalidAmount)
		}
		if t[i].Limit == (Limit{}) { // the limit last written
			continue
		}
		limit := dated{t[i].Limit, t[i].Begins}
		if l, ok := limits[t[i].Key]; ok && l != limit {
			return fmt.Errorf("brim: %w: one key occurs with two limits in a transaction; use one limit",
				ErrInvalidLimit)
		}
		limits[t[i].Key] = limit
	}
	return nil
}
