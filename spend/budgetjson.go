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

	"github.com/brimgo/brim/internal/calendar"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/strictjson"
	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
)

// budgetJSON is the JSON form of a budget.
type budgetJSON struct {
	Budget   text                  `json:"budget"`
	Currency text                  `json:"currency"`
	Revision number                `json:"revision,omitempty"`
	Retired  []text                `json:"retired,omitempty"`
	Rules    []ruleJSON            `json:"rules"`
	Plans    map[string][]ruleJSON `json:"plans,omitempty"`
}

// ruleJSON is the JSON form of a rule. [figures.Kinds] tells which fields the rules of a kind have.
// An empty field is one that is left out.
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
	Shadow         bool             `json:"shadow,omitempty"`
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
// UnmarshalJSON reads: the same name, currency, revision, rules and plans. A budget with mistakes
// is [ErrBudget]. So is one that has no such form, because the zone of a rule has no name, or a
// rule filters by one tag or bound several times.
func (b Budget) MarshalJSON() ([]byte, error) {
	checked, err := b.check()
	if err != nil {
		return nil, err
	}
	written, err := json.Marshal(newBudgetJSON(checked))
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
	for name, plan := range checked.Plans {
		for i := range plan.Rules {
			x, y := &read.Plans[name].Rules[i], &plan.Rules[i]
			if read.Plans[name].Fingerprints[i] != plan.Fingerprints[i] || y.Span() == figures.Repeats && x.Anchor != y.Anchor {
				place := []any{"rules", i}
				if name != "" {
					place = []any{"plans", name, i}
				}
				return nil, &BudgetError{place, fmt.Errorf("rule %q has no JSON form; it filters by one tag or bound several times", y.Name)}
			}
		}
	}
	return written, nil
}

// newBudgetJSON returns the form of a budget that has no mistakes.
func newBudgetJSON(b *decide.Budget) budgetJSON {
	out := budgetJSON{Budget: text(b.Name), Currency: text(b.Currency), Plans: make(map[string][]ruleJSON)}
	if b.Revision != 0 {
		out.Revision = number(strconv.FormatInt(b.Revision, 10))
	}
	for _, name := range b.Retired {
		out.Retired = append(out.Retired, text(name))
	}
	for name, plan := range b.Plans {
		if name == "" {
			out.Rules = planJSON(plan)
		} else {
			out.Plans[name] = planJSON(plan)
		}
	}
	return out
}

// planJSON returns the form of the rules of a plan.
func planJSON(plan *decide.Plan) (list []ruleJSON) {
	for i := range plan.Rules {
		list = append(list, newRuleJSON(&plan.Rules[i]))
	}
	return list
}

// newRuleJSON returns the form of a rule that has no mistakes.
func newRuleJSON(r *figures.Rule) ruleJSON {
	j := ruleJSON{Name: text(r.Name), Per: text(r.Per), CountsCredits: r.Credits, CountsDeclines: r.Declines, CountsVoids: r.Voids, Shadow: r.Shadow}
	for _, n := range r.Thresholds {
		j.Thresholds = append(j.Thresholds, number(strconv.Itoa(n)))
	}
	j.field(figures.Kinds[r.Kind].Limit).SetString(r.Limit.Decimal())
	switch r.Span() {
	case figures.Leaks:
		j.DrainsIn = text(r.Length.String())
	case figures.Rolls:
		j.Window = text(r.Length.String())
	case figures.Repeats:
		j.setPeriod(r)
	}
	for _, m := range r.Filter {
		list := &j.Where
		if m.Not {
			list = &j.WhereNot
		}
		if *list == nil {
			*list = make(map[string]texts)
		}
		for _, value := range m.Values {
			(*list)[m.Tag] = append((*list)[m.Tag], text(value))
		}
	}
	for _, b := range r.Bounds {
		j.WhereAmount = cmp.Or(j.WhereAmount, &boundsJSON{})
		if amount := text(b.Amount.Decimal()); b.Most {
			j.WhereAmount.AtMost = amount
		} else {
			j.WhereAmount.AtLeast = amount
		}
	}
	if r.AtMost != (money.Money{}) {
		j.AtMost = text(r.AtMost.Decimal())
	}
	return j
}

