package spend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/duration"
)

// ruleJSON is the form in which MarshalJSON writes a rule.
type ruleJSON struct {
	Name           string              `json:"name"`
	Leaky          string              `json:"leaky,omitempty"`
	Rolling        string              `json:"rolling,omitempty"`
	Calendar       string              `json:"calendar,omitempty"`
	PerTransaction string              `json:"per_transaction,omitempty"`
	Lifetime       string              `json:"lifetime,omitempty"`
	Count          int64               `json:"count,omitempty"`
	DrainsIn       string              `json:"drains_in,omitempty"`
	Window         string              `json:"window,omitempty"`
	Period         string              `json:"period,omitempty"`
	Zone           string              `json:"zone,omitempty"`
	WeekStarts     string              `json:"week_starts,omitempty"`
	MonthStarts    int                 `json:"month_starts,omitempty"`
	DayStarts      string              `json:"day_starts,omitempty"`
	Where          map[string][]string `json:"where,omitempty"`
	WhereNot       map[string][]string `json:"where_not,omitempty"`
	WhereAmount    map[string]string   `json:"where_amount,omitempty"`
	Per            string              `json:"per,omitempty"`
	AtMost         string              `json:"at_most,omitempty"`
	CountsCredits  bool                `json:"counts_credits,omitempty"`
	CountsDeclines bool                `json:"counts_declines,omitempty"`
	CountsVoids    bool                `json:"counts_voids,omitempty"`
	Thresholds     []int               `json:"thresholds,omitempty"`
}

