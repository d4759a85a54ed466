package spendtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/brimgo/brim/spend"
)

// megabytes is text of 10 MB, and kilobytes of 10 KB.
var megabytes, kilobytes = strings.Repeat("m", 10<<20), strings.Repeat("k", 10<<10)

// badCase is a call with a mistake.
type badCase struct {
	name string
	want error
	call func(*badInput) error
}

// badInput is the budgets of the case, with a hold, a charge and a decline.
type badInput struct {
	*spend.Budgets
	s                    *fixture
	hold, spent, refused string // IDs
	id                   string // of the call
}

// changed returns a request for 5 units of the account, with a mistake.
func (b *badInput) changed(mistake func(*spend.Request)) spend.Request {
	r := spend.Request{ID: b.id, Account: "card", Amount: money(5)}
	mistake(&r)
	return r
}

func only(_ spend.Decision, err error) error { return err }

// badRequests are requests for money with a mistake. They are sent by each call that takes a
// Request.
func badRequests() []struct {
	name    string
	want    error
	mistake func(*spend.Request)
} {
	amount := func(m spend.Money) func(*spend.Request) { return func(r *spend.Request) { r.Amount = m } }
	tags := func(tags map[string]string) func(*spend.Request) {
		return func(r *spend.Request) { r.Tags = tags }
	}
	many := make(map[string]string)
	for i := range 17 {
		many[fmt.Sprint(i)] = "x"
	}
	return []struct {
		name    string
		want    error
		mistake func(*spend.Request)
	}{
		{"zero", spend.ErrAmount, amount(money(0))},
		{"negative", spend.ErrAmount, amount(money(-1))},
		{"the lowest amount", spend.ErrAmount, amount(money(math.MinInt64))},
		{"beyond the scale", spend.ErrAmount, amount(spend.Money{Minor: 5_001, Currency: "EUR:5"})},
		{"beyond 2^53", spend.ErrAmount, amount(money(1<<53 + 1))},
		{"another currency", spend.ErrCurrency, amount(spend.Money{Minor: 5, Currency: "USD"})},
		{"another currency with a scale", spend.ErrCurrency, amount(spend.Money{Minor: 5, Currency: "USD:8"})},
		{"no such currency", spend.ErrCurrency, amount(spend.Money{Minor: 5, Currency: "EURO"})},
		{"no such scale", spend.ErrCurrency, amount(spend.Money{Minor: 5, Currency: "EUR:10"})},
		{"no currency", spend.ErrCurrency, amount(spend.Money{Minor: 5})},
		{"a currency of 10 MB", spend.ErrCurrency, amount(spend.Money{Minor: -5, Currency: megabytes})},
		{"an account without a name", spend.ErrRequest, func(r *spend.Request) { r.Account = "" }},
		{"an account of 10 MB", spend.ErrRequest, func(r *spend.Request) { r.Account = megabytes }},
		{"an account with a line break", spend.ErrRequest, func(r *spend.Request) { r.Account = "a\nb" }},
		{"a budget that is not there", spend.ErrRequest, func(r *spend.Request) {
			r.Also = []spend.Account{{Budget: megabytes, Name: "a"}}
		}},
		{"an account twice", spend.ErrRequest, func(r *spend.Request) {
			r.Also = []spend.Account{{Budget: "bad input", Name: "card"}}
		}},
		{"too many accounts", spend.ErrRequest, func(r *spend.Request) { r.Also = make([]spend.Account, 16) }},
		{"a tag value of 10 MB", spend.ErrRequest, tags(map[string]string{"note": megabytes})},
		{"a tag name of 10 MB", spend.ErrRequest, tags(map[string]string{megabytes: "x"})},
		{"a tag without a name", spend.ErrRequest, tags(map[string]string{"": "x"})},
		{"a tag that is not UTF-8", spend.ErrRequest, tags(map[string]string{"note": "\xff"})},
		{"a tag with NUL", spend.ErrRequest, tags(map[string]string{"note": "\x00"})},
		{"17 tags", spend.ErrRequest, tags(many)},
	}
}

