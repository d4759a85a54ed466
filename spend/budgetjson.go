package spend

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/strictjson"
)

// budgetJSON is the JSON form of a budget.
type budgetJSON struct {
	Budget   text                  `json:"budget"`
	Currency text                  `json:"currency"`
	Rules    []ruleJSON            `json:"rules"`
	Plans    map[string][]ruleJSON `json:"plans,omitempty"`
}

// ruleJSON is the JSON form of a rule. kinds tells which fields the rules of a kind have. An empty
// field is one that is left out.
type ruleJSON struct {
	Name           text             `json:"name"`
	Leaky          text             `json:"leaky,omitempty"`
	Rolling        text             `json:"rolling,omitempty"`
	Calendar       text             `json:"calendar,omitempty"`
	PerTransaction text             `json:"per_transaction,omitempty"`
	Lifetime       text             `json:"lifetime,omitempty"`
	Count          number           `json:"count,omitempty"`
	DrainsIn       text             `json:"drains_in,omitempty"`
	Window         text             `json:"window,omitempty"`
	Period         text             `json:"period,omitempty"`
	Zone           text             `json:"zone,omitempty"`
	WeekStarts     text             `json:"week_starts,omitempty"`
	MonthStarts    number           `json:"month_starts,omitempty"`
	DayStarts      text             `json:"day_starts,omitempty"`
	Where          map[string]texts `json:"where,omitempty"`
	WhereNot       map[string]texts `json:"where_not,omitempty"`
	WhereAmount    *boundsJSON      `json:"where_amount,omitempty"`
	Per            text             `json:"per,omitempty"`
	AtMost         text             `json:"at_most,omitempty"`
	CountsCredits  bool             `json:"counts_credits,omitempty"`
	CountsDeclines bool             `json:"counts_declines,omitempty"`
	CountsVoids    bool             `json:"counts_voids,omitempty"`
	Thresholds     []number         `json:"thresholds,omitempty"`
}

type boundsJSON struct {
	AtLeast text `json:"at_least,omitempty"`
	AtMost  text `json:"at_most,omitempty"`
}

// text is a string, or a number as it is written: amounts are exact in both forms.
type text string

// UnmarshalJSON reads a string or a number.
func (t *text) UnmarshalJSON(raw []byte) error {
	switch c := raw[0]; {
	case c == '"':
		if err := json.Unmarshal(raw, (*string)(t)); err != nil {
			return err
		}
	case c == '-', '0' <= c && c <= '9':
		*t = text(raw)
	}
	if *t == "" {
		return errors.New("a value is missing; write a text or a number")
	}
	return nil
}

// number is a text that is written as a number.
type number text

// UnmarshalJSON reads a string or a number.
func (n *number) UnmarshalJSON(raw []byte) error { return (*text)(n).UnmarshalJSON(raw) }

// MarshalJSON writes a number.
func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// texts are a list of texts. A single one may stand for its list.
type texts []text

// UnmarshalJSON reads a text or a list.
func (t *texts) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' {
		return strictjson.Decode(raw, (*[]text)(t))
	}
	*t = make(texts, 1)
	return (*t)[0].UnmarshalJSON(raw)
}

var periods = []string{Day: "day", Week: "week", Month: "month", Year: "year"}

const withoutZero = "15:04:05.999999"

// MarshalJSON writes the budget in the form that docs/budget.schema.json describes, which
// UnmarshalJSON reads: the same name, currency, rules and plans. A budget with mistakes is
// [ErrBudget]. So is one that has no such form, because the zone of a rule has no name, or a rule
// filters by one tag or bound several times.
func (b Budget) MarshalJSON() ([]byte, error) {
	checked, err := b.check()
	if err != nil {
		return nil, err
	}
	out := budgetJSON{Budget: text(b.Name), Currency: text(b.Currency), Rules: checked.json(), Plans: make(map[string][]ruleJSON)}
	for name := range b.Plans {
		out.Plans[name] = checked.plans[name].json()
	}
	written, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	var same Budget
	if err := same.UnmarshalJSON(written); err != nil {
		return nil, err
	}
	read, err := same.check()
	if err != nil {
		return nil, err
	}
	for name, plan := range checked.plans {
		for i := range plan.Rules {
			x, y := &read.plans[name].Rules[i], &plan.Rules[i]
			if read.plans[name].fingerprints[i] != plan.fingerprints[i] || y.periodic() && x.anchor != y.anchor {
				place := []any{"rules", i}
				if name != "" {
					place = []any{"plans", name, i}
				}
				return nil, &BudgetError{place, fmt.Errorf("rule %q has no JSON form; it filters by one tag or bound several times", y.name)}
			}
		}
	}
	return written, nil
}

