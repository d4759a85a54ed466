package spend

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
)

// everyRule has each kind of rule, and each way to change one.
func everyRule(t testing.TB) Budget {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	eur := func(n int64) Money { return Money{n, "EUR"} }
	return Budget{Name: "cards", Currency: "EUR:4", Revision: 7, Retired: []string{"old"}, Rules: []Rule{
		Leaky("smooth", eur(300_00), 36*time.Hour).MatchingAtLeast(Money{10001, "EUR:4"}).MatchingAtMost(eur(500)),
		Rolling("month", eur(1000_00), 30*24*time.Hour).AtMost(eur(5000_00)),
		Rolling("short", Money{1, "EUR:4"}, 1500*time.Microsecond),
		Calendar("day", eur(200_00), Day, berlin).DayStarting(4 * time.Hour),
		Calendar("week", eur(200_00), Week, time.UTC).WeekStarting(time.Sunday).DayStarting(90*time.Minute + 1500*time.Microsecond),
		Calendar("statement", eur(200_00), Month, berlin).MonthStarting(31),
		Calendar("year", eur(200_00), Year, time.UTC).Per("merchant"),
		PerTransaction("casinos", eur(0)).Matching("mcc", "7995", "7800").Matching("country", "DE"),
		PerTransaction("abroad", eur(100)).NotMatching("country", "DE", "AT").Matching("mcc", "true"),
		Lifetime("ever", eur(20000_00)).Thresholds(100, 50, 80, 50).CountsCredits(),
		Count("often", 5, 10*time.Minute).AtMost(Money{Minor: 9}).CountsDeclines(),
		CountPer("daily", 20, Day, berlin).WeekStarting(time.Monday).CountsVoids().Shadow(),
	}, Plans: map[string][]Rule{
		"gold": {Rolling("month", eur(5000_00), 30*24*time.Hour), Calendar("day", eur(900_00), Day, berlin).DayStarting(time.Hour)},
		"a.b":  {Lifetime("ever", Money{1, "EUR:4"})},
	}}
}

// TestBudgetJSON: a budget and its JSON are the same budget, and the budget has every field of a
// rule: one that the JSON leaves out would be lost in the ledger.
func TestBudgetJSON(t *testing.T) {
	b := everyRule(t)
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var same Budget
	if err := json.Unmarshal(text, &same); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	want, err := b.check()
	if err != nil {
		t.Fatal(err)
	}
	got, err := same.check()
	if d := differ.Fields(got, want); err != nil || d != "" {
		t.Errorf("error %v:\n%s", err, d)
	}
	again, err := json.Marshal(same)
	if err != nil || string(again) != string(text) {
		t.Errorf("a second time: %s, %v; want %s", again, err, text)
	}
	kinds := make(map[figures.Kind]bool)
	has := make(map[string]bool)
	for _, plan := range want.Plans {
		for i := range plan.Rules {
			kinds[plan.Rules[i].Kind] = true
			for f, v := range reflect.ValueOf(plan.Rules[i]).Fields() {
				has[f.Name] = has[f.Name] || !v.IsZero()
			}
		}
	}
	for f := range reflect.TypeFor[figures.Rule]().Fields() {
		if !has[f.Name] {
			t.Errorf("no rule of everyRule has the field %s", f.Name)
		}
	}
	for k := figures.Leaky; int(k) < len(figures.Kinds); k++ {
		if !kinds[k] {
			t.Errorf("no rule of everyRule is of the kind %s", figures.Kinds[k].Name)
		}
	}
}

func TestBudgetWithoutJSON(t *testing.T) {
	rule := Rolling("r", Money{100, "EUR"}, time.Hour)
	for name, r := range map[string]Rule{
		"this machine's zone": Calendar("r", Money{100, "EUR"}, Day, time.Local),
		"a tag twice":         rule.Matching("a", "x", "y").Matching("a", "y"), "a bound twice": rule.MatchingAtLeast(Money{5, "EUR"}).MatchingAtLeast(Money{7, "EUR"}),
		"a mistake": rule.Matching("a"),
	} {
		if text, err := json.Marshal(Budget{Name: "b", Currency: "EUR", Rules: []Rule{r}}); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: %s, %v; want ErrBudget", name, text, err)
		}
	}
}