// badCases returns the calls with mistakes.
func badCases() (list []badCase) {
	for _, bad := range badRequests() {
		for name, send := range map[string]func(*badInput, spend.Request) error{
			"Charge":    func(b *badInput, r spend.Request) error { return only(b.Charge(ctx, r)) },
			"Authorize": func(b *badInput, r spend.Request) error { return only(b.Authorize(ctx, r)) },
			"Record":    func(b *badInput, r spend.Request) error { return only(b.Record(ctx, r)) },
			"ChargeAll": func(b *badInput, r spend.Request) error { return b.ChargeAll(ctx, []spend.Request{r})[0].Err },
			"UpTo": func(b *badInput, r spend.Request) error {
				return only(b.UpTo(ctx, spend.UpToRequest{Request: r, Least: r.Amount}))
			},
			"AbleToAccept": func(b *badInput, r spend.Request) error { return only(b.AbleToAccept(ctx, r)) },
		} {
			list = append(list, badCase{name + ": " + bad.name, bad.want, func(b *badInput) error {
				return send(b, b.changed(bad.mistake))
			}})
		}
	}
	add := func(name string, want error, call func(*badInput) error) {
		list = append(list, badCase{name, want, call})
	}
	for name, ttl := range map[string]time.Duration{
		"in the past": -time.Hour, "of a nanosecond": 1, "of 200 years": 200 * 366 * days,
	} {
		add("a TTL "+name, spend.ErrRequest, func(b *badInput) error {
			return only(b.Authorize(ctx, b.changed(func(r *spend.Request) { r.TTL = ttl })))
		})
		add("Extend by a TTL "+name, spend.ErrRequest, func(b *badInput) error {
			return only(b.Extend(ctx, spend.ExtendRequest{ID: b.id, HoldID: b.hold, TTL: ttl}))
		})
	}
	for name, dated := range map[string]func(now time.Time) time.Time{
		"in the future": func(now time.Time) time.Time { return now.Add(time.Second) },
		"in 1683":       func(time.Time) time.Time { return time.UnixMicro(-1<<53-1).AddDate(-1, 0, 0) },
		"in 12026":      func(now time.Time) time.Time { return now.AddDate(10_000, 0, 0) },
		"long ago":      wrapped,
	} {
		add("Dated "+name, spend.ErrRequest, func(b *badInput) error {
			return only(b.Record(ctx, b.changed(func(r *spend.Request) { r.Dated = dated(b.s.clock.now()) })))
		})
	}
	upTo := func(least spend.Money) func(*badInput) error {
		return func(b *badInput) error {
			return only(b.UpTo(ctx, spend.UpToRequest{Request: b.changed(func(*spend.Request) {}), Least: least}))
		}
	}
	add("Least of nothing", spend.ErrAmount, upTo(money(0)))
	add("Least above the amount", spend.ErrAmount, upTo(money(6)))
	add("Least in another currency", spend.ErrCurrency, upTo(spend.Money{Minor: 5, Currency: "USD"}))
	return append(append(list, badFollowUps()...), badUpkeep()...)
}

// wrapped returns the time 2^64 microseconds before t. In 64 bits, both have the same number of
// microseconds since 1970.
func wrapped(t time.Time) time.Time {
	return time.Unix(t.Unix()-18_446_744_073_709, int64(t.Nanosecond())-551_616_000)
}

