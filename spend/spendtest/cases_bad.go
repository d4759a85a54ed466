package spendtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// megabytes is text of 10 MB, and kilobytes of 10 KB.
var megabytes, kilobytes = strings.Repeat("m", 10<<20), strings.Repeat("k", 10<<10)

// payments are the methods that take a [spend.Request], and corrections those that take an amount
// of an earlier one.
var (
	payments    = []string{"charge", "authorize", "record", "together", "upTo", "able"}
	corrections = []string{"increase", "decrease", "capture", "refund", "reverse"}
	followUps   = append([]string{"void", "extend"}, corrections...)
	upkeeps     = []string{"freeze", "unfreeze", "mend", "limit", "plan", "cancel"}
)

// secret is the account of bad requests. No error names it.
const secret = "4111 1111 1111 1111"

func only(_ spend.Decision, err error) error { return err }

// mistake is a change of a good request, and the error that it must cause.
type mistake struct {
	name    string
	want    error
	methods []string
	change  func(*Request)
}

// badAmounts are mistakes of every amount of an earlier request, and of every new one.
func badAmounts() (list []mistake) {
	for name, m := range map[string]spend.Money{
		"zero": {Currency: "EUR"}, "negative": money(-1), "the lowest amount": money(math.MinInt64),
		"beyond the scale": {Minor: 5_001, Currency: "EUR:5"}, "beyond 2^53": money(1<<53 + 1),
	} {
		list = append(list, mistake{name, spend.ErrAmount, nil, func(r *Request) { r.Amount = m }})
	}
	for name, currency := range map[string]string{
		"another currency": "USD", "another currency with a scale": "USD:8", "no such currency": "EURO",
		"no such scale": "EUR:10", "no currency": "", "a currency of 10 MB": megabytes,
	} {
		change := func(r *Request) { r.Amount = spend.Money{Minor: 5, Currency: currency} }
		list = append(list, mistake{name, spend.ErrCurrency, nil, change})
	}
	for i := range list {
		list[i].methods = slices.Concat(payments, corrections)
		if list[i].name == "zero" {
			list[i].methods = slices.DeleteFunc(list[i].methods, func(method string) bool { return method == "authorize" })
		}
	}
	return list
}

