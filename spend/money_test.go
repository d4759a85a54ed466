package spend_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/brimgo/brim/spend"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		amount, currency string
		minor            int64
		want             error
		why              string
	}{
		{"12.34", "EUR", 1234, nil, "two decimal places"},
		{"12", "EUR", 1200, nil, "fewer places than the currency has are exact too"},
		{"12.3", "EUR", 1230, nil, "so is one place"},
		{"-0.05", "EUR", -5, nil, "a correction"},
		{"0", "EUR", 0, nil, "zero is a number"},
		{"1234", "JPY", 1234, nil, "the yen has no minor unit"},
		{"1.234", "KWD", 1234, nil, "the dinar has three places"},
		{"0.0001", "CLF", 1, nil, "four places"},
		{"92233720368547758.07", "EUR", math.MaxInt64, nil, "the largest"},
		{"-92233720368547758.08", "EUR", math.MinInt64, nil, "the lowest, whose negation is out of range"},
		{"92233720368547758.08", "EUR", 0, spend.ErrAmount, "one minor unit above the largest"},
		{"-92233720368547758.09", "EUR", 0, spend.ErrAmount, "one minor unit below the lowest"},
		{"99999999999999999999999999", "EUR", 0, spend.ErrAmount, "far above the largest"},
		{"1.5", "JPY", 0, spend.ErrAmount, "half a yen does not exist"},
		{"1.234", "EUR", 0, spend.ErrAmount, "a tenth of a cent must not be rounded away"},
		{"1.230", "EUR", 0, spend.ErrAmount, "a third place is refused even if it is zero, because the writer means another currency"},
		{"", "EUR", 0, spend.ErrAmount, "an empty string"},
		{".5", "EUR", 0, spend.ErrAmount, "the whole part is missing"},
		{"5.", "EUR", 0, spend.ErrAmount, "the fraction is missing"},
		{"+5", "EUR", 0, spend.ErrAmount, "a plus sign is refused, so that an amount has one form"},
		{"--5", "EUR", 0, spend.ErrAmount, "two signs"},
		{"1e3", "EUR", 0, spend.ErrAmount, "exponents are refused"},
		{"1,000.00", "EUR", 0, spend.ErrAmount, "separators of thousands are refused"},
		{" 1", "EUR", 0, spend.ErrAmount, "spaces are refused"},
		{"١٢", "EUR", 0, spend.ErrAmount, "only the digits 0 to 9 are read"},
		{"1", "eur", 0, spend.ErrCurrency, "codes are upper case"},
		{"1", "XAU", 0, spend.ErrCurrency, "gold has no minor unit"},
		{"1", "ZZZ", 0, spend.ErrCurrency, "no such code"},
		{"1", " BH", 0, spend.ErrCurrency, "a code is three letters"},
		{"0.00000315", "USD:8", 315, nil, "a millionth of a cent"},
		{"12.34", "USD:8", 12_34_000000, nil, "cents are exact in a finer unit"},
		{"0.000000001", "USD:8", 0, spend.ErrAmount, "a tenth of a unit must not be rounded away"},
		{"1.5", "JPY:1", 15, nil, "half a yen exists with a scale"},
		{"92233720368.54775807", "USD:8", math.MaxInt64, nil, "the largest"},
		{"92233720368.54775808", "USD:8", 0, spend.ErrAmount, "one unit above the largest"},
		{"1", "USD:2", 0, spend.ErrCurrency, "the scale of the currency itself is not written"},
		{"1", "ZZZ:8", 0, spend.ErrCurrency, "no such code with a scale"},
	} {
		m, err := spend.ParseMoney(c.amount, c.currency)
		if !errors.Is(err, c.want) || (err != nil) != (c.want != nil) || m.Minor != c.minor {
			t.Errorf("%q %s: %v, %v; want %d, %v: %s", c.amount, c.currency, m, err, c.minor, c.want, c.why)
		}
	}
}