// badFollowUps are requests about an earlier one, with a mistake.
func badFollowUps() (list []badCase) {
	// followUps send a request about an earlier one, for an amount.
	followUps := map[string]func(b *badInput, id, earlier string, m spend.Money) error{
		"Increase": func(b *badInput, id, earlier string, m spend.Money) error {
			return only(b.Increase(ctx, spend.IncreaseRequest{ID: id, HoldID: earlier, Amount: m}))
		},
		"Decrease": func(b *badInput, id, earlier string, m spend.Money) error {
			return only(b.Decrease(ctx, spend.DecreaseRequest{ID: id, HoldID: earlier, Amount: m}))
		},
		"Capture": func(b *badInput, id, earlier string, m spend.Money) error {
			return only(b.Capture(ctx, spend.CaptureRequest{ID: id, HoldID: earlier, Amount: m}))
		},
		"Refund": func(b *badInput, id, earlier string, m spend.Money) error {
			return only(b.Refund(ctx, spend.RefundRequest{ID: id, SpendID: earlier, Amount: m}))
		},
		"Void": func(b *badInput, id, earlier string, _ spend.Money) error {
			return only(b.Void(ctx, spend.VoidRequest{ID: id, HoldID: earlier}))
		},
		"Extend": func(b *badInput, id, earlier string, _ spend.Money) error {
			return only(b.Extend(ctx, spend.ExtendRequest{ID: id, HoldID: earlier}))
		},
	}
	for name, send := range followUps {
		add := func(mistake string, want error, call func(*badInput) error) {
			list = append(list, badCase{name + ": " + mistake, want, call})
		}
		earlier := func(b *badInput) string {
			if name == "Refund" {
				return b.spent
			}
			return b.hold
		}
		add("no ID", spend.ErrRequest, func(b *badInput) error { return send(b, "", earlier(b), money(1)) })
		add("an ID of 10 KB", spend.ErrRequest, func(b *badInput) error { return send(b, kilobytes, earlier(b), money(1)) })
		add("an earlier ID of 10 KB", spend.ErrRequest, func(b *badInput) error { return send(b, b.id, kilobytes, money(1)) })
		add("an unknown ID", spend.ErrUnknownSpend, func(b *badInput) error { return send(b, b.id, "unknown", money(1)) })
		add("a declined request", spend.ErrUnknownSpend, func(b *badInput) error { return send(b, b.id, b.refused, money(1)) })
		if name != "Refund" {
			add("a spend that was never held", spend.ErrHoldEnded, func(b *badInput) error { return send(b, b.id, b.spent, money(1)) })
		}
		if name == "Void" || name == "Extend" {
			continue
		}
		for mistake, m := range map[string]spend.Money{
			"zero": money(0), "negative": money(-1), "beyond the scale": {Minor: 1_001, Currency: "EUR:5"}, "beyond 2^53": money(1<<53 + 1),
		} {
			add(mistake, spend.ErrAmount, func(b *badInput) error { return send(b, b.id, earlier(b), m) })
		}
		for mistake, currency := range map[string]string{
			"another currency": "USD", "no currency": "", "no such currency": "EURO", "a currency of 10 MB": megabytes,
		} {
			add(mistake, spend.ErrCurrency, func(b *badInput) error {
				return send(b, b.id, earlier(b), spend.Money{Minor: 1, Currency: currency})
			})
		}
	}
	for name, want := range map[string]error{"Decrease": spend.ErrNotHeld, "Capture": spend.ErrNotHeld, "Refund": spend.ErrNotCaptured} {
		list = append(list, badCase{name + ": more than there is", want, func(b *badInput) error {
			if name == "Refund" {
				return followUps[name](b, b.id, b.spent, money(31))
			}
			return followUps[name](b, b.id, b.hold, money(101))
		}})
	}
	for name, id := range map[string]string{"no ID": "", "an ID of 10 KB": kilobytes, "an ID that is not UTF-8": "\xff"} {
		list = append(list,
			badCase{"Charge: " + name, spend.ErrRequest, func(b *badInput) error {
				return only(b.Charge(ctx, b.changed(func(r *spend.Request) { r.ID = id })))
			}},
			badCase{"Get: " + name, spend.ErrRequest, func(b *badInput) error { _, err := b.Get(ctx, id); return err }},
		)
	}
	return append(list, badCase{"Get: an unknown ID", spend.ErrUnknownSpend, func(b *badInput) error {
		_, err := b.Get(ctx, "unknown")
		return err
	}})
}