// json returns the form of the rules.
func (b *checkedBudget) json() (list []ruleJSON) {
	for i := range b.Rules {
		list = append(list, b.Rules[i].json())
	}
	return list
}

// json returns the form of a rule that has no mistakes.
func (r *Rule) json() ruleJSON {
	j := ruleJSON{Name: text(r.name), Per: text(r.per), CountsCredits: r.credits, CountsDeclines: r.declines, CountsVoids: r.voids}
	for _, n := range r.thresholds {
		j.Thresholds = append(j.Thresholds, number(strconv.Itoa(n)))
	}
	amount, length := text(r.limit.Decimal()), text(r.length.String())
	switch r.kind {
	case leaky:
		j.Leaky, j.DrainsIn = amount, length
	case rolling:
		j.Rolling, j.Window = amount, length
	case calendar:
		j.Calendar = amount
	case perTransaction:
		j.PerTransaction = amount
	case lifetime:
		j.Lifetime = amount
	case count:
		j.Count, j.Window = number(amount), length
	case countPer:
		j.Count = number(amount)
	}
	if r.periodic() {
		j.Period, j.Zone = text(periods[r.period]), text(r.zone.String())
		if r.anchor.week != midnight.week {
			j.WeekStarts = text(strings.ToLower(r.anchor.week.String()))
		}
		if r.anchor.day != midnight.day {
			j.MonthStarts = number(strconv.Itoa(r.anchor.day))
		}
		if r.anchor.clock != midnight.clock {
			j.DayStarts = text(time.Time{}.Add(r.anchor.clock).Format(withoutZero))
		}
	}
	for _, m := range r.filter {
		list := &j.Where
		if m.not {
			list = &j.WhereNot
		}
		if *list == nil {
			*list = make(map[string]texts)
		}
		for _, value := range m.values {
			(*list)[m.tag] = append((*list)[m.tag], text(value))
		}
	}
	for _, b := range r.bounds {
		j.WhereAmount = cmp.Or(j.WhereAmount, &boundsJSON{})
		if amount := text(b.amount.Decimal()); b.most {
			j.WhereAmount.AtMost = amount
		} else {
			j.WhereAmount.AtLeast = amount
		}
	}
	if r.atMost != (Money{}) {
		j.AtMost = text(r.atMost.Decimal())
	}
	return j
}

// UnmarshalJSON reads the form that docs/budget.schema.json describes. It is strict: an unknown
// field, a field twice, or one that does not belong to the kind of its rule is [ErrBudget], and so
// is every other mistake. The error is a [*BudgetError], which tells the place, and b stays as it
// is. Amounts may be strings or numbers without an exponent, and are exact.
func (b *Budget) UnmarshalJSON(raw []byte) error {
	read, err := readBudget(raw)
	if err != nil {
		return budgetErr(err)
	}
	if _, err := read.check(); err != nil {
		return err
	}
	*b = read
	return nil
}

