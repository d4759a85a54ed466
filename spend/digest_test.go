package spend

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// TestFingerprints: a ledger keeps the fingerprint of each rule beside its figures, so the
// fingerprint of a rule never changes, and rules that count differently have different ones.
func TestFingerprints(t *testing.T) {
	eur := Money{Minor: 5, Currency: "EUR"}
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint64]string)
	for _, c := range []struct {
		name string
		rule Rule
		want uint64
	}{
		{"leaky", Leaky("r", eur, time.Hour), 0x7f8c207b4ba5a34},
		{"rolling", Rolling("r", eur, time.Hour), 0x30292a4af88443b2},
		{"rolling, longer", Rolling("r", eur, 2*time.Hour), 0xc3474dadc0096fca},
		{"calendar", Calendar("r", eur, Day, time.UTC), 0xee1be8029135824f},
		{"calendar of another period", Calendar("r", eur, Month, time.UTC), 0xee151c02912fbbfd},
		{"weeks from Monday", Calendar("r", eur, Week, time.UTC), 0x8b38e52be7be358c},
		{"weeks from Sunday", Calendar("r", eur, Week, time.UTC).WeekStarting(time.Sunday), 0xb846c06e6e546c98},
		{"months from the 31st", Calendar("r", eur, Month, time.UTC).MonthStarting(31), 0xe17d4a05efe78dcd},
		{"days from four o'clock", Calendar("r", eur, Day, time.UTC).DayStarting(4 * time.Hour), 0xaffa4df981af9200},
		{"lifetime", Lifetime("r", eur), 0x7eb2a07b4aecd90},
		{"count", Count("r", 5, time.Hour), 0x20402cebab72348e},
		{"per transaction", PerTransaction("r", eur), 0x7ee9007b4b1b0b9},
		{"one tag", Lifetime("r", eur).Matching("a", "b", "c"), 0x665a13533adc3eda},
		{"another tag", Lifetime("r", eur).Matching("b", "b", "c"), 0x23f8b40fa39ccea9},
		{"all but one tag", Lifetime("r", eur).NotMatching("a", "b", "c"), 0x4c8c6dd4e1799f11},
		{"two tags", Lifetime("r", eur).Matching("a", "b").Matching("c", "d"), 0xab9b15c5dc8216d4},
		{"one tag with the text of two", Lifetime("r", eur).Matching("a", "1", "b", "c", "d"), 0x9abe8dbd1f464e1},
		{"values that run together", Lifetime("r", eur).Matching("a", "bc", "d"), 0xc87b2a5e261c7c54},
		{"values that run together elsewhere", Lifetime("r", eur).Matching("a", "b", "cd"), 0xc7acd86d048fa4ea},
		{"each value of a tag", Lifetime("r", eur).Per("merchant"), 0x48423a6d9d7f557f},
		{"a count of attempts", Count("r", 1, time.Hour).CountsDeclines(), 0x589348248b52e157},
		{"a count without mercy", Count("r", 1, time.Hour).CountsVoids(), 0xbdd5850f99c44deb},
		{"an amount to match", Lifetime("r", eur).MatchingAtLeast(eur), 0xf1ee5daa82cbf120},
		{"a tag with the text of an amount", Lifetime("r", eur).Per("amount false 5"), 0xf28da62ebb620e83},
	} {
		got := c.rule.fingerprint()
		if got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
		if other := seen[got]; other != "" {
			t.Errorf("%s has the fingerprint of %s", c.name, other)
		}
		seen[got] = c.name
	}
	days := Calendar("r", eur, Day, time.UTC)
	if elsewhere := Calendar("r", eur, Day, paris); elsewhere.fingerprint() != days.fingerprint() {
		t.Error("the zone changes the fingerprint of a rule; its account has the instant at which the period began")
	}
	if sundays := days.WeekStarting(time.Sunday); sundays.fingerprint() != days.fingerprint() {
		t.Error("the day on which weeks start changes the fingerprint of a rule without weeks")
	}
	if from := days.MonthStarting(31); from.fingerprint() != days.fingerprint() {
		t.Error("the day on which months start changes the fingerprint of a rule without months")
	}
	values := []string{"b", "a"}
	if Lifetime("r", eur).Matching("tag", values...); !reflect.DeepEqual(values, []string{"b", "a"}) {
		t.Errorf("Matching has sorted the caller's values: %q", values)
	}
}