// badUpkeep are mistakes about accounts and rules.
func badUpkeep() (list []badCase) {
	add := func(name string, want error, call func(*badInput) error) {
		list = append(list, badCase{name, want, call})
	}
	for name, c := range map[string]struct {
		want  error
		limit spend.RuleLimit
	}{
		"an unknown rule":     {spend.ErrBudget, spend.RuleLimit{Rule: "unknown", Amount: money(1)}},
		"a rule of 10 MB":     {spend.ErrRequest, spend.RuleLimit{Rule: megabytes, Amount: money(1)}},
		"above AtMost":        {spend.ErrBudget, spend.RuleLimit{Rule: "month", Amount: money(1001)}},
		"negative":            {spend.ErrAmount, spend.RuleLimit{Rule: "month", Amount: money(-1)}},
		"beyond the scale":    {spend.ErrAmount, spend.RuleLimit{Rule: "month", Amount: spend.Money{Minor: 1, Currency: "EUR:3"}}},
		"another currency":    {spend.ErrCurrency, spend.RuleLimit{Rule: "month", Amount: spend.Money{Minor: 1, Currency: "USD"}}},
		"a currency of 10 MB": {spend.ErrCurrency, spend.RuleLimit{Rule: "month", Amount: spend.Money{Minor: -1, Currency: megabytes}}},
		"an end in 2256":      {spend.ErrRequest, spend.RuleLimit{Rule: "month", Amount: money(1), Until: time.UnixMicro(1<<53).AddDate(1, 0, 0)}},
		"an end long ago":     {spend.ErrRequest, spend.RuleLimit{Rule: "month", Amount: money(1), Until: wrapped(time.Unix(1_800_000_000, 0))}},
	} {
		add("SetLimits: "+name, c.want, func(b *badInput) error {
			return only(b.SetLimits(ctx, spend.LimitsRequest{ID: b.id, Account: "card", Limits: []spend.RuleLimit{
				{Rule: "smooth", Amount: money(7)}, c.limit, // the first is good, and is not set either
			}}))
		})
	}
	add("SetLimits: none", spend.ErrRequest, func(b *badInput) error {
		return only(b.SetLimits(ctx, spend.LimitsRequest{ID: b.id, Account: "card"}))
	})
	for name, r := range map[string]spend.FreezeRequest{
		"a reason of 10 MB":   {Account: "card", Reason: megabytes},
		"an account of 10 MB": {Account: megabytes, Reason: "lost"},
		"an ID of 10 KB":      {ID: kilobytes, Account: "card", Reason: "lost"},
	} {
		send := func(b *badInput) spend.FreezeRequest {
			r := r
			if r.ID == "" {
				r.ID = b.id
			}
			return r
		}
		add("Freeze: "+name, spend.ErrRequest, func(b *badInput) error { return only(b.Freeze(ctx, send(b))) })
		add("Unfreeze: "+name, spend.ErrRequest, func(b *badInput) error { return only(b.Unfreeze(ctx, send(b))) })
	}
	add("Freeze: no reason", spend.ErrRequest, func(b *badInput) error {
		return only(b.Freeze(ctx, spend.FreezeRequest{ID: b.id, Account: "card"}))
	})
	for name, account := range map[string]string{"no name": "", "10 MB": megabytes, "NUL": "\x00"} {
		add("Remaining of an account: "+name, spend.ErrRequest, func(b *badInput) error { _, err := b.Remaining(ctx, account); return err })
		add("Holds of an account: "+name, spend.ErrRequest, func(b *badInput) error { _, err := b.Holds(ctx, account); return err })
		add("Limits of an account: "+name, spend.ErrRequest, func(b *badInput) error { _, err := b.Limits(ctx, account); return err })
		add("Verify of an account: "+name, spend.ErrRequest, func(b *badInput) error { return b.Verify(ctx, account) })
		add("History of an account: "+name, spend.ErrRequest, func(b *badInput) error {
			for _, err := range b.History(ctx, account, nil) {
				return err
			}
			return nil
		})
	}
	add("a budget that is not there", spend.ErrRequest, func(b *badInput) error { _, err := b.ForBudget(megabytes); return err })
	for name, rule := range map[string]spend.Rule{
		"a zone that is not there":  spend.Calendar("day", money(1), spend.Day, nil),
		"a count without a zone":    spend.CountPer("day", 1, spend.Day, nil),
		"a bucket beyond 2^53":      spend.Leaky("leaky", money(1<<53+1), days),
		"a rule of 10 MB":           spend.Lifetime(megabytes, money(1)),
		"a filter of 10 MB":         spend.Lifetime("ever", money(1)).Matching(megabytes, "x"),
		"a filter value of 10 MB":   spend.Lifetime("ever", money(1)).NotMatching("category", megabytes),
		"a filter that is not text": spend.Lifetime("ever", money(1)).Matching("category", "\xff"),
	} {
		add("New: "+name, spend.ErrBudget, func(b *badInput) error {
			_, err := spend.New(b.s.l, spend.Budget{Name: "bad input", Currency: "EUR", Rules: []spend.Rule{rule}}, nil)
			return err
		})
	}
	return list
}

