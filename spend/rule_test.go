package spend

import (
	"reflect"
	"testing"
	"time"
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
		got := c.rule.spec.Fingerprint()
		if got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
		if other := seen[got]; other != "" {
			t.Errorf("%s has the fingerprint of %s", c.name, other)
		}
		seen[got] = c.name
	}
	days := Calendar("r", eur, Day, time.UTC)
	if elsewhere := Calendar("r", eur, Day, paris); elsewhere.spec.Fingerprint() != days.spec.Fingerprint() {
		t.Error("the zone changes the fingerprint of a rule; its account has the instant at which the period began")
	}
	if sundays := days.WeekStarting(time.Sunday); sundays.spec.Fingerprint() != days.spec.Fingerprint() {
		t.Error("the day on which weeks start changes the fingerprint of a rule without weeks")
	}
	if from := days.MonthStarting(31); from.spec.Fingerprint() != days.spec.Fingerprint() {
		t.Error("the day on which months start changes the fingerprint of a rule without months")
	}
	values := []string{"b", "a"}
	if Lifetime("r", eur).Matching("tag", values...); !reflect.DeepEqual(values, []string{"b", "a"}) {
		t.Errorf("Matching has sorted the caller's values: %q", values)
	}
}
