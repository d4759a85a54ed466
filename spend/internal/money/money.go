// Package money has exact amounts, which the rooms of package spend share. The front shows them as
// spend.Money.
package money

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Errors of amounts; see package spend.
var (
	ErrAmount   = errors.New("invalid amount")
	ErrCurrency = errors.New("wrong currency")
)

// Money is an amount in minor units of its currency, or a number without a currency.
type Money struct {
	Minor    int64
	Currency string // ISO 4217 code, with or without a scale
}

// Decimal returns the amount without its currency and with all decimal places of the currency. An
// unknown currency has no decimal places.
func (m Money) Decimal() string {
	places, _ := Places(m.Currency)
	return Decimal(m.Minor, places)
}

// String returns the amount with its currency, without the scale.
func (m Money) String() string {
	if m.Currency == "" {
		return m.Decimal()
	}
	return m.Decimal() + " " + ISO(m.Currency)
}

// Decimal writes a number of minor units with their decimal places.
func Decimal(n int64, places int) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	if places == 0 {
		return sign + digits
	}
	if len(digits) <= places {
		digits = strings.Repeat("0", places-len(digits)+1) + digits
	}
	point := len(digits) - places
	return sign + digits[:point] + "." + digits[point:]
}

// Largest names the largest amount of a currency.
func Largest(currency string) string {
	return fmt.Sprint("the largest amount is ", Money{math.MaxInt64, currency})
}

// Add returns a + b, and false if the sum overflows.
func Add(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}

// Subtract returns a - b, or the nearest number in range.
func Subtract(a, b int64) int64 {
	d := a - b
	switch {
	case b > 0 && d > a:
		return math.MinInt64
	case b < 0 && d < a:
		return math.MaxInt64
	}
	return d
}

// In returns the amount in another scale of its currency. The error tells an amount that is finer,
// or out of range.
func (m Money) In(currency string) (Money, error) {
	from, _ := Places(m.Currency)
	to, _ := Places(currency)
	n := m.Minor
	for ; from > to; from-- {
		if n%10 != 0 {
			return Money{}, fmt.Errorf("spend: %w: %v is finer than the unit of %s, which has %d decimal places", ErrAmount, m, currency, to)
		}
		n /= 10
	}
	for ; from < to; from++ {
		if n > math.MaxInt64/10 || n < math.MinInt64/10 {
			return Money{}, fmt.Errorf("spend: %w: %v is out of range in %s; %s", ErrAmount, m, currency, Largest(currency))
		}
		n *= 10
	}
	return Money{n, currency}, nil
}

// Meaning returns the amount as a text that is the same in every scale.
func (m Money) Meaning() string {
	s := m.Decimal()
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s + " " + ISO(m.Currency)
}