// kinds are the fields that name the kind of a rule, with the further fields of that kind.
var kinds = map[string][]string{
	"leaky":           {"drains_in"},
	"rolling":         {"window"},
	"calendar":        {"period", "zone", "week_starts", "month_starts", "day_starts"},
	"per_transaction": nil,
	"lifetime":        nil,
	"count":           {"window", "period", "zone", "week_starts", "month_starts", "day_starts"},
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
	out := struct {
		Budget   string                `json:"budget"`
		Currency string                `json:"currency"`
		Rules    []ruleJSON            `json:"rules"`
		Plans    map[string][]ruleJSON `json:"plans,omitempty"`
	}{Budget: b.Name, Currency: b.Currency, Rules: checked.json(), Plans: make(map[string][]ruleJSON)}
	for name := range b.Plans {
		out.Plans[name] = checked.plans[name].json()
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	var same Budget
	if err := same.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	read, err := same.check()
	if err != nil {
		return nil, err
	}
	for name, plan := range checked.plans {
		for i := range plan.Rules {
			x, y := &read.plans[name].Rules[i], &plan.Rules[i]
			if read.plans[name].fingerprints[i] != plan.fingerprints[i] || x.anchor != y.anchor || x.length != y.length {
				return nil, fmt.Errorf("spend: %w: rule %q has no JSON form; it filters by one tag or bound several times", ErrBudget, y.name)
			}
		}
	}
	return text, nil
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
	j := ruleJSON{Name: r.name, Per: r.per, CountsCredits: r.credits, Thresholds: r.thresholds, CountsDeclines: r.declines, CountsVoids: r.voids}
	amount := r.limit.Decimal()
	switch r.kind {
	case leaky:
		j.Leaky, j.DrainsIn = amount, r.length.String()
	case rolling:
		j.Rolling, j.Window = amount, r.length.String()
	case calendar:
		j.Calendar = amount
	case perTransaction:
		j.PerTransaction = amount
	case lifetime:
		j.Lifetime = amount
	case count:
		j.Count, j.Window = r.limit.Minor, r.length.String()
	case countPer:
		j.Count = r.limit.Minor
	}
	if r.periodic() {
		j.Period, j.Zone = periods[r.period], r.zone.String()
		if r.anchor.week != midnight.week {
			j.WeekStarts = strings.ToLower(r.anchor.week.String())
		}
		if r.anchor.day != midnight.day {
			j.MonthStarts = r.anchor.day
		}
		if r.anchor.clock != midnight.clock {
			j.DayStarts = time.Time{}.Add(r.anchor.clock).Format(withoutZero)
		}
	}
	for _, m := range r.filter {
		list := &j.Where
		if m.not {
			list = &j.WhereNot
		}
		if *list == nil {
			*list = make(map[string][]string)
		}
		(*list)[m.tag] = m.values
	}
	for _, b := range r.bounds {
		if j.WhereAmount == nil {
			j.WhereAmount = make(map[string]string)
		}
		name := "at_least"
		if b.most {
			name = "at_most"
		}
		j.WhereAmount[name] = b.amount.Decimal()
	}
	if r.atMost != (Money{}) {
		j.AtMost = r.atMost.Decimal()
	}
	return j
}

// UnmarshalJSON reads the form that docs/budget.schema.json describes. It is strict: an unknown
// field, a field twice, or one that does not belong to the kind of its rule is [ErrBudget], and so
// is every other mistake. The message begins with the place, such as rules[2].window, and b stays
// as it is. Amounts may be strings or numbers without an exponent, and are exact.
func (b *Budget) UnmarshalJSON(text []byte) error {
	p := &budgetReader{}
	var read Budget
	if !json.Valid(text) {
		p.fail("", "it is no JSON")
	}
	fields := p.object("", text, "budget", "currency", "rules", "plans")
	if p.err == nil {
		read.Name, read.Currency = p.text("budget", fields["budget"]), p.text("currency", fields["currency"])
		if _, ok := MinorUnits(read.Currency); !ok {
			p.fail("currency", "%.8q is not a code of ISO 4217 with a minor unit; write it like EUR, or USD:8 to count by 8 decimal places", read.Currency)
		}
	}
	if p.err == nil && fields["rules"] == nil {
		p.fail("", "rules are missing")
	}
	p.currency = read.Currency
	read.Rules = p.rules("rules", fields["rules"])
	if plans := fields["plans"]; plans != nil && p.err == nil {
		read.Plans = make(map[string][]Rule)
		sets := p.object("plans", plans)
		for _, name := range slices.Sorted(maps.Keys(sets)) {
			read.Plans[name] = p.rules("plans."+name, sets[name])
		}
	}
	if p.err != nil {
		return p.err
	}
	if _, err := read.check(); err != nil {
		return err
	}
	*b = read
	return nil
}

// budgetReader reads the parts of a budget, and keeps the first error.
type budgetReader struct {
	at       string // the rule that is read
	currency string
	err      error
}

func (p *budgetReader) fail(field, format string, args ...any) {
	if p.err != nil {
		return
	}
	place := p.at
	if place != "" && field != "" {
		place += "."
	}
	if place += field; place != "" {
		place += ": "
	}
	p.err = fmt.Errorf("spend: %w: %s"+format, append([]any{ErrBudget, place}, args...)...)
}

// object returns the members of an object, which are among those known.
func (p *budgetReader) object(field string, raw []byte, known ...string) map[string]json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		p.fail(field, "write fields as name: value")
		return nil
	}
	members := make(map[string]json.RawMessage)
	for d.More() {
		t, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			p.fail(field, "%w", err)
			return nil
		}
		name := t.(string)
		in := field
		if in != "" {
			in += "."
		}
		switch {
		case known != nil && !slices.Contains(known, name):
			p.fail(in+name, "unknown field %.40q", name)
		case members[name] != nil:
			p.fail(in+name, "field %.40q is given twice", name)
		}
		members[name] = value
	}
	return members
}

// list returns the elements of an array; none, if there is no array.
func (p *budgetReader) list(field string, raw json.RawMessage) (list []json.RawMessage) {
	if raw != nil && (raw[0] != '[' || json.Unmarshal(raw, &list) != nil) {
		p.fail(field, "it must be a list")
	}
	return list
}