// badRequests are mistakes of requests for money.
func badRequests(s *fixture) (list []mistake) {
	add := func(name string, want error, methods []string, change func(*Request)) {
		list = append(list, mistake{name, want, methods, change})
	}
	for name, id := range map[string]string{"no ID": "", "an ID of 10 KB": kilobytes, "an ID that is not UTF-8": "\xff"} {
		add(name, spend.ErrRequest, slices.Concat(payments[:5], followUps, upkeeps),
			func(r *Request) { r.ID = id })
	}
	for name, account := range map[string]string{
		"no name": "", "10 MB": megabytes, "a line break": secret + "\n", "NUL": secret + "\x00",
	} {
		add("an account: "+name, spend.ErrRequest, slices.Concat(payments, upkeeps),
			func(r *Request) { r.Account = account })
	}
	many, names := make(map[string]string), make([]string, 17)
	var accounts []spend.Account
	for i := range names {
		names[i] = fmt.Sprint(i)
		many[names[i]] = "x"
		accounts = append(accounts, spend.Account{Budget: s.c.name, Name: names[i]})
	}
	for name, also := range map[string][]spend.Account{
		"a budget that is not there": {{Budget: megabytes, Name: "a"}}, "too many": accounts[:16],
		"an account twice": {{Budget: s.c.name, Name: secret}}, "a line break": {{Budget: s.c.name, Name: secret + "\n"}},
	} {
		add("also: "+name, spend.ErrRequest, payments, func(r *Request) { r.Also = also })
	}
	for name, tags := range map[string]map[string]string{
		"a value of 10 MB": {"note": megabytes}, "a name of 10 MB": {megabytes: "x"}, "no name": {"": "x"},
		"not UTF-8": {"note": "\xff"}, "NUL": {"note": "\x00"}, "17": many,
		"a value of 257 bytes": {"note": kilobytes[:257]}, "a name of 65 bytes": {kilobytes[:65]: "x"},
	} {
		add("tags: "+name, spend.ErrRequest, payments, func(r *Request) { r.Tags = tags })
	}
	for name, tags := range map[string][]string{
		"a name of 10 MB": {megabytes}, "no name": {"trace", ""}, "NUL": {"note\x00"}, "17": names,
	} {
		add("varying: "+name, spend.ErrRequest, payments, func(r *Request) { r.Varying = tags })
	}
	for name, ttl := range map[string]time.Duration{
		"in the past": -time.Hour, "of a nanosecond": 1, "of 200 years": 200 * 366 * days,
	} {
		add("a TTL "+name, spend.ErrRequest, []string{"authorize", "extend"}, func(r *Request) { r.TTL = ttl })
	}
	add("no such fate at the expiry", spend.ErrRequest, []string{"authorize", "extend"}, func(r *Request) { r.OnExpiry = 3 })
	now := s.clock.now()
	for name, dated := range map[string]time.Time{
		"in the future": now.Add(time.Microsecond), "in 1683": time.UnixMicro(-1<<53-1).AddDate(-1, 0, 0),
		"in 12026": now.AddDate(10_000, 0, 0), "long ago": wrapped(now),
	} {
		add("dated "+name, spend.ErrRequest, []string{"record", "authorize"}, func(r *Request) { r.Dated, r.Force = dated, true })
	}
	for least, want := range map[spend.Money]error{
		money(0): spend.ErrAmount, money(6): spend.ErrAmount, {Minor: 5, Currency: "USD"}: spend.ErrCurrency,
	} {
		add(fmt.Sprint("least ", least), want, []string{"upTo"}, func(r *Request) { r.Least = least })
	}
	for name, c := range map[string]struct {
		of   string
		want error
	}{
		"none": {"", spend.ErrRequest}, "of 10 KB": {kilobytes, spend.ErrRequest}, "unknown": {"unknown", spend.ErrUnknownSpend},
		"a declined request": {s.named("refused"), spend.ErrUnknownSpend},
	} {
		add("an earlier ID: "+name, c.want, followUps, func(r *Request) { r.Of = c.of })
	}
	add("a spend that was never held", spend.ErrHoldEnded, followUps[:5], func(r *Request) { r.Of = s.named("spent") })
	add("more than is held", spend.ErrExceeds, []string{"decrease", "capture"}, func(r *Request) { r.Amount = money(101) })
	add("a negative amount that is final", spend.ErrAmount, []string{"capture"}, func(r *Request) { r.Amount, r.Final = money(-1), true })
	add("more than was captured", spend.ErrExceeds, []string{"refund"}, func(r *Request) { r.Amount = money(31) })
	add("more than was refunded", spend.ErrExceeds, []string{"reverse"}, func(*Request) {})
	for plan, want := range map[string]error{"unknown": spend.ErrBudget, megabytes: spend.ErrRequest, "\x00": spend.ErrRequest} {
		add(fmt.Sprintf("a plan %.10q", plan), want, []string{"plan"}, func(r *Request) { r.Plan = plan })
	}
	reason := func(reason string) func(*Request) { return func(r *Request) { r.Reason = reason } }
	add("a reason of 10 MB", spend.ErrRequest, []string{"freeze", "unfreeze", "mend"}, reason(megabytes))
	add("no reason", spend.ErrRequest, []string{"freeze", "mend"}, reason(""))
	return list
}

// wrapped returns the time 2^64 microseconds before t. In 64 bits, both have the same number of
// microseconds since 1970.
func wrapped(t time.Time) time.Time {
	return time.Unix(t.Unix()-18_446_744_073_709, int64(t.Nanosecond())-551_616_000)
}

