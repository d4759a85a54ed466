// Package budgetfile reads spend budgets from YAML. It is strict. An unknown field, or a field
// that does not belong to the kind of its rule, is an error that names the line.
package budgetfile

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/spend"
)

// ErrFormat reports a file that is not a budget. The message of an error contains the line.
var ErrFormat = errors.New("not a budget file")

// File is the content of a budget file: the budget, and the options with the budgets of further
// accounts that a request may name.
type File struct {
	Budget  spend.Budget
	Options spend.Options
}

// maxSize is the largest accepted file in bytes, far above the size of any real budget.
const maxSize = 1 << 20

// Read reads a budget file.
func Read(r io.Reader) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSize {
		return nil, fmt.Errorf("%w: it is larger than a megabyte", ErrFormat)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrFormat, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) != 1 {
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	}
	p := &parser{}
	file := &File{}
	file.Budget = p.budget(doc.Content[0], map[string]func(*yaml.Node){
		"hold_ttl": func(n *yaml.Node) { file.Options.HoldTTL = p.time(n) },
		"keep_ids": func(n *yaml.Node) { file.Options.KeepIDs = p.time(n) },
		"also": func(n *yaml.Node) {
			for _, b := range p.list(n) {
				file.Options.Budgets = append(file.Options.Budgets, p.budget(b, nil))
			}
		},
	})
	if p.err != nil {
		return nil, p.err
	}
	return file, nil
}

// parser reads parts of the document, and keeps the first error.
type parser struct{ err error }

func (p *parser) fail(n *yaml.Node, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: line %d: "+format, append([]any{ErrFormat, n.Line}, args...)...)
	}
}

// fields calls the function in known for each field of a mapping.
func (p *parser) fields(n *yaml.Node, known map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		p.fail(n, "write fields as name: value")
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		set := known[key.Value]
		switch {
		case set == nil:
			p.fail(key, "unknown field %.40q", key.Value)
		case seen[key.Value]:
			p.fail(key, "field %q is given twice", key.Value)
		default:
			seen[key.Value] = true
			set(value)
		}
	}
}

// list returns the elements of a sequence.
func (p *parser) list(n *yaml.Node) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		p.fail(n, "write a list with a dash in front of each element")
		return nil
	}
	return n.Content
}

// text returns a scalar as it is written, so that 1000.10 does not become a float.
func (p *parser) text(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		p.fail(n, "a value is missing")
		return ""
	}
	return n.Value
}

// time reads a duration.
func (p *parser) time(n *yaml.Node) time.Duration {
	d, err := duration.Parse(p.text(n))
	if err != nil {
		p.fail(n, "%w", err)
	}
	return d
}

// truth reads true or false.
func (p *parser) truth(n *yaml.Node) bool {
	switch p.text(n) {
	case "true":
		return true
	case "false":
		return false
	}
	p.fail(n, "%.40q is neither true nor false", n.Value)
	return false
}

