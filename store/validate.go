package store

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of what the validator lets through.
const (
	MaxKeyLen   = 512     // bytes
	MaxAmount   = 1 << 53 // units; also the largest capacity and leak rate: integers up to it are exact in a double
	MinLeakRate = 1e-12   // units per second, unless 0
)

// plain reports whether key is ASCII without NUL, as nearly every key is: eight bytes are looked at together, because this is
// on the hot path.
func plain(key string) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(key) >= 8 {
		v := uint64(key[0]) | uint64(key[1])<<8 | uint64(key[2])<<16 | uint64(key[3])<<24 |
			uint64(key[4])<<32 | uint64(key[5])<<40 | uint64(key[6])<<48 | uint64(key[7])<<56
		// Less one, a NUL borrows into its highest bit; bytes from 1 to 127 leave theirs alone.
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

// ValidateKey refuses, with [ErrInvalidKey], a key that some backend could not store as it is. Keys that differ in case or
// Unicode form are different: bytes decide.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("brim: %w: it is empty; a key has 1 to %d bytes", ErrInvalidKey, MaxKeyLen)
	case len(key) > MaxKeyLen:
		return fmt.Errorf("brim: %w: it has %d bytes; a key has 1 to %d bytes", ErrInvalidKey, len(key), MaxKeyLen)
	case plain(key):
		return nil
	case strings.IndexByte(key, 0) >= 0:
		return fmt.Errorf("brim: %w: it holds a NUL byte; a key is UTF-8 without NUL", ErrInvalidKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("brim: %w: it is not UTF-8; encode binary keys, for instance in base64", ErrInvalidKey)
	}
	return nil
}

// Validate refuses, with [ErrInvalidLimit], a capacity or leak rate that is out of range.
func (l Limit) Validate() error {
	if !(l.Capacity > 0 && l.Capacity <= MaxAmount) {
		return fmt.Errorf("brim: %w: capacity is %v; it must be over 0 and at most 2^53", ErrInvalidLimit, l.Capacity)
	}
	if l.LeakRate != 0 && !(l.LeakRate >= MinLeakRate && l.LeakRate <= MaxAmount) {
		return fmt.Errorf("brim: %w: leak rate is %v per second; it must be 0, or from 1e-12 to 2^53", ErrInvalidLimit, l.LeakRate)
	}
	return nil
}

// Validate refuses a bucket whose key or limit is invalid.
func (b Bucket) Validate() error {
	if err := ValidateKey(b.Key); err != nil {
		return err
	}
	return b.Limit.Validate()
}

// ValidateAmount refuses, with [ErrInvalidAmount], an amount that a caller may not ask of a bucket with this limit: one that
// is not a number from 0 to 2^53, or so small that adding it to the capacity would change nothing.
func (l Limit) ValidateAmount(n float64) error {
	if !(n >= 0 && n <= MaxAmount) {
		return fmt.Errorf("brim: %w: %v; it must be a number from 0 to 2^53", ErrInvalidAmount, n)
	}
	if n > 0 && l.Capacity+n == l.Capacity {
		return fmt.Errorf("brim: %w: %v is lost in the rounding of capacity %v; count in larger units", ErrInvalidAmount, n, l.Capacity)
	}
	return nil
}

// Validate refuses an operation that is nonsense, before any I/O: every [Store] may assume that it was called.
func (o *Op) Validate() error {
	if err := o.Bucket.Validate(); err != nil {
		return err
	}
	if err := o.ValidateAmount(math.Abs(o.Amount)); err != nil {
		return err
	}
	if err := o.ValidateAmount(math.Abs(o.Hold)); err != nil {
		return err
	}
	if o.Mode == Clamp && (o.Amount < 0 || o.Hold != 0) {
		return fmt.Errorf("brim: %w: a clamped fill neither takes out nor holds", ErrInvalidAmount)
	}
	if o.Mode == IfFits && o.Hold < 0 {
		return fmt.Errorf("brim: %w: held units are taken back unconditionally, with mode Always", ErrInvalidAmount)
	}
	if !(o.Ceiling >= 0 && o.Ceiling <= math.MaxFloat64) {
		return fmt.Errorf("brim: %w: ceiling is %v; it must be 0, for none, or positive", ErrInvalidLimit, o.Ceiling)
	}
	if !o.CeilingAt.IsZero() && o.Ceiling == 0 {
		return fmt.Errorf("brim: %w: a ceiling's time without a ceiling", ErrInvalidLimit)
	}
	if o.BlockFor < 0 && o.BlockFor != UntilEmpty {
		return fmt.Errorf("brim: %w: block of %v; it must be positive, or UntilEmpty", ErrInvalidLimit, o.BlockFor)
	}
	if o.BlockFor > 0 && o.BlockFor < time.Microsecond {
		return fmt.Errorf("brim: %w: block of %v; the shortest is a microsecond", ErrInvalidLimit, o.BlockFor)
	}
	return nil
}

// Validate refuses a transaction with an invalid operation, and one in which a key comes with two limits.
func (t Txn) Validate() error {
	for i := range t {
		if err := t[i].Validate(); err != nil {
			return err
		}
	}
	if len(t) < 2 {
		return nil
	}
	limits := make(map[string]Limit, len(t))
	for i := range t {
		if l, ok := limits[t[i].Key]; ok && l != t[i].Limit {
			return fmt.Errorf("brim: %w: one key comes with two limits in a transaction; use one", ErrInvalidLimit)
		}
		limits[t[i].Key] = t[i].Limit
	}
	return nil
}
