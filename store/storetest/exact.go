package storetest

import (
	"math"
	"math/bits"
)

// num is a whole number of quanta of 2^-128/10^6 units, in 256 bits: the complement of two, the
// lowest word first. Rates are whole numbers of quanta per microsecond. So sums, differences and
// leaks are whole and exact, without fractions to reduce, and == compares them. No input has bits
// below 2^-128, and the largest product, of a rate and a time, is below 2^235.
type num [4]uint64

const quantum = 128

// quanta returns an amount of units.
func quanta(f float64) num { return perMicro(f).times(1_000_000) }

// perMicro returns a rate in units per second.
func perMicro(f float64) (q num) {
	if f < 0 {
		return q.sub(perMicro(-f))
	}
	fraction, exp := math.Frexp(f)
	word := uint64(math.Ldexp(fraction, 53))
	shift := exp - 53 + quantum
	if shift < 0 {
		word, shift = word>>-shift, 0
	}
	q[shift/64] = word << (shift % 64)
	if high := word >> (64 - shift%64); high > 0 {
		q[shift/64+1] = high
	}
	return q
}

// units returns the number in units, to the nearest double or the next one.
func (q num) units() (f float64) {
	if q.sign() < 0 {
		return -num{}.sub(q).units()
	}
	rest := uint64(0)
	for i := 3; i >= 0; i-- {
		var word uint64
		word, rest = bits.Div64(rest, q[i], 1_000_000)
		f += math.Ldexp(float64(word), 64*i-quantum)
	}
	return f + math.Ldexp(float64(rest)/1e6, -quantum)
}

func (q num) add(p num) num {
	carry := uint64(0)
	for i := range q {
		q[i], carry = bits.Add64(q[i], p[i], carry)
	}
	return q
}

func (q num) sub(p num) num {
	borrow := uint64(0)
	for i := range q {
		q[i], borrow = bits.Sub64(q[i], p[i], borrow)
	}
	return q
}

// times returns the product of q and n, which is not negative.
func (q num) times(n int64) num {
	carry := uint64(0)
	for i := range q {
		high, low := bits.Mul64(q[i], uint64(n))
		var more uint64
		q[i], more = bits.Add64(low, carry, 0)
		carry = high + more
	}
	return q
}

// sign is negative, zero or positive as q is.
func (q num) sign() int {
	switch {
	case q == num{}:
		return 0
	case int64(q[3]) < 0:
		return -1
	}
	return 1
}

func larger(q, p num) num {
	if q.sub(p).sign() < 0 {
		return p
	}
	return q
}