// budget reads a budget. more are the fields that only the main budget of a file has.
func (p *parser) budget(n *yaml.Node, more map[string]func(*yaml.Node)) (b spend.Budget) {
	var rules *yaml.Node
	known := map[string]func(*yaml.Node){
		"budget":   func(n *yaml.Node) { b.Name = p.text(n) },
		"currency": func(n *yaml.Node) { b.Currency = p.text(n) },
		"rules":    func(n *yaml.Node) { rules = n },
	}
	for name, set := range more {
		known[name] = set
	}
	p.fields(n, known)
	if _, ok := spend.MinorUnits(b.Currency); !ok {
		p.fail(n, "currency %.8q is not a code of ISO 4217 with a minor unit; write it like EUR, or USD:8 to count by 8 decimal places", b.Currency)
		return b
	}
	if rules == nil {
		p.fail(n, "rules are missing")
		return b
	}
	for _, r := range p.list(rules) {
		b.Rules = append(b.Rules, p.rule(r, b.Currency))
	}
	return b
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

var periods = map[string]spend.Period{"day": spend.Day, "week": spend.Week, "month": spend.Month, "year": spend.Year}

func (p *parser) rule(n *yaml.Node, currency string) (rule spend.Rule) {
	var name, kind string
	var limit *yaml.Node
	var where, whereNot, whereAmount, atMost *yaml.Node
	var credits bool
	var per *yaml.Node
	rest := make(map[string]*yaml.Node)
	known := map[string]func(*yaml.Node){
		"name":           func(n *yaml.Node) { name = p.text(n) },
		"where":          func(n *yaml.Node) { where = n },
		"where_not":      func(n *yaml.Node) { whereNot = n },
		"at_most":        func(n *yaml.Node) { atMost = n },
		"per":            func(n *yaml.Node) { per = n },
		"where_amount":   func(n *yaml.Node) { whereAmount = n },
		"counts_credits": func(n *yaml.Node) { credits = p.truth(n) },
	}
	for k, others := range kinds {
		known[k] = func(n *yaml.Node) {
			if kind != "" {
				p.fail(n, "a rule is either %s or %s", kind, k)
			}
			kind, limit = k, n
		}
		for _, field := range others {
			known[field] = func(n *yaml.Node) { rest[field] = n }
		}
	}
	p.fields(n, known)
	if limit == nil {
		p.fail(n, "a rule needs one of leaky, rolling, calendar, per_transaction, lifetime and count, with its limit")
		return rule
	}
	allowed := kinds[kind]
	for field, at := range rest {
		found := false
		for _, a := range allowed {
			found = found || a == field
		}
		if !found {
			p.fail(at, "a %s rule has no %s", kind, field)
		}
	}
	need := func(field string) *yaml.Node {
		if rest[field] == nil {
			p.fail(n, "a %s rule needs %s", kind, field)
			return &yaml.Node{Kind: yaml.ScalarNode, Line: n.Line, Value: "?"}
		}
		return rest[field]
	}
	money := func(n *yaml.Node) spend.Money {
		m, err := spend.ParseMoney(p.text(n), currency)
		if err != nil {
			p.fail(n, "%w", err)
		}
		return m
	}
	times := func(n *yaml.Node) spend.Money {
		i, err := strconv.ParseInt(p.text(n), 10, 64)
		if err != nil {
			p.fail(n, "%.40q is not a number of spends", n.Value)
		}
		return spend.Money{Minor: i}
	}
	amount := money
	if kind == "count" {
		amount = times
	}
	switch kind {
	case "leaky":
		rule = spend.Leaky(name, amount(limit), p.time(need("drains_in")))
	case "rolling":
		rule = spend.Rolling(name, amount(limit), p.time(need("window")))
	case "calendar":
		rule = spend.Calendar(name, amount(limit), p.period(need("period")), p.zone(need("zone")))
	case "per_transaction":
		rule = spend.PerTransaction(name, amount(limit))
	case "lifetime":
		rule = spend.Lifetime(name, amount(limit))
	case "count":
		n := amount(limit).Minor
		switch window := rest["window"]; {
		case window == nil && rest["period"] != nil:
			rule = spend.CountPer(name, n, p.period(rest["period"]), p.zone(need("zone")))
		case window != nil && len(rest) > 1:
			p.fail(window, "a count has either a window, or a period with its zone")
		default:
			rule = spend.Count(name, n, p.time(need("window")))
		}
	}
	if rest["week_starts"] != nil {
		rule = p.weekStarting(rule, rest["week_starts"])
	}
	if n := rest["month_starts"]; n != nil {
		day, err := strconv.Atoi(p.text(n))
		if err != nil {
			p.fail(n, "month_starts is %.40q; it must be a day of the month, from 1 to 31", n.Value)
		}
		rule = rule.MonthStarting(day)
	}
	if n := rest["day_starts"]; n != nil {
		at, err := time.Parse("15:04", p.text(n))
		if err != nil {
			p.fail(n, "day_starts is %.40q; it must be a time like 04:00", n.Value)
		}
		rule = rule.DayStarting(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute)
	}
	if where != nil {
		rule = p.where(where, rule, spend.Rule.Matching)
	}
	if whereNot != nil {
		rule = p.where(whereNot, rule, spend.Rule.NotMatching)
	}
	if whereAmount != nil {
		p.fields(whereAmount, map[string]func(*yaml.Node){
			"at_least": func(n *yaml.Node) { rule = rule.MatchingAtLeast(money(n)) },
			"at_most":  func(n *yaml.Node) { rule = rule.MatchingAtMost(money(n)) },
		})
	}
	if atMost != nil {
		rule = rule.AtMost(amount(atMost))
	}
	if per != nil {
		rule = rule.Per(p.text(per))
	}
	if credits {
		rule = rule.CountsCredits()
	}
	return rule
}

func (p *parser) period(n *yaml.Node) spend.Period {
	period, ok := periods[p.text(n)]
	if !ok {
		p.fail(n, "period is %.40q; it must be day, week, month or year", n.Value)
	}
	return period
}

func (p *parser) zone(n *yaml.Node) *time.Location {
	zone, err := time.LoadLocation(p.text(n))
	if err != nil || n.Value == "Local" {
		p.fail(n, "zone %.60q is unknown; write it like Europe/Berlin", n.Value)
	}
	return zone
}

func (p *parser) weekStarting(rule spend.Rule, week *yaml.Node) spend.Rule {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.EqualFold(day.String(), p.text(week)) {
			return rule.WeekStarting(day)
		}
	}
	p.fail(week, "week_starts is %.40q; it must be a day of the week", week.Value)
	return rule
}

// where reads the tags that restrict a rule, by Matching or NotMatching. Each tag has a value or a
// list of values.
func (p *parser) where(
	n *yaml.Node, rule spend.Rule, restrict func(r spend.Rule, tag string, values ...string) spend.Rule,
) spend.Rule {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		p.fail(n, "write where and where_not as tag: value, or tag: [value, value]")
		return rule
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		var values []string
		if v := n.Content[i+1]; v.Kind == yaml.SequenceNode {
			for _, one := range v.Content {
				values = append(values, p.text(one))
			}
		} else {
			values = []string{p.text(v)}
		}
		rule = restrict(rule, n.Content[i].Value, values...)
	}
	return rule
}