// text returns a string, or a number as it is written.
func (p *budgetReader) text(field string, raw json.RawMessage) (s string) {
	var n json.Number
	switch {
	case len(raw) > 0 && raw[0] == '"':
		_ = json.Unmarshal(raw, &s) // the decoder has checked it
	case json.Unmarshal(raw, &n) == nil:
		s = n.String()
	}
	if s == "" {
		p.fail(field, "a value is missing")
	}
	return s
}

func (p *budgetReader) rules(field string, raw json.RawMessage) (list []Rule) {
	for i, r := range p.list(field, raw) {
		p.at = fmt.Sprintf("%s[%d]", field, i)
		list = append(list, p.rule(r))
	}
	p.at = ""
	return list
}

func (p *budgetReader) rule(raw json.RawMessage) (rule Rule) {
	known := []string{"name", "where", "where_not", "where_amount", "per", "at_most", "counts_credits", "counts_declines", "counts_voids", "thresholds"}
	for kind, others := range kinds {
		known = append(append(known, kind), others...)
	}
	f := p.object("", raw, known...)
	kind := ""
	for k := range kinds {
		switch {
		case f[k] == nil:
		case kind != "":
			p.fail(k, "a rule is either %s or %s", kind, k)
		default:
			kind = k
		}
	}
	if p.err != nil {
		return rule
	}
	if kind == "" {
		p.fail("", "a rule needs one of leaky, rolling, calendar, per_transaction, lifetime and count, with its limit")
		return rule
	}
	for _, others := range kinds {
		for _, field := range others {
			if f[field] != nil && !slices.Contains(kinds[kind], field) {
				p.fail(field, "a %s rule has no %s", kind, field)
			}
		}
	}
	need := func(field string) string {
		if f[field] == nil {
			p.fail("", "a %s rule needs %s", kind, field)
			return ""
		}
		return p.text(field, f[field])
	}
	name := need("name")
	limit := func() Money { return p.amount(kind, f[kind], kind == "count") }
	switch kind {
	case "leaky":
		rule = Leaky(name, limit(), p.time("drains_in", need("drains_in")))
	case "rolling":
		rule = Rolling(name, limit(), p.time("window", need("window")))
	case "calendar":
		rule = Calendar(name, limit(), p.period(need("period")), p.zone(need("zone")))
	case "per_transaction":
		rule = PerTransaction(name, limit())
	case "lifetime":
		rule = Lifetime(name, limit())
	case "count":
		switch n := limit().Minor; {
		case f["window"] == nil && f["period"] != nil:
			rule = CountPer(name, n, p.period(need("period")), p.zone(need("zone")))
		case f["period"] != nil || f["zone"] != nil:
			p.fail("window", "a count has either a window, or a period with its zone")
		default:
			rule = Count(name, n, p.time("window", need("window")))
		}
	}
	rule = p.anchored(rule, f)
	rule = p.where("where", f["where"], rule, Rule.Matching)
	rule = p.where("where_not", f["where_not"], rule, Rule.NotMatching)
	if f["where_amount"] != nil {
		bounds := p.object("where_amount", f["where_amount"], "at_least", "at_most")
		if m := bounds["at_least"]; m != nil {
			rule = rule.MatchingAtLeast(p.amount("where_amount.at_least", m, false))
		}
		if m := bounds["at_most"]; m != nil {
			rule = rule.MatchingAtMost(p.amount("where_amount.at_most", m, false))
		}
	}
	if f["at_most"] != nil {
		rule = rule.AtMost(p.amount("at_most", f["at_most"], kind == "count"))
	}
	if f["per"] != nil {
		rule = rule.Per(p.text("per", f["per"]))
	}
	for field, set := range map[string]func(Rule) Rule{
		"counts_credits": Rule.CountsCredits, "counts_declines": Rule.CountsDeclines, "counts_voids": Rule.CountsVoids,
	} {
		switch string(f[field]) {
		case "true":
			rule = set(rule)
		case "false", "":
		default:
			p.fail(field, "%.40s is neither true nor false", f[field])
		}
	}
	var percent []int
	for _, t := range p.list("thresholds", f["thresholds"]) {
		n, err := strconv.Atoi(p.text("thresholds", t))
		if err != nil {
			p.fail("thresholds", "%.40s is no whole number of percent", t)
		}
		percent = append(percent, n)
	}
	return rule.Thresholds(percent...)
}

