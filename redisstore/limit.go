package redisstore

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/brimgo/brim/store"
)

// A limit has a narrow form of 8 bytes, or a wide one of 16: two doubles.
//
// The narrow form is two words of 32 bits for the capacity and the leak rate. The lower 26 bits of
// a word are a whole number m, and the five above are an exponent: m times ten to the power of the
// exponent less 16. The highest bit is set where the leak rate is the capacity divided by this
// number, as with brim.Over. Both ends divide and multiply doubles that are exact, so they agree
// to the last bit. Limits that a person has chosen nearly always fit.
const (
	narrowForm = 8
	wideForm   = 16

	mantissaBits = 26
	exponentZero = 16 // the exponent that stands for ten to the power of 0
	lastExponent = 31
	perPeriod    = 1 << 31
)

var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16}

// fromDecimal returns the number that a word without its highest bit stands for.
func fromDecimal(word uint32) float64 {
	m, e := float64(word&(1<<mantissaBits-1)), int(word>>mantissaBits)
	if e < exponentZero {
		return m / powers[exponentZero-e]
	}
	return m * powers[e-exponentZero]
}

// toDecimal returns the word that stands for a number nearest to v with so many significant digits,
// or -1 for the fewest that tell v from other doubles. It reports whether there is such a word.
func toDecimal(v float64, digits int) (word uint32, ok bool) {
	if v == 0 {
		return 0, !math.Signbit(v)
	}
	if digits > 0 {
		digits--
	}
	text := strconv.FormatFloat(v, 'e', digits, 64)
	whole, exponent, _ := strings.Cut(text, "e")
	first, rest, _ := strings.Cut(whole, ".")
	rest = strings.TrimRight(rest, "0")
	m, err := strconv.ParseUint(first+rest, 10, mantissaBits)
	if err != nil { // negative, or too many digits
		return 0, false
	}
	e, err := strconv.Atoi(exponent)
	if err != nil {
		return 0, false
	}
	e += exponentZero - len(rest)
	for ; e > lastExponent && m*10 < 1<<mantissaBits; e-- {
		m *= 10
	}
	if e < 0 || e > lastExponent {
		return 0, false
	}
	return uint32(m) | uint32(e)<<mantissaBits, true
}

// periodDigits are the significant digits of a period that the narrow form has room for.
const periodDigits = 7

// appendLimit appends the form of a limit.
func appendLimit(out []byte, l store.Limit) []byte {
	capacity, ok := toDecimal(l.Capacity, -1)
	if ok && fromDecimal(capacity) == l.Capacity {
		rate, ok := toDecimal(l.LeakRate, -1)
		ok = ok && fromDecimal(rate) == l.LeakRate
		if !ok {
			rate, ok = toDecimal(l.Capacity/l.LeakRate, periodDigits)
			ok = ok && rate != 0 && l.Capacity/fromDecimal(rate) == l.LeakRate
			rate |= perPeriod
		}
		if ok {
			out = binary.LittleEndian.AppendUint32(out, capacity)
			return binary.LittleEndian.AppendUint32(out, rate)
		}
	}
	return double(double(out, l.Capacity), l.LeakRate)
}

// parseLimit decodes the form of a limit.
func parseLimit(form []byte) store.Limit {
	if len(form) == wideForm {
		return store.Limit{
			Capacity: math.Float64frombits(binary.LittleEndian.Uint64(form)),
			LeakRate: math.Float64frombits(binary.LittleEndian.Uint64(form[8:])),
		}
	}
	l := store.Limit{Capacity: fromDecimal(binary.LittleEndian.Uint32(form))}
	rate := binary.LittleEndian.Uint32(form[4:])
	if rate >= perPeriod {
		l.LeakRate = l.Capacity / fromDecimal(rate-perPeriod)
	} else {
		l.LeakRate = fromDecimal(rate)
	}
	return l
}

// limits are the limits of a batch by number, as decide.lua takes them.
type limits struct {
	number map[store.Limit]uint16
	listed []byte
	forms  map[store.Limit][]byte // of batches before, because making a form takes time
	last   store.Limit            // the usual one: most calls of a batch have one limit
	at     uint16                 // its number
}

// maxForms bounds the forms that are kept.
const maxForms = 1000

func newLimits() limits {
	return limits{number: make(map[store.Limit]uint16), forms: make(map[store.Limit][]byte)}
}

// reset forgets the limits of the batch before.
func (ls *limits) reset() {
	clear(ls.number)
	ls.listed, ls.at = ls.listed[:0], 0
	if len(ls.forms) > maxForms {
		clear(ls.forms)
	}
}

// of returns the number of a limit, counted from 1 as Lua does.
func (ls *limits) of(l store.Limit) uint16 {
	if ls.at != 0 && l == ls.last {
		return ls.at
	}
	n, listed := ls.number[l]
	if !listed {
		form, made := ls.forms[l]
		if !made {
			form = appendLimit(nil, l)
			ls.forms[l] = form
		}
		n = uint16(len(ls.number) + 1)
		ls.number[l] = n
		ls.listed = append(ls.listed, byte(len(form)))
		ls.listed = double(double(ls.listed, l.Capacity), l.LeakRate)
		ls.listed = append(ls.listed, form...)
	}
	ls.last, ls.at = l, n
	return n
}
