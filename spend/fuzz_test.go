package spend

import (
	"encoding/json"
	"testing"
)

// FuzzMoneyJSON reads arbitrary JSON as money. It is an error, or the money is written and read
// again as the same.
func FuzzMoneyJSON(f *testing.F) {
	for _, s := range []string{
		`{"amount":"12.34","currency":"EUR"}`, `{"amount":"-0.01","currency":"EUR"}`, `{"amount":"7"}`,
		`{"amount":"92233720368547758.07","currency":"EUR"}`, `{"amount":"5","currency":"JPY"}`,
		`{"amount":"1.2.3","currency":"EUR"}`, `{"amount":12}`, `null`, `{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := Money{42, "CHF"}
		m := before
		if err := json.Unmarshal(b, &m); err != nil {
			if m != before {
				t.Errorf("%q is %v, and changed the money to %v", b, err, m)
			}
			return
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var again Money
		if err := json.Unmarshal(text, &again); err != nil || again != m {
			t.Errorf("%q reads as %v; that is written %s and reads as %v, %v", b, m, text, again, err)
		}
	})
}