// badLimits are mistakes of an account's own limits. The first limit is good, and is not set
// either.
func badLimits() (list []mistake) {
	good := spend.RuleLimit{Rule: "smooth", Amount: money(7)}
	add := func(name string, want error, limits ...spend.RuleLimit) {
		change := func(r *Request) { r.Limits = limits }
		list = append(list, mistake{name, want, []string{"limit"}, change})
	}
	add("none", spend.ErrRequest)
	add("a rule twice", spend.ErrRequest, good, good)
	add("an unknown rule", spend.ErrBudget, good, spend.RuleLimit{Rule: "unknown", Amount: money(1)})
	add("a rule of 10 MB", spend.ErrRequest, good, spend.RuleLimit{Rule: megabytes, Amount: money(1)})
	add("amount and default", spend.ErrRequest, good, spend.RuleLimit{Rule: "month", Amount: money(1), Default: true})
	for name, until := range map[string]time.Time{
		"in 2256": time.UnixMicro(1<<53).AddDate(1, 0, 0), "long ago": wrapped(time.Unix(1_800_000_000, 0)),
	} {
		add("an end "+name, spend.ErrRequest, good, spend.RuleLimit{Rule: "month", Amount: money(1), Until: until})
	}
	for amount, want := range map[spend.Money]error{
		money(1001): spend.ErrBudget, money(-1): spend.ErrAmount, {Minor: 1, Currency: "EUR:3"}: spend.ErrAmount,
		{Minor: 1, Currency: "USD"}: spend.ErrCurrency, {Minor: -1, Currency: megabytes}: spend.ErrCurrency,
	} {
		add(fmt.Sprintf("%.20v", amount), want, good, spend.RuleLimit{Rule: "month", Amount: amount})
	}
	return list
}

// badQuestions are mistakes that no request has.
func badQuestions(s *fixture) map[string]error {
	errs := make(map[string]error)
	for name, account := range map[string]string{"no name": "", "10 MB": megabytes, "NUL": "\x00"} {
		_, errs["Remaining: "+name] = s.b.Remaining(ctx, account)
		_, errs["Holds: "+name] = collect(s.b.Holds(ctx, account))
		_, errs["Limits: "+name] = s.b.Limits(ctx, account)
		_, errs["Plan: "+name] = s.b.Plan(ctx, account)
		errs["Verify: "+name] = s.b.Verify(ctx, account)
		for _, err := range s.b.History(ctx, account, nil) {
			errs["History: "+name] = err
		}
	}
	for name, id := range map[string]string{"no ID": "", "an ID of 10 KB": kilobytes, "an ID that is not UTF-8": "\xff"} {
		_, errs["Get: "+name] = s.b.Get(ctx, id)
	}
	for name, o := range map[string]*spend.HistoryOptions{
		"a negative limit": {Limit: -1}, "a negative position": {Before: spend.Entry{Seq: -1}},
	} {
		for _, err := range s.b.History(ctx, "card", o) {
			errs["History: "+name] = err
		}
	}
	_, errs["ForBudget"] = s.b.ForBudget(ctx, megabytes)
	return errs
}

