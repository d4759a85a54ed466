package budgetfile

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // every machine must have the time zones

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

func read(t testing.TB, text string) ([]spend.Budget, error) {
	t.Helper()
	return Read(strings.NewReader(text))
}

const good = `# limits of cards
budget: cards
currency: EUR
revision: 7
rules:
  - name: month
    rolling: 1000.00
    window: 720h
  - {name: day, calendar: 200, period: week, zone: Europe/Berlin, week_starts: sunday, day_starts: 04:00, month_starts: 15}
  - name: smooth
    leaky: 300.5
    drains_in: 24h
    where: {category: [travel, hotel], country: DE}
  - {name: single, per_transaction: 500}
  - {name: ever, lifetime: 10000, counts_credits: true, thresholds: [50, 100], shadow: true}
  - {name: often, count: 10, window: 1h, where_amount: {at_least: 50, at_most: 99.99}, per: merchant, counts_declines: true}
also:
  - budget: team
    currency: EUR
    rules: [{name: ever, lifetime: 90000}]
plans:
  gold:
    - name: month
      rolling: 5000.00
      window: 720h
      thresholds:
        - 80
        - 90
    - {name: smooth, leaky: 900, drains_in: 24h}
  a.b:
    - name: month
      rolling: 9000.00
      window: 720h
      where:
        category:
          - travel
          - hotel
`

func TestGood(t *testing.T) {
	all, err := read(t, good)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Name != "cards" || len(all[0].Rules) != 6 || all[0].Revision != 7 || all[1].Name != "team" {
		t.Errorf("got %+v", all)
	}
	if d := differ.Fields(all[0].Rules[4], spend.Lifetime("ever", spend.Money{Minor: 1000000, Currency: "EUR"}).CountsCredits().Thresholds(50, 100).Shadow()); d != "" {
		t.Error(d)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	want := spend.Calendar("day", spend.Money{Minor: 20000, Currency: "EUR"}, spend.Week, berlin).
		WeekStarting(time.Sunday).MonthStarting(15).DayStarting(4 * time.Hour)
	if d := differ.Fields(all[0].Rules[1], want); d != "" {
		t.Error(d)
	}
	l := memledger.New(nil)
	b, err := spend.New(t.Context(), l, all[0], &spend.Options{Budgets: all[1:]})
	if err != nil {
		t.Fatal(err)
	}
	list, err := b.Remaining(t.Context(), "card")
	if err != nil {
		t.Fatal(err)
	}
	if got := list[2].Limit.String(); got != "300.50 EUR" {
		t.Errorf("an amount is read as written: %s", got)
	}
}

func TestBad(t *testing.T) {
	for _, c := range []struct{ name, change, to, says string }{
		{"unknown field", "revision: 7", "revison: 7", "line 4: revison: unknown field"},
		{"unknown field of a rule", "window: 720h", "windows: 720h", "line 8: rules[0].windows: unknown field"},
		{"field of another rule", "per_transaction: 500", "per_transaction: 500, window: 1h", "line 14: rules[3].window: a per_transaction rule has no window"},
		{"two kinds", "lifetime: 10000", "lifetime: 10000, rolling: 5", "line 15: rules[4].lifetime: a rule is either"},
		{"no kind", "lifetime: 10000, ", "", "line 15"},
		{"no truth", "counts_credits: true", "counts_credits: 1", "line 15"},
		{"missing window", "    window: 720h\n", "", "line 6: rules[0]: a rolling rule needs window"},
		{"too many places", "1000.00", "1000.001", "line 7"},
		{"a float", "1000.00", "1e3", "line 7"},
		{"no number", "count: 10", "count: ten", "line 16"},
		{"zone", "Europe/Berlin", "Europe/Atlantis", "line 9"},
		{"this machine's zone", "Europe/Berlin", "Local", "line 9"},
		{"period", "period: week", "period: fortnight", "line 9"},
		{"week", "sunday", "someday", "line 9"},
		{"time", "04:00", "4 o'clock", "line 9"},
		{"day", "month_starts: 15", "month_starts: first", "line 9"},
		{"duration", "24h", "24 hours", "line 12"},
		{"a scale above 9", "currency: EUR\nrev", "currency: EUR:10\nrev", "EUR:10"},
		{"currency", "currency: EUR\nrev", "currency: EUROS\nrev", "EUROS"},
		{"no bound", "at_least: 50", "from: 50", "line 16: rules[5].where_amount.from: unknown field"},
		{"a bound that is no amount", "at_least: 50", "at_least: all", "line 16"},
		{"no tag", "per: merchant", "per: [merchant]", "line 16"},
		{"twice", "revision: 7", "budget: other", "line 4"},
		{"a duration in a plan", "      window: 720h\n      th", "      window: month\n      th", "line 25: plans.gold[0].window: "},
		{"a missing field in a plan", "      window: 720h\n      th", "      th", "line 23: plans.gold[0]: a rolling rule needs window"},
		{"an unknown field in a plan", "drains_in: 24h}\n  a.b", "drain_in: 24h}\n  a.b", "line 29: plans.gold[1].drain_in: unknown field"},
		{"a threshold in a plan", "- 90", "- 9O", "line 28: plans.gold[0].thresholds[1]: "},
		{"a plan whose name has a point", "9000.00", "9000.001", `line 32: plans."a.b"[0].rolling: `},
		{"an empty value in a list of tags", "- hotel", "- ''", `line 37: plans."a.b"[0].where.category[1]: a value is missing`},
		{"a mistake that only the rules together have", "name: smooth, leaky: 900", "name: often, leaky: 900", "line 29: plans.gold[1].name: "},
		{"an equal name", "name: smooth, leaky: 900", "name: month, leaky: 900", "line 29: plans.gold[1].name: two rules"},
		{"an equal name in another line", "{name: single", "{name: smooth", "line 14: rules[3].name: two rules"},
		{"an amount that is too large to leak", "leaky: 900", "leaky: 90071992547409.93", "line 29: plans.gold[1].leaky: "},
		{"a rule of no account", "counts_credits: true", "counts_credits: true, per: ''", "line 15: rules[4].per: "},
		{"a field twice", "    window: 720h\n  - {", "    window: 720h\n    window: 24h\n  - {", "line 9: rules[0].window: the field is given twice"},
		{"no list in a plan", "  a.b:\n", "  c:\n    name: month\n  a.b:\n", "line 30: plans.c: it must be a list"},
		{"a plan without rules", "  a.b:\n", "  c: []\n  a.b:\n", "line 30: plans.c: "},
		{"a further budget", "ever, lifetime: 90000", "ever, lifetimes: 90000", "line 20: rules[0].lifetimes: unknown field"},
		{"no name", "budget: cards\n", "", "line 2: budget: "},
		{"no YAML", "budget: cards", "budget: [", "line"},
		{"nothing", good, "", "empty"},
		{"a list", good, "- 1\n", "line 1"},
		{"two documents", "revision: 7", "---\nbudget: b", "a second document"},
		{"an empty second document", good, good + "---\n", "a second document"},
		{"two of JSON", good, `{"budget": "a"} {"budget": "b"}`, "a second document"},
		{"no rules", good, "budget: a\ncurrency: EUR\n", "rules are missing"},
	} {
		text := strings.Replace(good, c.change, c.to, 1)
		if text == good {
			t.Fatalf("%s changes nothing", c.name)
		}
		if _, err := read(t, text); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", c.name, err, c.says)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(good)
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := read(t, text)
		if (all == nil) == (err == nil) {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