// badInputCases send every mistake to a ledger.
func badInputCases() []testCase {
	return []testCase{
		{
			name: "bad input", why: "a mistake is a documented error, and nothing of the request is applied",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days), spend.Leaky("smooth", money(1000), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				hold, spent, refused := s.request(100), s.request(30), s.request(1001)
				s.yes(b.Authorize(ctx, hold))
				s.yes(b.Charge(ctx, spent))
				if d, err := b.Charge(ctx, refused); err != nil || d.Approved {
					s.Fatalf("%+v, %v", d, err)
				}
				in := &badInput{Budgets: b, s: s, hold: hold.ID, spent: spent.ID, refused: refused.ID}
				before := in.picture()
				for _, c := range badCases() {
					in.id = s.id()
					err := c.call(in)
					if !errors.Is(err, c.want) {
						s.Errorf("%s: %.300v; want %v", c.name, err, c.want)
						continue
					}
					if n := len(err.Error()); n > 600 {
						s.Errorf("%s: the error has %d bytes", c.name, n)
					}
				}
				if after := in.picture(); after != before {
					s.Errorf("the mistakes have changed the ledger from\n%s\nto\n%s", before, after)
				}
				in.id = fmt.Sprint(s.Name(), "/", s.ids) // of the last mistakes
				if d := s.yes(b.Charge(ctx, in.changed(func(*spend.Request) {}))); d.Replayed {
					s.Error("the ledger has kept the ID of a mistake")
				}
				s.sound(b, 4)
			},
		},
		{
			name: "an account that was never used", why: "accounts need no registration: one without entries has used nothing",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				s.shows(b, 0, 0, 1000)
				holds, err := b.Holds(ctx, "card")
				limits, err2 := b.Limits(ctx, "card")
				if err := errors.Join(err, err2, b.Verify(ctx, "card")); err != nil || len(holds)+len(limits) != 0 {
					s.Errorf("holds %+v, limits %+v, %v", holds, limits, err)
				}
				for e, err := range b.Export(ctx, nil) {
					s.Errorf("a question has left the entry %+v, %v", e, err)
				}
			},
		},
	}
}

// picture describes the ledger and the figures of the account.
func (b *badInput) picture() string {
	b.s.Helper()
	var list []any
	for e, err := range b.Export(ctx, nil) {
		if err != nil {
			b.s.Fatal(err)
		}
		list = append(list, e)
	}
	remaining, err := b.Remaining(ctx, "card")
	holds, err2 := b.Holds(ctx, "card")
	limits, err3 := b.Limits(ctx, "card")
	text, err4 := json.MarshalIndent(append(list, remaining, holds, limits), "", " ")
	if err := errors.Join(err, err2, err3, err4); err != nil {
		b.s.Fatal(err)
	}
	return string(text)
}