func (j *ruleJSON) setPeriod(r *figures.Rule) {
	j.Period, j.Zone = text(periods[r.Period]), text(zoneName(r.Zone))
	if r.Anchor.Week != calendar.Midnight.Week {
		j.WeekStarts = text(strings.ToLower(r.Anchor.Week.String()))
	}
	if r.Anchor.Day != calendar.Midnight.Day {
		j.MonthStarts = number(strconv.Itoa(r.Anchor.Day))
	}
	if r.Anchor.Clock != calendar.Midnight.Clock {
		j.DayStarts = text(time.Time{}.Add(r.Anchor.Clock).Format(withoutZero))
	}
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
	if _, ok := money.Places(b.Currency); !ok {
		return b, strictjson.At(notCurrency(b.Currency), "currency")
	}
	if j.Revision != "" {
		if b.Revision, err = strconv.ParseInt(string(j.Revision), 10, 64); err != nil {
			return b, strictjson.At(fmt.Errorf("%.40q is no whole number from 0 to 2^53", j.Revision), "revision")
		}
	}
	for _, name := range j.Retired {
		b.Retired = append(b.Retired, string(name))
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

// fields yields the names of the fields, and their values.
func (j *ruleJSON) fields(yield func(string, reflect.Value) bool) {
	v := reflect.ValueOf(j).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if !yield(name, v.Field(i)) {
			return
		}
	}
}

// given returns the names of the fields that are not empty.
func (j *ruleJSON) given() (names []string) {
	for name, v := range j.fields {
		if !v.IsZero() {
			names = append(names, name)
		}
	}
	return names
}

// field returns the value of a field.
func (j *ruleJSON) field(name string) (found reflect.Value) {
	for field, v := range j.fields {
		if field == name {
			found = v
		}
	}
	return found
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
func (p *ruleReader) kind() (k figures.Kind) {
	given := p.given()
	for i := figures.Leaky; int(i) < len(figures.Kinds); i++ {
		switch limit := figures.Kinds[i].Limit; {
		case !slices.Contains(given, limit):
		case k != 0 && figures.Kinds[k].Limit != limit:
			p.fail(fmt.Errorf("a rule is either %s or %s", figures.Kinds[k].Limit, limit), limit)
		case k == 0 || !containsAny(given, needs(k)) && containsAny(given, needs(i)):
			k = i
		}
	}
	if k == 0 {
		p.fail(errors.New("a rule needs one of leaky, rolling, calendar, per_transaction, lifetime and count, with its limit"))
		return 0
	}
	p.checkFields(k, given)
	return k
}

func containsAny(list, some []string) bool {
	return slices.ContainsFunc(some, func(s string) bool { return slices.Contains(list, s) })
}

// checkFields fails if the rule of a kind has a field too many, or one too few.
func (p *ruleReader) checkFields(k figures.Kind, given []string) {
	limit := figures.Kinds[k].Limit
	if limit == "count" && !containsAny(given, []string{"window", "period", "zone"}) {
		p.fail(errors.New("a count rule needs window, or period and zone"))
	}
	for _, field := range given {
		switch {
		case takes(k, field) || slices.Contains(changeFields, field): // check tells why a rule cannot be changed so
		case limit == "count" && slices.Contains(needs(figures.CountPer), field):
			p.fail(errors.New("a count has either a window, or a period with its zone"), field)
		default:
			p.fail(fmt.Errorf("a %s rule has no %s", limit, field), field)
		}
	}
	for _, field := range append([]string{"name"}, needs(k)...) {
		if !slices.Contains(given, field) {
			p.fail(fmt.Errorf("a %s rule needs %s", limit, field))
		}
	}
}

func (p *ruleReader) rule() Rule {
	k := p.kind()
	if p.err != nil {
		return Rule{}
	}
	d := &figures.Kinds[k]
	limit := p.amount(text(p.field(d.Limit).String()), d.Spends, d.Limit)
	rule := Rule{figures.Rule{Name: string(p.Name), Kind: k, Limit: money.Money(limit)}}
	switch d.Span {
	case figures.Leaks:
		rule.spec.Length = p.time("drains_in", p.DrainsIn)
	case figures.Rolls:
		rule.spec.Length = p.time("window", p.Window)
	case figures.Repeats:
		rule.spec.Period, rule.spec.Zone, rule.spec.Anchor = p.period(), p.zone(), calendar.Midnight
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
		rule = rule.AtMost(p.amount(p.AtMost, d.Spends, "at_most"))
	}
	if p.Per != "" {
		rule = rule.Per(string(p.Per))
	}
	rule.spec.Credits, rule.spec.Declines, rule.spec.Voids, rule.spec.Shadow = p.CountsCredits, p.CountsDeclines, p.CountsVoids, p.Shadow
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
	places, _ := money.Places(p.currency)
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

func (p *ruleReader) period() calendar.Unit {
	i := slices.Index(periods, string(p.Period))
	if i < int(Day) {
		p.fail(fmt.Errorf("%.40q must be day, week, month or year", p.Period), "period")
	}
	return calendar.Unit(max(i, 0)) //nolint:gosec // an index of a short list
}

// zoneName returns the name by which a reader finds a zone, or the offset of a zone that has none
// and never changes it.
func zoneName(zone *time.Location) string {
	year := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	_, offset := year.In(zone).Zone()
	if start, end := year.In(zone).ZoneBounds(); !start.IsZero() || !end.IsZero() || zone == time.Local {
		return zone.String()
	}
	if named, err := time.LoadLocation(zone.String()); err == nil && zone.String() != "" {
		if _, same := year.In(named).Zone(); same == offset && named != time.Local {
			return zone.String()
		}
	}
	sign := "+"
	if offset < 0 {
		sign, offset = "-", -offset
	}
	format := "15:04"
	if offset%60 != 0 {
		format = time.TimeOnly
	}
	return sign + time.Time{}.Add(time.Duration(offset)*time.Second).Format(format)
}

func (p *ruleReader) zone() *time.Location {
	if s := string(p.Zone); s != "" && strings.Contains("+-", s[:1]) {
		at, err := time.Parse("15:04", s[1:])
		if err != nil {
			at, err = time.Parse(time.TimeOnly, s[1:])
		}
		if err != nil {
			p.fail(fmt.Errorf("%.40q is no offset from UTC like +05:30", s), "zone")
		}
		offset := at.Hour()*3600 + at.Minute()*60 + at.Second()
		if s[0] == '-' {
			offset = -offset
		}
		return time.FixedZone(s, offset)
	}
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