func (p *budgetReader) anchored(rule Rule, f map[string]json.RawMessage) Rule {
	if f["week_starts"] != nil {
		s := p.text("week_starts", f["week_starts"])
		day := time.Sunday
		for day <= time.Saturday && !strings.EqualFold(day.String(), s) {
			day++
		}
		if rule = rule.WeekStarting(day); day > time.Saturday {
			p.fail("week_starts", "%.40q is no day of the week", s)
		}
	}
	if f["month_starts"] != nil {
		s := p.text("month_starts", f["month_starts"])
		day, err := strconv.Atoi(s)
		if rule = rule.MonthStarting(day); err != nil {
			p.fail("month_starts", "%.40q is no day of the month, from 1 to 31", s)
		}
	}
	if f["day_starts"] != nil {
		s := p.text("day_starts", f["day_starts"])
		at, err := time.Parse("15:04", s)
		if err != nil {
			at, err = time.Parse(withoutZero, s)
		}
		clock := at.Sub(time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC))
		if rule = rule.DayStarting(clock); err != nil {
			p.fail("day_starts", "%.40q is no time of the day like 04:00", s)
		}
	}
	return rule
}

// amount reads an amount in the currency of the budget, or a number of spends.
func (p *budgetReader) amount(field string, raw json.RawMessage, spends bool) (m Money) {
	s := p.text(field, raw)
	if p.err != nil {
		return m
	}
	var err error
	if !spends {
		m, err = ParseMoney(s, p.currency)
	} else if m.Minor, err = strconv.ParseInt(s, 10, 64); err != nil {
		err = fmt.Errorf("%.40q is not a number of spends", s)
	}
	if err != nil {
		p.fail(field, "%w", err)
	}
	return m
}

func (p *budgetReader) time(field, s string) time.Duration {
	if p.err != nil {
		return 0
	}
	d, err := duration.Parse(s)
	if err != nil {
		p.fail(field, "%w", err)
	}
	return d
}

func (p *budgetReader) period(s string) Period {
	i := slices.Index(periods, s)
	if i < int(Day) {
		p.fail("period", "%.40q must be day, week, month or year", s)
	}
	return Period(max(i, 0)) //nolint:gosec // an index of a short list
}

func (p *budgetReader) zone(s string) *time.Location {
	zone, err := time.LoadLocation(s)
	if err == nil && s == "Local" {
		err = errors.New("it differs between machines")
	}
	if err != nil {
		p.fail("zone", "%.60q is unknown; write it like Europe/Berlin", s)
	}
	return zone
}

// where reads the tags that restrict a rule. Each tag has a value or a list of values.
func (p *budgetReader) where(field string, raw json.RawMessage, rule Rule, restrict func(r Rule, tag string, values ...string) Rule) Rule {
	if raw == nil {
		return rule
	}
	if raw[0] != '{' || string(raw) == "{}" {
		p.fail(field, "write %s as tag: value, or tag: [value, value]", field)
		return rule
	}
	tags := p.object(field, raw)
	for tag, v := range tags {
		in := field + "." + tag
		if v[0] != '[' {
			rule = restrict(rule, tag, p.text(in, v))
			continue
		}
		var values []string
		for _, one := range p.list(in, v) {
			values = append(values, p.text(in, one))
		}
		rule = restrict(rule, tag, values...)
	}
	return rule
}