// TestDigest: every field of a request changes its digest, so that an ID cannot be used again for
// another request. A ledger keeps the digest, so it never changes.
func TestDigest(t *testing.T) {
	first := func() *action {
		return &action{
			kind: "k", spendID: "s", keys: []string{"a", "b"}, amount: 5, currency: "EUR",
			tags: map[string]string{"t": "v", "u": "w"},
		}
	}
	seen := map[string]string{}
	for _, c := range []struct {
		name   string
		change func(*action)
	}{
		{"nothing", func(*action) {}},
		{"the kind", func(a *action) { a.kind = "l" }},
		{"the spend", func(a *action) { a.spendID = "r" }},
		{"text moved from the kind to the spend", func(a *action) { a.kind, a.spendID = "", "ks" }},
		{"the amount", func(a *action) { a.amount = 6 }},
		{"the currency", func(a *action) { a.currency = "USD" }},
		{"a date", func(a *action) { a.backdated = true }},
		{"another date", func(a *action) { a.backdated, a.dated = true, 2 }},
		{"the least amount", func(a *action) { a.least = 1 }},
		{"another least amount", func(a *action) { a.least = 2 }},
		{"final", func(a *action) { a.final = true }},
		{"force", func(a *action) { a.force = true }},
		{"an account", func(a *action) { a.keys[1] = "c" }},
		{"the order of accounts", func(a *action) { a.keys = []string{"b", "a"} }},
		{"an account that becomes a tag", func(a *action) { a.keys, a.tags = []string{"a"}, map[string]string{"b": "t", "v": "u"} }},
		{"a tag", func(a *action) { a.tags = map[string]string{"t": "v", "x": "w"} }},
		{"a value", func(a *action) { a.tags = map[string]string{"t": "v", "u": "x"} }},
		{"text moved from a tag to its value", func(a *action) { a.tags = map[string]string{"t": "v", "": "uw"} }},
	} {
		act := first()
		c.change(act)
		digest := string(act.digest())
		if other, ok := seen[digest]; ok {
			t.Errorf("a change of %s has the digest of a change of %s", c.name, other)
		}
		if seen[digest] = c.name; len(digest) != 16 {
			t.Errorf("the digest has %d bytes, want 16", len(digest))
		}
	}
	if got := hex.EncodeToString(first().digest()); got != "6e09433002123b92bf5ce6882e7fc454" {
		t.Errorf("the digest is %s; a stored one can no longer be compared", got)
	}
	credit := action{kind: kindCredit, keys: []string{"cards/a", "cards/b"}, amount: 1, currency: "EUR"}
	if got := hex.EncodeToString(credit.digest()); got != "4eb55190c2181b617ea4d9681c2a406e" {
		t.Errorf("the digest of a credit is %s; a stored one can no longer be compared", got)
	}
	act := first()
	act.id = "another"
	if seen[string(act.digest())] != "nothing" {
		t.Error("the ID changes the digest")
	}
}

// TestLimitText: the text of a limit is a part of the digest of its request.
func TestLimitText(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC)
	for _, c := range []struct {
		limit RuleLimit
		want  string
	}{
		{RuleLimit{Default: true}, "default"},
		{RuleLimit{Amount: Money{500, "EUR"}}, "5.00 EUR"},
		{RuleLimit{Amount: Money{Minor: 5}}, "5"},
		{RuleLimit{Amount: Money{500, "EUR"}, Until: at}, "5.00 EUR until 2026-03-01T12:00:00.000001Z"},
		{RuleLimit{Amount: Money{Minor: 5}, Until: at}, "5 until 2026-03-01T12:00:00.000001Z"},
	} {
		if got := c.limit.text(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.limit, got, c.want)
		}
	}
}

// TestEmptySpends: a stored spend without accounts or without parts is damage.
func TestEmptySpends(t *testing.T) {
	for name, sp := range map[string]*spend{
		"no accounts": {parts: []part{{taken: 1}}},
		"no parts":    {accounts: []string{"cards/a"}},
	} {
		if got, err := decodeSpend("s", sp.accounts, sp.encode()); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %+v, %v; want ErrCorrupt", name, got, err)
		}
	}
}

// TestDecoder reads every kind of field from bytes that end too early. A decoder then returns zeros
// and keeps its first error.
func TestDecoder(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte // after the format
		read func(decoder) any
		want any // nil for an error
	}{
		{"an integer", []byte{10}, func(d decoder) any { return d.Int() }, int64(5)},
		{"an integer that is too long", bytes.Repeat([]byte{255}, 11), func(d decoder) any { return d.Int() }, nil},
		{"no integer", nil, func(d decoder) any { return d.Int() }, nil},
		{"eight bytes", []byte{0, 0, 0, 0, 0, 0, 0, 1}, func(d decoder) any { return d.Fixed() }, uint64(1)},
		{"seven of eight bytes", []byte{1, 0, 0, 0, 0, 0, 0}, func(d decoder) any { return d.Fixed() }, nil},
		{"a text", []byte{4, 'h', 'i'}, func(d decoder) any { return d.String() }, "hi"},
		{"a text that is cut off", []byte{6, 'h', 'i'}, func(d decoder) any { return d.String() }, nil},
		{"a text of less than nothing", []byte{1, 'h', 'i'}, func(d decoder) any { return d.String() }, nil},
		{"true", []byte{1}, func(d decoder) any { return d.Bool() }, true},
		{"no truth", nil, func(d decoder) any { return d.Bool() }, nil},
		{"more than true", []byte{2}, func(d decoder) any { return d.Bool() }, nil},
		{"a count", []byte{2, 0}, func(d decoder) any { return d.Count() }, 1},
		{"a count of more than there is", []byte{6, 0, 0}, func(d decoder) any { return d.Count() }, nil},
		{"a count of less than nothing", []byte{1, 0}, func(d decoder) any { return d.Count() }, nil},
	} {
		d := newDecoder("a test", append([]byte{format}, c.b...))
		got := c.read(d)
		if c.want != nil {
			if !reflect.DeepEqual(got, c.want) || d.Err != nil {
				t.Errorf("%s: %v, %v; want %v", c.name, got, d.Err, c.want)
			}
			continue
		}
		if !reflect.ValueOf(got).IsZero() || d.Err == nil || len(d.B) != 0 {
			t.Errorf("%s: %v, %v, and %d bytes are left; want a zero, an error, and none", c.name, got, d.Err, len(d.B))
		}
		if first := d.Err; d.Int() != 0 || d.Fixed() != 0 || d.String() != "" || d.Bool() || d.Count() != 0 || d.Err != first {
			t.Errorf("%s: later reads do not return zeros and the first error, but %v", c.name, d.Err)
		}
	}
}