// badInputCases send every mistake to a ledger.
func badInputCases() []testCase {
	return []testCase{{
		name: "bad input", why: "a mistake is a documented error without the account, and nothing of the request is applied",
		rules: []spend.Rule{month(1000), spend.Leaky("smooth", money(1000), 30*days)},
		steps: []step{
			authorize("hold", 100), charge(30).as("spent"), charge(1001).as("refused").no(store.Never, "month", "smooth"),
			check(func(s *fixture) {
				before, last := s.picture(), ""
				wrong := func(call string, err, want error) {
					s.Helper()
					text := fmt.Sprint(err)
					if !errors.Is(err, want) || len(text) > 600 || strings.Contains(text, secret) {
						s.Errorf("%s: %.300s; want %v, in 600 bytes and without the account", call, text, want)
					}
				}
				for _, m := range slices.Concat(badAmounts(), badRequests(s), badLimits()) {
					for _, method := range m.methods {
						last = s.named("")
						r := Request{
							Method: method, ID: last, Of: s.named("hold"), Account: secret, Amount: money(5), Least: money(5),
							Reason: "lost", Limits: []spend.RuleLimit{{Rule: "month", Amount: money(7)}},
						}
						if method == "refund" || method == "reverse" {
							r.Of = s.named("spent")
						}
						m.change(&r)
						if method == "upTo" && m.want != nil && r.Least == money(5) {
							r.Least = r.Amount
						}
						wrong(method+": "+m.name, only(r.Send(ctx, s.b)), m.want)
					}
				}
				for call, err := range badQuestions(s) {
					wrong(call, err, spend.ErrRequest)
				}
				_, err := s.b.Get(ctx, "unknown")
				wrong("Get of an unknown ID", err, spend.ErrUnknownSpend)
				if after := s.picture(); after != before {
					s.Errorf("the mistakes have changed the ledger from\n%s\nto\n%s", before, after)
				}
				d, err := Request{Method: "charge", ID: last, Account: "card", Amount: money(5)}.Send(ctx, s.b)
				if err != nil || d.Replayed {
					s.Errorf("the ID of a mistake: %+v, %v; want that it is free", d, err)
				}
			}), sound(4),
		},
	}, {
		name: "too many values of a tag", why: "a decision reads and writes the figures of all values, so they must stay few; money that has moved counts",
		rules:  []spend.Rule{month(100_000), spend.Rolling("each", money(10), 30*days).Per("merchant")},
		others: map[string][]spend.Rule{"old": {month(100_000)}},
		steps: []step{
			merchants(1000), atMerchant(2000).no(30*days, "each"), able(1).with("merchant", "m2000").no(30*days, "each"),
			record(5).as("r").with("merchant", "m2000"), record(11).with("merchant", "m2001"),
			authorize("a", 2).with("merchant", "m2002").forced(), shows(1018-2, 2, 98_982), together(1000, 16, 2),
			atMerchant(7), shows(1017, 2, 98_981), after(days), capture("a", 2), refund("r", 5), together(1000, 13, 0),
			atMerchant(2000).no(29*days, "each"), sound(1008), after(29 * days), atMerchant(2000), shows(1, 0, 99_999), shows(1, 0, 9, "each"), sound(1009),
			after(30 * days), by("old"), merchants(1100), by(""), atMerchant(7), together(1000, 100, 0), shows(1101, 0, 98_899), sound(2110),
			atMerchant(1000).no(30*days, "each"), after(30 * days), charge(1).with("merchant", "new"), shows(1, 0, 9, "each"), sound(2112),
		},
	}}
}

// atMerchant charges at a merchant.
func atMerchant(i int) call { return charge(1).with("merchant", fmt.Sprint("m", i)) }

// merchants charges at so many merchants, together.
func merchants(n int) check {
	return func(s *fixture) {
		s.Helper()
		var requests []spend.Request
		for i := range n {
			requests = append(requests, atMerchant(i).in(s).money())
		}
		for i, a := range s.b.ChargeAll(ctx, requests) {
			if a.Err != nil || !a.Decision.Approved {
				s.Fatalf("value %d: %+v", i+1, a)
			}
		}
	}
}

// together wants that a rule with Per counts so many merchants one by one, and these figures of all
// others. A merchant whose spends leave the window at that moment counts until others are counted.
func together(own int, used, held int64) check {
	return func(s *fixture) {
		s.Helper()
		remaining, err := s.b.Remaining(ctx, "card")
		want := spend.Usage{
			Account: remaining[0].Account, Rule: "each", Tag: "merchant", Others: true,
			Limit: money(10), Used: money(used), Held: money(held), Remaining: money(0),
		}
		got := remaining[len(remaining)-1]
		if got.GrowsAt = (time.Time{}); err != nil || len(remaining) != own+2 || got != want {
			s.Errorf("%d figures, the last of them %+v, %v; want %d, and %+v", len(remaining), got, err, own+2, want)
		}
	}
}

// picture describes the ledger and the figures of the card.
func (s *fixture) picture() string {
	s.Helper()
	_, entries := s.exported(spend.Entry{})
	remaining, err := s.b.Remaining(ctx, "card")
	holds, err2 := collect(s.b.Holds(ctx, "card"))
	limits, err3 := s.b.Limits(ctx, "card")
	text, err4 := json.MarshalIndent([]any{entries, remaining, holds, limits}, "", " ")
	if err := errors.Join(err, err2, err3, err4); err != nil {
		s.Fatal(err)
	}
	return string(text)
}
