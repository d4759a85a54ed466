package spend

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Money is an amount in minor units of its currency: {1234, "EUR"} is 12.34
// euros. Its methods compute with integers alone, so they are exact. They never
// convert between currencies.
//
// A Money without a currency is a plain number, as in the figures of a [Count]
// rule.
type Money struct {
	Minor    int64
	Currency string // ISO 4217 code in upper case
}

// ParseMoney reads a decimal amount such as "12.34" in a currency. The amount may
// have fewer decimal places than the currency, but not more: "12" and "12.3" are
// euros too. ParseMoney refuses currency signs, plus signs, spaces, exponents
// and separators of thousands with [ErrAmount], and a code that [MinorUnits]
// does not know with [ErrCurrency].
func ParseMoney(amount, currency string) (Money, error) {
	places, ok := MinorUnits(currency)
	if !ok {
		return Money{}, unknownCurrency(currency)
	}
	minor, err := parseMinor(amount, places)
	if err != nil {
		return Money{}, fmt.Errorf("spend: %w: %w", ErrAmount, err)
	}
	return Money{minor, currency}, nil
}

func parseMinor(s string, places int) (int64, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	switch {
	case whole == "" || point && fraction == "":
		return 0, fmt.Errorf("%.40q is not a decimal number; write it like 12.34", s)
	case len(fraction) > places:
		return 0, fmt.Errorf("%.40q has too many decimal places; the currency has %d", s, places)
	}
	var n int64
	for _, c := range whole + fraction + strings.Repeat("0", places-len(fraction)) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%.40q is not a decimal number; write it like 12.34", s)
		}
		// n counts downwards, because -(math.MinInt64) is out of range.
		if n < math.MinInt64/10 || n*10 < math.MinInt64+int64(c-'0') {
			return 0, fmt.Errorf("%.40q is out of range", s)
		}
		n = n*10 - int64(c-'0')
	}
	if negative {
		return n, nil
	}
	if n == math.MinInt64 {
		return 0, fmt.Errorf("%.40q is out of range", s)
	}
	return -n, nil
}

// Decimal returns the amount without its currency and with all decimal places of
// the currency: "12.34", "0.05", or "1234" for JPY. An unknown currency has no
// decimal places.
func (m Money) Decimal() string {
	places, _ := MinorUnits(m.Currency)
	digits := strconv.FormatInt(m.Minor, 10)
	sign := ""
	if m.Minor < 0 {
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

// String returns the amount with its currency: "12.34 EUR".
func (m Money) String() string {
	if m.Currency == "" {
		return m.Decimal()
	}
	return m.Decimal() + " " + m.Currency
}

// Add returns m + n. The error is [ErrCurrency] if the currencies differ, and
// [ErrAmount] if the sum is out of range.
func (m Money) Add(n Money) (Money, error) {
	if m.Currency != n.Currency {
		return Money{}, fmt.Errorf("spend: %w: %.8q and %.8q cannot be added", ErrCurrency, m.Currency, n.Currency)
	}
	sum, ok := add(m.Minor, n.Minor)
	if !ok {
		return Money{}, fmt.Errorf("spend: %w: the sum is out of range", ErrAmount)
	}
	return Money{sum, m.Currency}, nil
}

// Sub returns m - n, with the errors of Add.
func (m Money) Sub(n Money) (Money, error) {
	if n.Minor == math.MinInt64 {
		return Money{}, fmt.Errorf("spend: %w: the difference is out of range", ErrAmount)
	}
	return m.Add(Money{-n.Minor, n.Currency})
}

// add returns a + b, and false if the sum overflows.
func add(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}

// moneyJSON is the JSON form of Money. The amount is a string, because many JSON
// parsers turn numbers into doubles.
type moneyJSON struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency,omitempty"`
}

// MarshalJSON writes {"amount":"12.34","currency":"EUR"}.
func (m Money) MarshalJSON() ([]byte, error) {
	return json.Marshal(moneyJSON{m.Decimal(), m.Currency})
}

// UnmarshalJSON reads the output of MarshalJSON. An amount with mistakes is
// [ErrAmount] or [ErrCurrency] and leaves m as it is.
func (m *Money) UnmarshalJSON(b []byte) error {
	var j moneyJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf(`spend: money must be written as {"amount":"12.34","currency":"EUR"}: %w`, err)
	}
	if j.Currency == "" {
		n, err := parseMinor(j.Amount, 0)
		if err != nil {
			return fmt.Errorf("spend: %w: %w", ErrAmount, err)
		}
		*m = Money{Minor: n}
		return nil
	}
	parsed, err := ParseMoney(j.Amount, j.Currency)
	if err == nil {
		*m = parsed
	}
	return err
}
