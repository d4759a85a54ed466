package spend

import (
	"reflect"
	"testing"
	"time"

	"github.com/brimgo/brim/spend/internal/figures"
)

// TestFingerprints: a ledger keeps the fingerprint of each rule beside its figures, so the
// fingerprint of a rule never changes, and rules that count differently have different ones.
func TestFingerprints(t *testing.T) {
	eur := Money{Minor: 5, Currency: "EUR"}
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	seen, pinned := make(map[uint64]string), make(map[figures.Kind]bool)
	for _, c := range []struct {
		name string
		rule Rule
		want uint64
	}{
		{"leaky", Leaky("r", eur, time.Hour), 0xacdce9f1e3b1f6a4},
		{"rolling", Rolling("r", eur, time.Hour), 0x919fd679c0f15d2},
		{"rolling, longer", Rolling("r", eur, 2*time.Hour), 0x2e339e2effc19d0a},
		{"calendar", Calendar("r", eur, Day, time.UTC), 0x8ab32b96b9468357},
		{"calendar of another period", Calendar("r", eur, Month, time.UTC), 0x497793860bc5dad5},
		{"weeks from Monday", Calendar("r", eur, Week, time.UTC), 0xf4475a0232944f1c},
		{"weeks from Sunday", Calendar("r", eur, Week, time.UTC).WeekStarting(time.Sunday), 0xaa168a2d612e5ee8},
		{"months from the 31st", Calendar("r", eur, Month, time.UTC).MonthStarting(31), 0xb649cc7cdaf71485},
		{"days from four o'clock", Calendar("r", eur, Day, time.UTC).DayStarting(4 * time.Hour), 0x68fcde53981ef9b0},
		{"lifetime", Lifetime("r", eur), 0x2dcbb9d08b93cea0},
		{"count", Count("r", 5, time.Hour), 0x8b3135a9238aec6e},
		{"count of a period", CountPer("r", 5, Day, time.UTC), 0x19ae98b574104633},
		{"per transaction", PerTransaction("r", eur), 0xccece5d8e110c0f1},
		{"one tag", Lifetime("r", eur).Matching("a", "b", "c"), 0x8bef89c9f580b463},
		{"another tag", Lifetime("r", eur).Matching("b", "b", "c"), 0xf65c9a3ab74d1930},
		{"all but one tag", Lifetime("r", eur).NotMatching("a", "b", "c"), 0xacd87112f94b8d38},
		{"two tags", Lifetime("r", eur).Matching("a", "b").Matching("c", "d"), 0xc83c33e464a01816},
		{"one tag with the text of two", Lifetime("r", eur).Matching("a", "1", "b", "c", "d"), 0x3f7e5824bd38ce68},
		{"values that run together", Lifetime("r", eur).Matching("a", "bc", "d"), 0x225953660f2a3b6f},
		{"values that run together elsewhere", Lifetime("r", eur).Matching("a", "b", "cd"), 0x4a0f5d2c2ad3403d},
		{"each value of a tag", Lifetime("r", eur).Per("merchant"), 0x2f6278b5febf3e6f},
		{"a count of attempts", Count("r", 1, time.Hour).CountsDeclines(), 0xb3e37c79a06b76f7},
		{"a count without mercy", Count("r", 1, time.Hour).CountsVoids(), 0xd82243e59326dd0b},
		{"an amount to match", Lifetime("r", eur).MatchingAtLeast(eur), 0xac95cf5e1ba321d0},
		{"a tag with the text of an amount", Lifetime("r", eur).Per("amount false 5"), 0xeb8a1fda19a80b33},
	} {
		got := c.rule.spec.Fingerprint()
		if got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
		if other := seen[got]; other != "" {
			t.Errorf("%s has the fingerprint of %s", c.name, other)
		}
		seen[got], pinned[c.rule.spec.Kind] = c.name, true
	}
	for k := figures.Leaky; int(k) < len(figures.Kinds); k++ {
		if !pinned[k] {
			t.Errorf("no fingerprint of the kind %s is pinned", figures.Kinds[k].Name)
		}
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