func TestMoneyText(t *testing.T) {
	for _, c := range []struct {
		m    spend.Money
		text string
	}{
		{spend.Money{Minor: 1234, Currency: "EUR"}, "12.34 EUR"},
		{spend.Money{Minor: 5, Currency: "EUR"}, "0.05 EUR"},
		{spend.Money{Minor: -5, Currency: "EUR"}, "-0.05 EUR"},
		{spend.Money{Minor: 100, Currency: "EUR"}, "1.00 EUR"},
		{spend.Money{Minor: 1234, Currency: "JPY"}, "1234 JPY"},
		{spend.Money{Minor: 5, Currency: "KWD"}, "0.005 KWD"},
		{spend.Money{Minor: math.MinInt64, Currency: "EUR"}, "-92233720368547758.08 EUR"},
		{spend.Money{Minor: 7}, "7"},
		{spend.Money{Minor: 315, Currency: "USD:8"}, "0.00000315 USD"},
		{spend.Money{Minor: -1, Currency: "JPY:9"}, "-0.000000001 JPY"},
	} {
		if got := c.m.String(); got != c.text {
			t.Errorf("%#v reads %q; want %q", c.m, got, c.text)
		}
		text, err := json.Marshal(c.m)
		var back spend.Money
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || back != c.m {
			t.Errorf("%s comes back from %s as %v, %v", c.m, text, back, err)
		}
	}
	if got := (spend.Money{Minor: 5, Currency: "EUR:10"}).String(); got != "5 EUR" {
		t.Errorf("an amount with a scale that is none reads %q", got)
	}
	if text, _ := json.Marshal(spend.Money{Minor: 1234, Currency: "EUR"}); string(text) != `{"amount":"12.34","currency":"EUR"}` {
		t.Errorf("JSON is %s", text)
	}
	if text, _ := json.Marshal(spend.Money{Minor: 315, Currency: "USD:8"}); string(text) != `{"amount":"0.00000315","currency":"USD:8"}` {
		t.Errorf("JSON of an amount with a scale is %s", text)
	}
	for _, bad := range []string{
		`{"amount":"0.000000001","currency":"USD:8"}`,
		`{"amount":12.34,"currency":"EUR"}`, `{"amount":"12.345","currency":"EUR"}`,
		`{"amount":"1.5"}`, `12`, `{"amount":"1","currency":"XXX"}`, `{"amount":"1","currency":5}`,
	} {
		m := spend.Money{Minor: 42}
		if err := json.Unmarshal([]byte(bad), &m); err == nil || m.Minor != 42 {
			t.Errorf("%s is read as %v", bad, m)
		}
	}
}

func TestMoneyArithmetic(t *testing.T) {
	eur := func(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }
	if m, err := eur(2).Add(eur(3)); err != nil || m != eur(5) {
		t.Errorf("2 + 3 = %v, %v", m, err)
	}
	if m, err := eur(2).Sub(eur(3)); err != nil || m != eur(-1) {
		t.Errorf("2 - 3 = %v, %v", m, err)
	}
	for _, c := range []struct {
		a, b int64
	}{{math.MaxInt64, 1}, {math.MinInt64, -1}, {math.MinInt64, math.MinInt64}} {
		if m, err := eur(c.a).Add(eur(c.b)); !errors.Is(err, spend.ErrAmount) {
			t.Errorf("%d + %d = %v, %v; want ErrAmount", c.a, c.b, m, err)
		}
	}
	for _, c := range []struct{ a, b int64 }{{-1, math.MinInt64}, {0, math.MinInt64}, {math.MinInt64, 1}} {
		if m, err := eur(c.a).Sub(eur(c.b)); !errors.Is(err, spend.ErrAmount) || m != (spend.Money{}) {
			t.Errorf("%d - %d = %v, %v; want ErrAmount", c.a, c.b, m, err)
		}
	}
	if _, err := eur(1).Add(spend.Money{Minor: 1, Currency: "USD"}); !errors.Is(err, spend.ErrCurrency) {
		t.Errorf("euros and dollars: %v; want ErrCurrency", err)
	}
}

func TestMoneyIn(t *testing.T) {
	for _, c := range []struct {
		from spend.Money
		to   string
		want int64
		err  error
		says string
	}{
		{spend.Money{Minor: 1234, Currency: "USD"}, "USD:8", 12_34_000000, nil, ""},
		{spend.Money{Minor: 12_34_000000, Currency: "USD:8"}, "USD", 1234, nil, ""},
		{spend.Money{Minor: -50, Currency: "USD:4"}, "USD:3", -5, nil, ""},
		{spend.Money{Minor: 7, Currency: "USD"}, "USD", 7, nil, ""},
		{spend.Money{Minor: 12_34_000001, Currency: "USD:8"}, "USD", 0, spend.ErrAmount, "12.34000001 USD is finer than the unit of USD, which has 2"},
		{spend.Money{Minor: -1, Currency: "USD:3"}, "USD", 0, spend.ErrAmount, "-0.001 USD is finer"},
		{spend.Money{Minor: math.MaxInt64 / 10, Currency: "USD"}, "USD:3", math.MaxInt64 / 10 * 10, nil, ""},
		{spend.Money{Minor: math.MaxInt64/10 + 1, Currency: "USD"}, "USD:3", 0, spend.ErrAmount, "the largest amount is 9223372036854775.807 USD"},
		{spend.Money{Minor: math.MinInt64 / 10, Currency: "USD"}, "USD:3", math.MinInt64 / 10 * 10, nil, ""},
		{spend.Money{Minor: math.MinInt64/10 - 1, Currency: "USD"}, "USD:3", 0, spend.ErrAmount, "out of range"},
		{spend.Money{Minor: 1, Currency: "USD"}, "EUR", 0, spend.ErrCurrency, "is not converted"},
		{spend.Money{Minor: 1, Currency: "USD:8"}, "EUR:8", 0, spend.ErrCurrency, "is not converted"},
		{spend.Money{Minor: 1}, "USD", 0, spend.ErrCurrency, "not an ISO 4217 code"},
		{spend.Money{Minor: 1, Currency: "USD"}, "USD:10", 0, spend.ErrCurrency, "not an ISO 4217 code"},
	} {
		got, err := c.from.In(c.to)
		want := spend.Money{}
		if c.err == nil {
			want = spend.Money{Minor: c.want, Currency: c.to}
		}
		if got != want || !errors.Is(err, c.err) || (err != nil && !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v in %s: %#v, %v; want %#v, %v %s", c.from, c.to, got, err, want, c.err, c.says)
		}
	}
}