// TestBadBudgetJSON: a mistake is ErrBudget with its place, and the budget stays as it is.
func TestBadBudgetJSON(t *testing.T) {
	const good = `{"budget":"b","currency":"EUR","rules":[{"name":"x","lifetime":1},{"name":"r","rolling":"10.00","window":"1h"}]}`
	for _, c := range []struct{ change, to, says string }{
		{`"budget"`, `"budgets"`, `budgets: unknown field`},
		{`"budget":"b"`, `"budget":"b","budget":"c"`, "budget: the field is given twice"},
		{`"budget":"b"`, `"budget":""`, "budget: a value is missing"},
		{`"b"`, `{}`, "budget: a value"},
		{`"EUR"`, `"EURO"`, "currency: "},
		{`"1h"`, `"1 hour"`, "rules[1].window: "},
		{`"window"`, `"windows"`, "rules[1].windows: unknown field"},
		{`,"window":"1h"`, ``, "rules[1]: a rolling rule needs window"},
		{`10.00`, `10.001`, "rules[1].rolling: "},
		{`"10.00"`, `1e1`, "rules[1].rolling: "},
		{`"10.00"`, `null`, "rules[1].rolling: "},
		{`"10.00"`, `-1`, "rules[1].rolling: rolling rule"},
		{`"lifetime":1`, `"lifetime":1,"window":"1h"`, "rules[0].window: a lifetime rule has no window"},
		{`"lifetime":1`, `"lifetime":1,"rolling":1`, "rules[0].lifetime: a rule is either"},
		{`"lifetime":1`, `"per":"m"`, "rules[0]: a rule needs one of"},
		{`"window":"1h"`, `"window":"1h","where":{}`, "rules[1].where: "},
		{`"window":"1h"`, `"window":"1h","where":{"a":[1,{}]}`, "rules[1].where.a[1]: a value is missing"},
		{`"window":"1h"`, `"window":"1h","where_amount":{"from":1}`, "rules[1].where_amount.from: unknown"},
		{`"window":"1h"`, `"window":"1h","counts_credits":"true"`, "rules[1].counts_credits: "},
		{`"window":"1h"`, `"window":"1h","thresholds":80`, "rules[1].thresholds: it must be a list"},
		{`"window":"1h"`, `"window":"1h","thresholds":[80,"9x"]`, "rules[1].thresholds[1]: "},
		{`"window":"1h"`, `"window":"1h","thresholds":[80,{}]`, "rules[1].thresholds[1]: a value is missing"},
		{`"name":"x"`, `"name":"r"`, "rules[1].name: two rules"},
		{good, `[]`, "write fields as name: value"},
		{`"lifetime":1`, `"calendar":1,"period":"day","zone":"Local"`, "rules[0].zone: "},
		{`"lifetime":1`, `"calendar":1,"period":"hour","zone":"UTC"`, "rules[0].period: "},
		{`"lifetime":1`, `"count":1,"window":"1h","zone":"UTC"`, "rules[0].zone: a count has either a window, or a period"},
		{`"lifetime":1`, `"count":1.5,"window":"1h"`, "rules[0].count: "},
		{`"lifetime":1`, `"calendar":1,"period":"week","zone":"UTC","week_starts":"someday"`, "rules[0].week_starts: "},
		{`"lifetime":1`, `"calendar":1,"period":"week","zone":"UTC","month_starts":32`, "rules[0].month_starts: calendar rule"},
		{`"lifetime":1`, `"calendar":1,"period":"week","zone":"UTC","day_starts":"24:00"`, "rules[0].day_starts: "},
		{good, `{"budget":"b","currency":"EUR"}`, "rules are missing"},
		{good, `{"budget":"b","currency":"EUR","rules":{}}`, "rules: "},
		{good, `{"budget":"b","currency":"EUR","rules":[]}`, "rules: budget \"b\" has no rules"},
		{`"EUR",`, `"EUR","plans":[],`, "plans: write fields"},
		{`"EUR",`, `"EUR","plans":{"p":{}},`, "plans.p: it must be a list"},
		{`"EUR",`, `"EUR","plans":{"p":[]},`, `plans.p: budget "b" has no rules`},
		{`"EUR",`, `"EUR","plans":{"":[{"name":"x","lifetime":1}]},`, "plans.\"\": the name of a plan"},
		{`"EUR",`, `"EUR","plans":{"p":[{"name":"x","lifetimes":1}]},`, "plans.p[0].lifetimes: unknown field"},
		{`"EUR",`, `"EUR","plans":{"p":[{"name":"x","lifetime":1}],"p":[]},`, `plans.p: the field is given twice`},
	} {
		text := strings.Replace(good, c.change, c.to, 1)
		b := Budget{Name: "before"}
		err := b.UnmarshalJSON([]byte(text))
		if !errors.Is(err, ErrBudget) || !strings.HasPrefix(fmt.Sprint(err), "spend: invalid budget: "+c.says) || b.Name != "before" {
			t.Errorf("%s: %v and %+v; want ErrBudget with %q", text, err, b, c.says)
		}
	}
	if err := new(Budget).UnmarshalJSON([]byte(good + "x")); !errors.Is(err, ErrBudget) {
		t.Errorf("no JSON: %v; want ErrBudget", err)
	}
}

