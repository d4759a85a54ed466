package spend

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/calendar"
	"github.com/brimgo/brim/internal/strictjson"
	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/store"
)

// The fields of the JSON form of a rule, beside its limit.
var (
	commonFields = []string{"name", "where", "where_not", "where_amount", "at_most", "shadow"}
	spanFields   = [...][]string{figures.Leaks: {"drains_in"}, figures.Rolls: {"window"}, figures.Repeats: {"period", "zone"}, figures.Forever: nil}
	anchorFields = []string{"week_starts", "month_starts", "day_starts"} // without effect in a count
	changeFields = []string{"counts_credits", "counts_declines", "counts_voids", "per", "thresholds"}
)

// needs returns the fields that a rule of the kind has beside its name and its limit.
func needs(k figures.Kind) []string { return spanFields[figures.Kinds[k].Span] }

// takes reports whether a rule of the kind may have the field.
func takes(k figures.Kind, field string) bool {
	d := &figures.Kinds[k]
	switch field {
	case "counts_credits": // units leave a window one by one, whether a credit has paid for them or not
		return !d.Spends && d.Span != figures.Rolls && d.Span != figures.Alone
	case "counts_declines", "counts_voids":
		return d.Spends
	case "per":
		return d.Span >= figures.Rolls
	case "thresholds":
		return d.Span != figures.Alone
	}
	return field == d.Limit || slices.Contains(commonFields, field) || slices.Contains(needs(k), field) ||
		slices.Contains(anchorFields, field) && (d.Span == figures.Repeats || d.Spends)
}

// maxWindow keeps the sums of times in range.
const maxWindow = 100 * 366 * 24 * time.Hour

// mostThresholds is the largest number of thresholds of a rule.
const mostThresholds = 10

// scaled returns the rule with its amounts in the scale of the budget's currency.
func (r Rule) scaled(currency string) (figures.Rule, error) {
	spec := r.spec
	amounts := []*money.Money{&spec.Limit, &spec.AtMost}
	spec.Bounds = slices.Clone(spec.Bounds) // the caller's rule keeps its own
	for i := range spec.Bounds {
		amounts = append(amounts, &spec.Bounds[i].Amount)
	}
	for _, m := range amounts {
		if m.Currency == currency || money.ISO(m.Currency) != money.ISO(currency) {
			continue // check refuses another currency
		}
		scaled, err := Money(*m).In(currency)
		if err != nil {
			return spec, fmt.Errorf("rule %.64q: %w", spec.Name, err)
		}
		*m = money.Money(scaled)
	}
	return spec, nil
}

// ruleCheck finds mistakes in a rule.
type ruleCheck struct {
	*figures.Rule
	currency string // of the budget
}

// bad returns a mistake in a field.
func (r ruleCheck) bad(field, format string, args ...any) error {
	return strictjson.At(fmt.Errorf("%s rule %.64q: "+format, append([]any{figures.Kinds[r.Kind].Name, r.Name}, args...)...), field)
}