func readBudget(raw []byte) (b Budget, err error) {
	var j budgetJSON
	if err := strictjson.Decode(raw, &j); err != nil {
		return b, err
	}
	b.Name, b.Currency = string(j.Budget), string(j.Currency)
	if _, ok := MinorUnits(b.Currency); !ok {
		return b, strictjson.At(notCurrency(b.Currency), "currency")
	}
	if j.Rules == nil {
		return b, errors.New("rules are missing; a budget has a list of them")
	}
	if b.Rules, err = readRules(j.Rules, b.Currency); err != nil {
		return b, strictjson.At(err, "rules")
	}
	if j.Plans != nil {
		b.Plans = make(map[string][]Rule)
	}
	for _, name := range slices.Sorted(maps.Keys(j.Plans)) {
		if b.Plans[name], err = readRules(j.Plans[name], b.Currency); err != nil {
			return b, strictjson.At(err, "plans", name)
		}
	}
	return b, nil
}

func readRules(list []ruleJSON, currency string) (rules []Rule, err error) {
	for i := range list {
		p := &ruleReader{ruleJSON: &list[i], currency: currency}
		rules = append(rules, p.rule())
		if p.err != nil {
			return nil, strictjson.At(p.err, i)
		}
	}
	return rules, nil
}

// given returns the names of the fields that are not empty.
func (j *ruleJSON) given() (names []string) {
	v := reflect.ValueOf(j).Elem()
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// ruleReader makes a rule of its JSON form, and keeps the first mistake.
type ruleReader struct {
	*ruleJSON
	currency string
	err      error
}

// fail notes a mistake at a place in the rule.
func (p *ruleReader) fail(err error, place ...any) {
	if p.err == nil {
		p.err = strictjson.At(err, place...)
	}
}

// kind returns the kind of the rule, if the rule has all fields that its kind needs, and no others.
func (p *ruleReader) kind() (k kind) {
	given := p.given()
	for i := leaky; i < countPer; i++ {
		switch limit := kinds[i].limit; {
		case !slices.Contains(given, limit):
		case k != 0:
			p.fail(fmt.Errorf("a rule is either %s or %s", kinds[k].limit, limit), limit)
		default:
			k = i
		}
	}
	switch {
	case k == 0:
		p.fail(errors.New("a rule needs one of leaky, rolling, calendar, per_transaction, lifetime and count, with its limit"))
	case k == count && p.Window == "" && p.Period == "" && p.Zone == "":
		p.fail(errors.New("a count rule needs window, or period and zone"))
	case k == count && p.Window == "":
		k = countPer
	}
	for _, field := range given {
		switch {
		case k == 0 || k.takes(field) || slices.Contains(changeFields, field): // validate tells why a rule cannot be changed so
		case k == count && slices.Contains(kinds[countPer].needs, field):
			p.fail(errors.New("a count has either a window, or a period with its zone"), field)
		default:
			p.fail(fmt.Errorf("a %s rule has no %s", kinds[k].limit, field), field)
		}
	}
	for _, field := range append([]string{"name"}, kinds[k].needs...) {
		if !slices.Contains(given, field) {
			p.fail(fmt.Errorf("a %s rule needs %s", kinds[k].limit, field))
		}
	}
	return k
}

func (p *ruleReader) rule() (rule Rule) {
	k := p.kind()
	if p.err != nil {
		return rule
	}
	name := string(p.Name)
	limit := p.amount(cmp.Or(p.Leaky, p.Rolling, p.Calendar, p.PerTransaction, p.Lifetime, text(p.Count)), k >= count, kinds[k].limit)
	switch k {
	case leaky:
		rule = Leaky(name, limit, p.time("drains_in", p.DrainsIn))
	case rolling:
		rule = Rolling(name, limit, p.time("window", p.Window))
	case calendar:
		rule = Calendar(name, limit, p.period(), p.zone())
	case perTransaction:
		rule = PerTransaction(name, limit)
	case lifetime:
		rule = Lifetime(name, limit)
	case count:
		rule = Count(name, limit.Minor, p.time("window", p.Window))
	case countPer:
		rule = CountPer(name, limit.Minor, p.period(), p.zone())
	}
	rule = p.anchored(rule)
	rule = p.where("where", p.Where, rule, Rule.Matching)
	rule = p.where("where_not", p.WhereNot, rule, Rule.NotMatching)
	if b := p.WhereAmount; b != nil {
		if b.AtLeast != "" {
			rule = rule.MatchingAtLeast(p.amount(b.AtLeast, false, "where_amount", "at_least"))
		}
		if b.AtMost != "" {
			rule = rule.MatchingAtMost(p.amount(b.AtMost, false, "where_amount", "at_most"))
		}
	}
	if p.AtMost != "" {
		rule = rule.AtMost(p.amount(p.AtMost, rule.spends(), "at_most"))
	}
	if p.Per != "" {
		rule = rule.Per(string(p.Per))
	}
	rule.credits, rule.declines, rule.voids = p.CountsCredits, p.CountsDeclines, p.CountsVoids
	var percent []int
	for i, s := range p.Thresholds {
		percent = append(percent, p.whole(s, "whole number of percent, from 1 to 100", "thresholds", i))
	}
	return rule.Thresholds(percent...)
}

func (p *ruleReader) anchored(rule Rule) Rule {
	if s := string(p.WeekStarts); s != "" {
		day := time.Sunday
		for day <= time.Saturday && !strings.EqualFold(day.String(), s) {
			day++
		}
		if rule = rule.WeekStarting(day); day > time.Saturday {
			p.fail(fmt.Errorf("%.40q is no day of the week, like sunday", s), "week_starts")
		}
	}
	if p.MonthStarts != "" {
		rule = rule.MonthStarting(p.whole(p.MonthStarts, "day of the month, from 1 to 31", "month_starts"))
	}
	if s := string(p.DayStarts); s != "" {
		at, err := time.Parse("15:04", s)
		if err != nil {
			at, err = time.Parse(withoutZero, s)
		}
		clock := at.Sub(time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC))
		if rule = rule.DayStarting(clock); err != nil {
			p.fail(fmt.Errorf("%.40q is no time of the day like 04:00", s), "day_starts")
		}
	}
	return rule
}