// TestBudgetErrorPath: each mistake of a budget has its place, also one that no reader has seen
// before.
func TestBudgetErrorPath(t *testing.T) {
	eur := Money{100, "EUR"}
	one, mixed := []Rule{Lifetime("r", eur)}, []Rule{Lifetime("x", eur), Count("r", 1, time.Hour)}
	for _, c := range []struct {
		why   string
		b     Budget
		path  []any
		wraps error
	}{
		{"the name", Budget{Currency: "EUR", Rules: one}, []any{"budget"}, nil},
		{"the currency", Budget{Name: "b", Currency: "EU", Rules: one}, []any{"currency"}, ErrCurrency},
		{"no rules", Budget{Name: "b", Currency: "EUR"}, []any{"rules"}, nil},
		{"the name of a plan", Budget{Name: "b", Currency: "EUR", Rules: one, Plans: map[string][]Rule{"": one}}, []any{"plans", ""}, nil},
		{"a plan without rules", Budget{Name: "b", Currency: "EUR", Rules: one, Plans: map[string][]Rule{"a.b": nil}}, []any{"plans", "a.b"}, nil},
		{"an empty rule", Budget{Name: "b", Currency: "EUR", Rules: []Rule{{}}}, []any{"rules", 0}, nil},
		{"two names", Budget{Name: "b", Currency: "EUR", Rules: append(one, one...)}, []any{"rules", 1, "name"}, nil},
		{"an amount that is too fine", Budget{Name: "b", Currency: "EUR", Rules: []Rule{Lifetime("r", Money{1, "EUR:4"})}}, []any{"rules", 0}, ErrAmount},
		{"a name that counts something else", Budget{Name: "b", Currency: "EUR", Rules: one, Plans: map[string][]Rule{"p": mixed}}, []any{"plans", "p", 1, "name"}, nil},
		{"a filter", Budget{Name: "b", Currency: "EUR", Rules: []Rule{one[0].NotMatching("a", "\x00")}}, []any{"rules", 0, "where_not", "a"}, ErrRequest},
		{"voids", Budget{Name: "b", Currency: "EUR", Rules: []Rule{one[0].CountsVoids()}}, []any{"rules", 0, "counts_voids"}, nil},
		{"a bound", Budget{Name: "b", Currency: "EUR", Rules: []Rule{one[0].MatchingAtMost(Money{})}}, []any{"rules", 0, "where_amount"}, ErrCurrency},
	} {
		_, err := New(t.Context(), noLedger{}, c.b, nil)
		mistake := &BudgetError{}
		if !errors.As(err, &mistake) || !errors.Is(err, ErrBudget) || c.wraps != nil && !errors.Is(err, c.wraps) {
			t.Errorf("%s: %v; want a BudgetError of %v", c.why, err, c.wraps)
		}
		if d := differ.Fields(mistake.Path, c.path); d != "" {
			t.Errorf("%s: %v:\n%s", c.why, err, d)
		}
	}
}

// noLedger is a ledger that nobody asks.
type noLedger struct{ ledger.Ledger }

// alternative is a list of fields that the schema requires, alone or together with one of others.
type alternative struct {
	Required []string
	AnyOf    []alternative
}

// TestBudgetSchema: the schema has the fields that are read, and those that are written. Each kind
// of rules has its alternative, with the fields that a rule of the kind needs.
func TestBudgetSchema(t *testing.T) {
	raw, err := os.ReadFile("../docs/budget.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any
		Defs       struct {
			Rule struct {
				OneOf      []alternative
				Properties map[string]any
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	var written []string
	for f := range reflect.TypeFor[ruleJSON]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		written = append(written, name)
	}
	slices.Sort(written)
	if got := slices.Sorted(maps.Keys(schema.Defs.Rule.Properties)); !slices.Equal(got, written) {
		t.Errorf("the schema has the fields %q of a rule; want %q", got, written)
	}
	if got := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, []string{"budget", "currency", "plans", "retired", "revision", "rules"}) {
		t.Errorf("the schema has the fields %q", got)
	}
	kinds := make(map[string]bool)
	for k := figures.Leaky; int(k) < len(figures.Kinds); k++ {
		needed := append([]string{figures.Kinds[k].Limit}, needs(k)...)
		kinds[fmt.Sprint(slices.Sorted(slices.Values(needed)))] = true
	}
	alternatives := make(map[string]bool)
	for _, one := range schema.Defs.Rule.OneOf {
		if one.AnyOf == nil {
			one.AnyOf = []alternative{{}}
		}
		for _, more := range one.AnyOf {
			alternatives[fmt.Sprint(slices.Sorted(slices.Values(slices.Concat(one.Required, more.Required))))] = true
		}
	}
	if !maps.Equal(alternatives, kinds) {
		t.Errorf("the schema requires the fields %v; the kinds of rules need %v", alternatives, kinds)
	}
}

func FuzzBudgetJSON(f *testing.F) {
	text, err := json.Marshal(everyRule(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var b Budget
		if err := b.UnmarshalJSON(text); err != nil {
			if !errors.Is(err, ErrBudget) {
				t.Errorf("%v; want ErrBudget", err)
			}
			return
		}
		if _, err := json.Marshal(b); err != nil {
			t.Errorf("a budget that was read cannot be written: %v", err)
		}
	})
}