func (r ruleCheck) check() error {
	if r.Kind == 0 {
		return errors.New("a rule is empty; make it with Rolling, Calendar or another function of the package")
	}
	if !validName(r.Name) || strings.HasPrefix(r.Name, decide.FrozenPrefix) || strings.HasPrefix(r.Name, decide.ShadowPrefix) {
		return r.bad("name", "its name must be 1 to 64 bytes of UTF-8 without control characters, and must not begin with %q or %q",
			decide.FrozenPrefix, decide.ShadowPrefix)
	}
	for _, check := range [...]func() error{r.limit, r.most, r.credits, r.per, r.thresholds, r.span, r.anchor, r.filter, r.bounds} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (r ruleCheck) limit() error {
	limit := figures.Kinds[r.Kind].Limit
	switch {
	case r.Spends() && r.Limit.Minor <= 0:
		return r.bad(limit, "its number of spends is %d; it must be positive", r.Limit.Minor)
	case !r.Spends() && r.Limit.Currency != r.currency:
		return r.bad(limit, "its currency is %.8q and the budget's is %q: %w", r.Limit.Currency, r.currency, ErrCurrency)
	case r.Limit.Minor < 0 || r.Limit.Minor == 0 && r.Span() != figures.Alone:
		return r.bad(limit, "its amount is %v; it must be positive: %w", r.Limit, ErrAmount)
	}
	return nil
}

// most finds a mistake in the largest limit of an account.
func (r ruleCheck) most() error {
	switch {
	case r.AtMost != money.Money{} && (r.AtMost.Minor < r.Limit.Minor || r.AtMost.Currency != r.Limit.Currency):
		return r.bad("at_most", "an account's own limit is at most %v; that must be the rule's %v or more", r.AtMost, r.Limit)
	case r.Span() == figures.Leaks && r.Most() > store.MaxAmount:
		return r.bad(figures.Kinds[r.Kind].Limit, "its amount is %v; a leaky bucket holds at most 2^53 minor units, which are %v: %w",
			Money{r.Most(), r.currency}, Money{store.MaxAmount, r.currency}, ErrAmount)
	}
	return nil
}

// credits finds a modification that has no meaning for credits, declines and voids.
func (r ruleCheck) credits() error {
	switch {
	case r.Credits && !r.Spends() && r.Span() == figures.Rolls:
		return r.bad("counts_credits", "CountsCredits has no meaning there: units leave the window whether a credit has paid for them or not; "+
			"use Calendar, Lifetime or Leaky")
	case r.Credits && !takes(r.Kind, "counts_credits"):
		return r.bad("counts_credits", "CountsCredits has no meaning there: a credit takes back no spend, and belongs to none")
	case r.Declines && !takes(r.Kind, "counts_declines"):
		return r.bad("counts_declines", "CountsDeclines has a meaning only for Count and CountPer")
	case r.Voids && !takes(r.Kind, "counts_voids"):
		return r.bad("counts_voids", "CountsVoids has a meaning only for Count and CountPer")
	}
	return nil
}

func (r ruleCheck) per() error {
	switch {
	case r.Each && r.Span() == figures.Leaks:
		return r.bad("per", "it has one bucket, and Per would need one for each value, with a history of its own; "+
			"use Rolling, or give each value an account and name it in Request.Also")
	case r.Each && !takes(r.Kind, "per"):
		return r.bad("per", "Per has no meaning there: the rule judges each spend alone")
	case r.Each && !validTag(r.Per):
		return r.bad("per", "Per needs a tag: 1 to %d bytes of UTF-8 without control characters", maxTag)
	}
	return nil
}

func (r ruleCheck) thresholds() error {
	switch {
	case len(r.Thresholds) > 0 && !takes(r.Kind, "thresholds"):
		return r.bad("thresholds", "Thresholds have no meaning there: the rule judges each spend alone")
	case len(r.Thresholds) > mostThresholds:
		return r.bad("thresholds", "it has %d thresholds; it may have %d", len(r.Thresholds), mostThresholds)
	}
	for _, p := range r.Thresholds {
		if p < 1 || p > 100 {
			return r.bad("thresholds", "a threshold is %d percent; it must be from 1 to 100", p)
		}
	}
	return nil
}

// span finds a mistake in the length of a rule.
func (r ruleCheck) span() error {
	if r.Span() != figures.Leaks && r.Span() != figures.Rolls {
		return nil
	}
	if r.Length < time.Microsecond || r.Length > maxWindow {
		return r.bad(needs(r.Kind)[0], "its %s is %v; it must be from a microsecond to 100 years", needs(r.Kind)[0], r.Length)
	}
	if r.Span() == figures.Leaks {
		for _, n := range [...]int64{r.Limit.Minor, r.Most()} {
			if err := r.Bucket(n).Validate(); err != nil {
				return r.bad(figures.Kinds[r.Kind].Limit, "%w", err)
			}
		}
	}
	return nil
}

// anchor finds a mistake in the periods of a rule.
func (r ruleCheck) anchor() error {
	switch a := r.Anchor; {
	case r.Span() != figures.Repeats:
		return nil
	case r.Period < calendar.Day || r.Period > calendar.Year || r.Zone == nil:
		return r.bad("period", "it needs a period of Day, Week, Month or Year, and a *time.Location")
	case a.Week < time.Sunday || a.Week > time.Saturday:
		return r.bad("week_starts", "its weeks start on day %d; that must be a day of the week", a.Week)
	case a.Day < 1 || a.Day > 31:
		return r.bad("month_starts", "its months start on day %d; that must be from 1 to 31", a.Day)
	case a.Clock < 0 || a.Clock >= 24*time.Hour || a.Clock%time.Microsecond != 0:
		return r.bad("day_starts", "its days start at %v; that must be a time of the day in whole microseconds", a.Clock)
	}
	return nil
}

func (r ruleCheck) filter() error {
	for _, m := range r.Filter {
		where := "where"
		if m.Not {
			where = "where_not"
		}
		if m.Tag == "" || len(m.Values) == 0 {
			return strictjson.At(r.bad(m.Tag, "a filter needs a tag and at least one value"), where)
		}
		for _, value := range m.Values {
			if err := checkTags(map[string]string{m.Tag: value}); err != nil {
				return strictjson.At(r.bad(m.Tag, "a filter would match nothing: %w", err), where)
			}
		}
	}
	return nil
}

func (r ruleCheck) bounds() error {
	for _, b := range r.Bounds {
		switch {
		case b.Amount.Currency != r.currency:
			return r.bad("where_amount", "it matches amounts in %.8q and the budget is in %q: %w", b.Amount.Currency, r.currency, ErrCurrency)
		case b.Amount.Minor <= 0:
			return r.bad("where_amount", "it matches spends by an amount of %v; that must be positive: %w", b.Amount, ErrAmount)
		}
	}
	return nil
}