// whole reads a whole number.
func (p *ruleReader) whole(s number, want string, place ...any) int {
	n, err := strconv.Atoi(string(s))
	if err != nil {
		p.fail(fmt.Errorf("%.40q is no %s", s, want), place...)
	}
	return n
}

// amount reads an amount in the currency of the budget, or a number of spends.
func (p *ruleReader) amount(s text, spends bool, place ...any) (m Money) {
	var err error
	if spends {
		if m.Minor, err = strconv.ParseInt(string(s), 10, 64); err != nil {
			p.fail(fmt.Errorf("%.40q is not a number of spends; write it like 20", s), place...)
		}
		return m
	}
	m.Currency = p.currency
	places, _ := MinorUnits(p.currency)
	if m.Minor, err = parseMinor(string(s), places); err != nil {
		p.fail(fmt.Errorf("%w: %w", ErrAmount, err), place...)
	}
	return m
}

func (p *ruleReader) time(field string, s text) time.Duration {
	d, err := duration.Parse(string(s))
	if err != nil {
		p.fail(err, field)
	}
	return d
}

func (p *ruleReader) period() Period {
	i := slices.Index(periods, string(p.Period))
	if i < int(Day) {
		p.fail(fmt.Errorf("%.40q must be day, week, month or year", p.Period), "period")
	}
	return Period(max(i, 0)) //nolint:gosec // an index of a short list
}

func (p *ruleReader) zone() *time.Location {
	zone, err := time.LoadLocation(string(p.Zone))
	if err != nil || p.Zone == "Local" { // which differs between machines
		p.fail(fmt.Errorf("%.60q is unknown; write it like Europe/Berlin", p.Zone), "zone")
	}
	return zone
}

// where restricts a rule by tags.
func (p *ruleReader) where(field string, tags map[string]texts, rule Rule, restrict func(r Rule, tag string, values ...string) Rule) Rule {
	if tags != nil && len(tags) == 0 {
		p.fail(fmt.Errorf("write %s as tag: value, or tag: [value, value]", field), field)
	}
	for tag, list := range tags {
		values := make([]string, len(list))
		for i, value := range list {
			values[i] = string(value)
		}
		rule = restrict(rule, tag, values...)
	}
	return rule
}
