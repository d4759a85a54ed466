package spend

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/brimgo/brim/spend/internal/money"
)

// Money is an amount in minor units of its currency: {1234, "EUR"} is 12.34
// euros. Its methods compute with integers alone, so they are exact. They never
// convert between currencies.
//
// Amounts that are finer than the minor unit, such as the price of a token, have
// a scale: a colon and the number of decimal places, up to 9, after the code.
// {315, "USD:8"} is 0.00000315 dollars, and its minor unit is a millionth of a
// cent. The scale is a part of the currency, and no field of its own, because it
// gives an amount its meaning as the currency does: so it is stored with each entry
// of a ledger, and an amount in one unit is never taken for the same number of
// another. Most amounts need no scale, and nothing changes for them. In converts
// exactly from one scale to another.
//
// Minor is 64 bits wide, so the largest amount has 19 digits:
// 92233720368547758.07 EUR, or 92233720368.54775807 USD:8.
//
// A Money without a currency is a plain number, as in the figures of a [Count]
// rule.
type Money struct {
	Minor    int64
	Currency string // ISO 4217 code in upper case, with or without a scale
}

// ParseMoney reads a decimal amount such as "12.34" in a currency. The amount may have fewer
// decimal places than the currency, but not more: "12" and "12.3" are euros too. Nothing is
// rounded: more places are [ErrAmount], even zeros. ParseMoney refuses currency signs, plus signs,
// spaces, exponents and separators of thousands with [ErrAmount], and a code that [Money.Places]
// does not know with [ErrCurrency].
func ParseMoney(amount, currency string) (Money, error) {
	places, ok := money.Places(currency)
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
			return 0, outOfRange(s, places)
		}
		n = n*10 - int64(c-'0')
	}
	if negative {
		return n, nil
	}
	if n == math.MinInt64 {
		return 0, outOfRange(s, places)
	}
	return -n, nil
}

func outOfRange(s string, places int) error {
	return fmt.Errorf("%.40q is out of range; the largest amount is %s", s, money.Decimal(math.MaxInt64, places))
}

// In returns the same amount in the same currency with another scale, or without
// one: 12.34 EUR is 12.340000 EUR:6, and back. In never rounds: an amount that
// is finer than the unit of currency, or out of its range, is [ErrAmount]. Another
// currency is [ErrCurrency].
func (m Money) In(currency string) (Money, error) {
	_, known := money.Places(m.Currency)
	_, ok := money.Places(currency)
	switch {
	case !known:
		return Money{}, unknownCurrency(m.Currency)
	case !ok:
		return Money{}, unknownCurrency(currency)
	case money.ISO(m.Currency) != money.ISO(currency):
		return Money{}, fmt.Errorf("spend: %w: %.8q is not converted to %.8q", ErrCurrency, m.Currency, currency)
	}
	in, err := money.Money(m).In(currency)
	return Money(in), err
}

// Places returns the number of decimal places of the currency's minor unit by
// ISO 4217: 0 for JPY, 2 for EUR, 3 for KWD. It returns false for a code that is
// not on the list, and for a code without a minor unit, such as gold.
//
// A code with a scale has the places of its scale: 8 for USD:8.
func (m Money) Places() (places int, ok bool) { return money.Places(m.Currency) }

// Decimal returns the amount without its currency and with all decimal places of
// the currency: "12.34", "0.05", or "1234" for JPY. An unknown currency has no
// decimal places.
func (m Money) Decimal() string { return money.Money(m).Decimal() }

// String returns the amount with its currency: "12.34 EUR". The decimal places
// tell the scale, so it is left out: "0.00000315 USD".
func (m Money) String() string { return money.Money(m).String() }

// Add returns m + n. The error is [ErrCurrency] if the currencies or their scales
// differ, and [ErrAmount] if the sum is out of range.
func (m Money) Add(n Money) (Money, error) {
	if m.Currency != n.Currency {
		return Money{}, fmt.Errorf("spend: %w: %.8q and %.8q cannot be added", ErrCurrency, m.Currency, n.Currency)
	}
	sum, ok := money.Add(m.Minor, n.Minor)
	if !ok {
		return Money{}, fmt.Errorf("spend: %w: the sum is out of range; %s", ErrAmount, money.Largest(m.Currency))
	}
	return Money{sum, m.Currency}, nil
}

// Sub returns m - n, with the errors of Add.
func (m Money) Sub(n Money) (Money, error) {
	if n.Minor == math.MinInt64 {
		return Money{}, fmt.Errorf("spend: %w: the difference is out of range; %s", ErrAmount, money.Largest(m.Currency))
	}
	return m.Add(Money{-n.Minor, n.Currency})
}

// moneyJSON is the JSON form of Money. The amount is a string, because many JSON
// parsers turn numbers into doubles.
type moneyJSON struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency,omitempty"`
}

// MarshalJSON writes {"amount":"12.34","currency":"EUR"}, and a scale with the
// currency: {"amount":"0.00000315","currency":"USD:8"}.
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
