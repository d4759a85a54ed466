package main

import (
	"fmt"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/spendreport"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
)

// answerSpend prints a decision, and returns its exit status as an error.
func (a *app) answerSpend(id string, d spend.Decision, done string) error {
	if a.json {
		if err := a.printJSON(spendreport.NewDecision(id, d)); err != nil {
			return err
		}
	} else if err := a.describeSpend(id, d, done); err != nil {
		return err
	}
	switch {
	case d.Approved:
		return nil
	case d.RetryAfter >= brim.Never:
		return status(exitNever)
	}
	return status(exitRefused)
}

// describeSpend prints a decision in words. done is the word for an approved one.
func (a *app) describeSpend(id string, d spend.Decision, done string) error {
	again := ""
	if d.Replayed {
		again = ", as it was answered before"
	}
	if !d.Approved {
		done = "declined"
	}
	amount := ""
	if d.Approved && done == "approved" && d.Amount != (spend.Money{}) { // of upto and get, whose amount the caller cannot know
		amount = " " + d.Amount.String()
	}
	if !d.Approved && d.Canceled {
		again = ", because it was canceled"
	}
	fmt.Fprintf(a.stdout, "%s%s%s: %s\n", a.verdict(d.Approved, done), amount, again, printable(id))
	t := table.New(make([]table.Column, 3)...)
	figures := func(u spend.Usage) string {
		return fmt.Sprintf("%s of %s used, %s held", u.Used.Decimal(), u.Limit, u.Held.Decimal())
	}
	for _, x := range d.Declines {
		if x.Frozen != "" {
			t.Add("  "+printable(x.Account.Name), "is frozen", printable(x.Frozen))
			continue
		}
		when := "never fits by waiting"
		if x.RetryAfter < brim.Never {
			now := a.now()
			asked, format := now, "would fit in %s, at %s"
			if d.Replayed {
				asked, format = d.At, "would fit %s later, at %s"
			}
			if x.AtLeast {
				format += " or later"
			}
			when = fmt.Sprintf(format, span(x.RetryAfter), clockTime(asked.Add(x.RetryAfter), now))
		}
		t.Add("  "+ruleText(x.Usage), figures(x.Usage), when)
	}
	if d.Approved { // a decline tells the rules that refused
		for _, x := range d.Remaining {
			t.Add("  "+ruleText(x), fmt.Sprintf("%s of %s left", x.Remaining.Decimal(), x.Limit))
		}
	}
	for _, x := range d.Shadow {
		t.Add("  "+ruleText(x), figures(x), "is in the shadow, and would decline")
	}
	for _, x := range d.Crossed {
		t.Add("  "+ruleText(x.Usage), figures(x.Usage), fmt.Sprintf("has reached %d %%", x.Share))
	}
	return a.printTables(t)
}

// ruleText names the rule, and the value of its tag if the figures belong to one.
func ruleText(u spend.Usage) string {
	if u.Tag == "" {
		return printable(u.Rule)
	}
	return printable(u.Rule) + " " + printable(u.Tag) + "=" + printable(u.Value)
}