// TestOutOfRange: an error about an amount that is too large names the largest.
func TestOutOfRange(t *testing.T) {
	_, parsed := spend.ParseMoney("92233720369", "USD:8")
	_, lowest := spend.ParseMoney("92233720368.54775808", "USD:8")
	_, added := spend.Money{Minor: math.MaxInt64, Currency: "USD:8"}.Add(spend.Money{Minor: 1, Currency: "USD:8"})
	_, subtracted := spend.Money{Currency: "USD:8"}.Sub(spend.Money{Minor: math.MinInt64, Currency: "USD:8"})
	for name, err := range map[string]error{"parsed": parsed, "one above": lowest, "added": added, "subtracted": subtracted} {
		if !errors.Is(err, spend.ErrAmount) || !strings.Contains(err.Error(), "the largest amount is 92233720368.54775807") {
			t.Errorf("%s: %v; want the largest amount", name, err)
		}
	}
}

func TestPlaces(t *testing.T) {
	for code, want := range map[string]int{
		"EUR": 2, "JPY": 0, "KWD": 3, "CLF": 4, "USD": 2, "BIF": 0, "XPF": 0, "TND": 3, "UYW": 4, "ZWG": 2, "XCG": 2,
		"USD:3": 3, "USD:9": 9, "JPY:1": 1, "CLF:5": 5,
	} {
		if got, ok := (spend.Money{Currency: code}).Places(); !ok || got != want {
			t.Errorf("%s has %d places, %t; want %d", code, got, ok, want)
		}
	}
	for _, code := range []string{"", "EU", "EURO", "eur", "XXX", "XAU", "F C", " CL", "USD:", "USD:2", "USD:0", "USD:10", "USD:08", "USD:x", "USD::", "USD:3:4", ":3", "XAU:3", "CLF:4"} {
		if got, ok := (spend.Money{Currency: code}).Places(); ok {
			t.Errorf("%q has %d places; want none", code, got)
		}
	}
}

// An amount that ParseMoney accepts comes back from Decimal with all of its
// decimal places, and ParseMoney accepts every output of Decimal.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"12.34", "-0.05", "0", "92233720368547758.07", "1.5", ".", "-", "00.10"} {
		f.Add(s, int64(1234))
	}
	currencies := []string{"EUR", "JPY", "KWD", "CLF", "USD:8", "JPY:9"}
	f.Fuzz(func(t *testing.T, s string, n int64) {
		for _, currency := range currencies {
			m := spend.Money{Minor: n, Currency: currency}
			if back, err := spend.ParseMoney(m.Decimal(), currency); err != nil || back != m {
				t.Errorf("%v is written %s and read %v, %v", n, m.Decimal(), back, err)
			}
			m, err := spend.ParseMoney(s, currency)
			if err != nil {
				if m != (spend.Money{}) {
					t.Errorf("%q fails and is %v", s, m)
				}
				continue
			}
			places, _ := m.Places()
			whole, fraction, _ := strings.Cut(s, ".")
			want := strings.TrimLeft(strings.TrimPrefix(whole, "-"), "0")
			if want == "" {
				want = "0"
			}
			if fraction += strings.Repeat("0", places-len(fraction)); places > 0 {
				want += "." + fraction
			}
			if got := strings.TrimPrefix(m.Decimal(), "-"); got != want {
				t.Errorf("%q is written %s; want %s", s, got, want)
			}
		}
	})
}
