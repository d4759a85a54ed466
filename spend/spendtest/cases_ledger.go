package spendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// repeat makes n requests for a unit, of which each is changed by the function.
func repeat(n int, each func(c call, i int) call) check {
	return func(s *fixture) {
		s.Helper()
		for i := range n {
			each(charge(1), i).do(s)
		}
	}
}

func same(c call, _ int) call { return c }

// exported returns the account and number of each entry of an export, and the entries.
func (s *fixture) exported(after spend.Entry) (list []string, entries []spend.Entry) {
	s.Helper()
	for e, err := range s.b.Export(ctx, after) {
		if err != nil {
			s.Fatal(err)
		}
		list, entries = append(list, fmt.Sprint(e.Name, " ", e.Seq)), append(entries, e)
	}
	return list, entries
}

// apart charges each of the IDs or accounts, which differ by little, and wants that none is taken
// for another.
func apart(change func(c call, name string) call) check {
	return func(s *fixture) {
		long := strings.Repeat("x", 20)
		names := []string{"a", "A", "a ", " a", "\u00e9", "e\u0301", "%", "_", long + "a", long + "b", long}
		for i, name := range names {
			c := charge(int64(i + 1))
			change(c, name).do(s)
			if c = change(c, name); c.Account == "card" {
				continue
			}
			if list, err := s.b.Remaining(ctx, c.Account); err != nil || list[0].Used.Minor != int64(i+1) {
				s.Errorf("account %d shows %+v, %v; want %d used", i, list, err, i+1)
			}
		}
	}
}

// pagesOfEveryLength reads the card's entries in the order of their dates by pages of every length.
func pagesOfEveryLength(s *fixture) {
	key := s.c.name + "/card"
	all, err := s.l.History(ctx, key, ledger.Position{}, 1000)
	if err != nil {
		s.Fatal(err)
	}
	slices.SortFunc(all, func(x, y ledger.Entry) int { return x.Place().Compare(y.Place()) })
	last := all[len(all)-1].Dated
	for limit := range len(all) + 2 {
		for upto := last - 1; limit > 0 && upto <= last+1; upto++ {
			want := slices.DeleteFunc(slices.Clone(all), func(e ledger.Entry) bool { return e.Dated > upto })
			var got []ledger.Entry
			place := ledger.EndOf(all[0].Dated - 1)
			err := s.l.View(ctx, &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
				for place.Compare(ledger.EndOf(upto)) < 0 {
					page, through, err := snap.Entries(key, place, upto, limit)
					if err != nil {
						return nil, err
					}
					got = append(got, page...)
					next := slices.IndexFunc(all, func(e ledger.Entry) bool { return e.Place().Compare(through) > 0 })
					whole := next < 0 || all[next].Dated > through.Dated // no further entry has the date
					if len(page) > limit || through.Compare(place) <= 0 || whole != (through == ledger.EndOf(through.Dated)) {
						return nil, fmt.Errorf("a page of %d entries after %d ends at %d", len(page), place, through)
					}
					if place = through; next >= 0 && len(got) != next {
						return nil, fmt.Errorf("%d entries up to %d; want %d", len(got), through, next)
					}
				}
				return nil, nil
			}})
			if d := differ.Fields(got, want); err != nil || d != "" {
				s.Fatalf("pages of %d up to %d: %v\n%s", limit, upto, err, d)
			}
		}
	}
}

// ledgerCases are about the data that a ledger keeps, and how it lists them.
func ledgerCases() []testCase {
	window := []spend.Rule{month(100_000)}
	var many []spend.Rule
	for i := range 20 {
		many = append(many, spend.Lifetime(fmt.Sprint("rule-", i, strings.Repeat("-", 40)), money(int64(100+i))))
	}
	return []testCase{
		{
			name: "history tells what was asked", rules: []spend.Rule{month(1000)},
			why: "what other rules would have decided follows from the amounts and the lifetime that a request asked for, and not from the answer alone",
			steps: []step{
				charge(500), authorize("h", 100).lasting(2 * days), upTo(900).as("u").down(money(200)), void("h"),
				authorize("i", 60), increase("i", 90).down(money(10)), increase("i", 30).down(money(20)).no(7*days, "month"),
				upTo(50).down(money(20)).no(7*days, "month"), extend("i", 9*days), extend("i", days), decrease("i", 20), upTo(20).down(money(5)),
				after(10 * days), authorize("z", 1).lasting(days),
				check(func(s *fixture) {
					var got []string
					for _, e := range s.history(nil) {
						got = append(got, fmt.Sprintf("%s %v/%v/%v %v %v", e.Kind, e.Amount.Minor, e.Asked, e.Least, e.SpendAmount, e.TTL))
					}
					slices.Reverse(got)
					if want := []string{
						"spend 500/0/0 5.00 EUR 0s",
						"authorize 100/0/0 1.00 EUR 48h0m0s",
						"spend 400/9.00 EUR/2.00 EUR 4.00 EUR 0s",
						"void 100/0/0 1.00 EUR 0s",
						"authorize 60/0/0 0.60 EUR 0s",
						"increase 40/0.90 EUR/0.10 EUR 0.60 EUR 0s",
						"decline 30/0/0.20 EUR 0 0s",
						"decline 50/0/0.20 EUR 0.20 EUR 0s",
						"extend 0/0/0 0.60 EUR 216h0m0s", "extend 0/0/0 0.60 EUR 216h0m0s",
						"extend 0/0/0 0.60 EUR 216h0m0s", "extend 0/0/0 0.60 EUR 216h0m0s",
						"extend 0/0/0 0.60 EUR 24h0m0s",
						"decrease 20/0/0 0.60 EUR 0s",
						"spend 20/0/0.05 EUR 0.20 EUR 0s",
						"expire 20/0/0 0.60 EUR 0s", "expire 60/0/0 0.60 EUR 0s", "authorize 1/0/0 0.01 EUR 24h0m0s",
					}; !slices.Equal(got, want) {
						s.Errorf("the history is\n%q\nwant\n%q", got, want)
					}
				}),
			},
		},
		{
			name: "history explains", rules: []spend.Rule{month(1000)},
			why: "the ledger lists every decision, newest first, with its changes, and the rules or the freeze that declined it",
			steps: []step{
				authorize("h", 600).with("merchant", "m"), after(time.Second), charge(500).no(7*days-time.Second, "month"),
				capture("h", 200).last(), freeze("lost"), check(func(s *fixture) {
					if d, err := charge(900).in(s).Send(ctx, s.b); err != nil || d.Approved {
						s.Errorf("a charge of a frozen account: %+v, %v", d, err)
					}
				}), check(func(s *fixture) {
					var got []string
					list := s.history(nil)
					for _, e := range list {
						got = append(got, fmt.Sprintf("%d %s %d/%d/%d %v %v %v %s", e.Seq, e.Kind, e.Amount.Minor, e.Used.Minor,
							e.Held.Minor, e.SpendAmount, e.Dated.Equal(e.At), e.Refused, e.Tags["reason"]))
					}
					if want := []string{
						"6 decline 900/0/0 9.00 EUR true [frozen: lost month] ",
						"5 freeze 0/0/0 0 true [] lost",
						"4 release 400/0/-400 6.00 EUR false [] ",
						"3 capture 200/200/-200 6.00 EUR false [] ",
						"2 decline 500/0/0 5.00 EUR true [month] ",
						"1 authorize 600/0/600 6.00 EUR true [] ",
					}; !slices.Equal(got, want) {
						s.Fatalf("history is %q; want %q", got, want)
					}
					if e := list[5]; e.RequestID != s.named("h") || e.SpendID != s.named("h") || e.Tags["merchant"] != "m" {
						s.Errorf("the first entry is %+v", e)
					}
					o := &spend.HistoryOptions{Before: spend.Entry{Seq: 3, At: s.clock.now()}, Limit: 1}
					if page := s.history(o); len(page) != 1 || page[0].Seq != 2 {
						s.Errorf("the page of one entry before entry 3 is %+v", page)
					}
				}),
			},
		},
		{
			name: "mend", rules: []spend.Rule{month(1000), spend.Lifetime("ever", money(5000))},
			why:    "an account whose time is ahead goes by the clock again, and what it spent in the future counts from now on",
			others: map[string][]spend.Rule{"week": {spend.Rolling("week", money(1000), 7*days), spend.Lifetime("ever", money(5000))}},
			steps: []step{
				charge(100), authorize("short", 50).lasting(days), after(365 * days), by("week"), charge(10), by(""),
				charge(300).as("ahead"), authorize("far", 200).lasting(7 * days), shows(310, 200, 490),
				after(days/2 - 365*days), able(491).no(372*days-days/2, "month"), mend("the clock was ahead"), shows(410, 200, 390),
				by("week"), shows(410, 200, 390), charge(5), by(""), capture("short", 50).fails(spend.ErrHoldExpired),
				capture("short", 50).forced(), charge(335), shows(800, 200, 0), charge(1).no(30*days-days/2, "month"),
				refund("ahead", 300), void("far"), shows(500, 0, 500), mend("not ahead any more"), shows(500, 0, 500), sound(14),
				after(30*days - days/2), shows(400, 0, 600), after(days / 2), shows(0, 0, 1000), shows(500, 0, 4500, "ever"),
				after(400 * days), charge(1), shows(1, 0, 999), sound(15),
			},
		},
		{
			name: "plan", rules: []spend.Rule{month(1000)},
			plans: map[string][]spend.Rule{"gold": {month(5000), spend.Count("often", 2, time.Hour)}},
			why:   "an account has the rules of its plan in every process, and no used amount is ever reset",
			steps: []step{
				charge(900), charge(200).no(30*days, "month"), hasPlan(""), plan("gold").as("up"), hasPlan("gold"),
				shows(900, 0, 4100), shows(1, 0, 1, "often"), charge(2000), charge(1).no(time.Hour, "often"),
				plan("gold").as("up").again(),
				plan("lost").fails(spend.ErrBudget), limit(spend.RuleLimit{Rule: "month", Amount: money(3000)}),
				after(time.Hour), charge(101).no(30*days-time.Hour, "month"), charge(100), plan("").as("down"),
				shows(3000, 0, -2000), charge(1).no(30*days-time.Hour, "month"), charge(1001).to("other").no(store.Never, "month"),
				plan("gold"), shows(3000, 0, 0), shows(1, 0, 1, "often"),
				check(func(s *fixture) {
					if e := s.history(nil)[0]; e.Kind != "plan" || e.Tags["plan"] != "gold" {
						s.Errorf("the last entry is %+v", e)
					}
				}), plan(""), sound(12),
			},
		},
		{
			name: "long histories are paged", rules: window, why: "no entry may be lost or repeated between two pages",
			steps: []step{
				check(func(s *fixture) {
					for range 450 {
						after(time.Minute).do(s)
						charge(1).do(s)
					}
					list := s.history(nil)
					for i := range 450 {
						if len(list) != 450 || list[i].Seq != int64(450-i) {
							s.Fatalf("%d entries of 450, and entry %d is %+v", len(list), i, list[i])
						}
					}
					for _, limit := range []int{1, 400, 401} { // some are whole pages
						if page := s.history(&spend.HistoryOptions{Limit: limit}); len(page) != limit {
							s.Errorf("a history of %d entries; want %d", len(page), limit)
						}
					}
				}),
				shows(450, 0, 99_550), after(30*days - 100*time.Minute), shows(100, 0, 99_900), sound(450), after(30 * days),
				charge(1), shows(1, 0, 99_999), sound(451),
			},
		},
		{
			name: "many entries of one date", rules: window,
			why: "a window that moves must subtract all of them, although a ledger reads them in parts",
			steps: []step{
				charge(7), after(time.Second), repeat(300, same), after(time.Second), charge(5), after(30*days - 2*time.Second),
				shows(305, 0, 99_695), after(time.Second), shows(5, 0, 99_995), charge(1), shows(6, 0, 99_994), sound(303),
			},
		},
		{
			name: "corrections of one date", rules: []spend.Rule{month(500)},
			why: "a page may end within a date, whose later corrections take back: such a RetryAfter is a lower bound",
			steps: []step{
				charge(7), after(time.Second), repeat(100, func(c call, i int) call { return c.as(fmt.Sprint("c", i)) }),
				after(time.Hour), repeat(100, func(_ call, i int) call { return refund(fmt.Sprint("c", i), 1) }),
				repeat(50, func(call, int) call { return record(1).ago(time.Hour) }), after(time.Second),
				repeat(100, func(call, int) call { return record(1).ago(time.Hour + time.Second) }), charge(3),
				shows(7+50+100+3, 0, 500-160), tries(500-160+7, 30*days-time.Hour-2*time.Second, false),
				tries(500-160+8, 30*days-time.Hour-time.Second, true), tries(500-160+158, 30*days-time.Hour-time.Second, true),
				grows(30*days - time.Hour - 2*time.Second), after(30*days - time.Hour - 2*time.Second), shows(153, 0, 347),
				tries(348, time.Second, true), grows(time.Second), after(time.Second), shows(3, 0, 497), charge(1), sound(353),
			},
		},
		{
			name: "the end of a hold among entries of its date", rules: []spend.Rule{spend.Rolling("week", money(1000), 7*days)},
			why: "a page that is read ahead may end between it and a spend of its date, which leaves the window, too",
			steps: []step{check(func(s *fixture) {
				for holds := range 4 {
					for charges := 8; charges <= 18; charges++ {
						account, start := fmt.Sprint(holds, " and ", charges), s.clock.us.Load()
						second := func(d time.Duration, n int) check {
							return func(s *fixture) { s.clock.us.Store(start + (d + time.Duration(n)*time.Second).Microseconds()) }
						}
						for i := range holds {
							authorize(fmt.Sprint(account, i), 1).to(account).lasting(days + time.Duration(charges)*time.Second).do(s)
						}
						for i := range charges {
							second(days, i+1).do(s)
							charge(1).to(account).do(s) // the last one adds the ends of holds
						}
						for i, want := range []int64{2, 2} {
							second(8*days, []int{charges - 1, 100}[i]).do(s)
							d := charge(1).to(account).decide(s)
							if err := s.b.Verify(ctx, account); err != nil || d.Remaining[0].Used.Minor != want {
								s.Errorf("%d holds, %d charges: %v used, %v; want %d", holds, charges, d.Remaining[0].Used, err, want)
							}
						}
					}
				}
			})},
		},
		{
			name: "pages of every length", rules: window,
			why: "whatever the limit, pages have every entry once, in the order of dates and numbers, and end where they say",
			steps: []step{
				repeat(6, func(_ call, i int) call { return authorize(fmt.Sprint("a", i), 2) }),
				repeat(6, func(_ call, i int) call { return capture(fmt.Sprint("a", i), 1) }), charge(1), after(time.Second),
				repeat(6, func(_ call, i int) call { return authorize(fmt.Sprint("b", i), 2) }),
				repeat(6, func(_ call, i int) call { return capture(fmt.Sprint("a", i), 1) }), charge(1), check(pagesOfEveryLength),
				after(time.Second), repeat(6, func(_ call, i int) call { return capture(fmt.Sprint("b", i), 2) }),
				record(1).ago(2 * time.Second), record(1).ago(time.Second), check(pagesOfEveryLength),
			},
		},
		{
			name: "entries of one date take each other back", rules: []spend.Rule{month(500)},
			why: "more remains when the whole of a date has left, and not when the first page of it would",
			steps: []step{
				repeat(100, func(c call, i int) call { return c.as(fmt.Sprint("c", i)) }), after(time.Second), charge(3),
				repeat(100, func(_ call, i int) call { return refund(fmt.Sprint("c", i), 1) }), grows(30 * days),
				after(30*days - time.Second), charge(2), shows(5, 0, 495), grows(time.Second), after(time.Second), shows(2, 0, 498), sound(202),
			},
		},
		{
			name: "corrections of dates that have left", rules: []spend.Rule{month(500)},
			why: "a ledger finds the entries behind many that were made in the window and count before it",
			steps: []step{
				repeat(100, func(_ call, i int) call { return authorize(fmt.Sprint("h", i), 1) }), after(days),
				repeat(100, func(_ call, i int) call { return capture(fmt.Sprint("h", i), 1) }), after(time.Second), charge(5),
				after(30*days - days), shows(5, 0, 495), grows(days), check(func(s *fixture) {
					left := days // until the charge has left
					for n := 0; ; n++ {
						d, err := able(496).in(s).Send(ctx, s.b)
						if err != nil || n > 10 || d.Approved != (left == 0) || d.RetryAfter > left || d.RetryAfter != left && !d.AtLeast {
							s.Fatalf("request %d: %+v, %v; %v too early", n, d, err, left)
						}
						if d.Approved {
							break
						}
						left -= d.RetryAfter
						after(d.RetryAfter).do(s)
					}
				}), charge(500), shows(500, 0, 0), sound(202),
			},
		},
		{
			name: "an export has every entry once", rules: window,
			why: "accounts are in byte order, entries newest first, and an export that stopped goes on after any entry",
			steps: []step{check(func(s *fixture) {
				mine, other := s.b, s.budget(spend.Budget{Name: "another export", Currency: "EUR", Rules: window})
				s.b = other
				charge(1).to("b").do(s)
				s.b = mine
				for _, account := range []string{"b", "B", "a/b", "a", "b", "\u00e9", "b"} {
					after(time.Second).do(s)
					charge(1).to(account).do(s)
				}
				want := []string{"B 1", "a 1", "a/b 1", "b 3", "b 2", "b 1", "\u00e9 1"}
				list, entries := s.exported(spend.Entry{})
				if !slices.Equal(list, want) {
					s.Fatalf("the export is %q; want %q", list, want)
				}
				for i := range entries {
					if rest, _ := s.exported(entries[i]); !slices.Equal(rest, want[i+1:]) {
						s.Errorf("after %q the export goes on with %q; want %q", want[i], rest, want[i+1:])
					}
				}
				for _, err := range s.b.Export(ctx, entries[3]) {
					if err != nil {
						s.Error(err)
					}
					break // the iterator must bear it
				}
				for e, err := range other.Export(ctx, entries[0]) {
					if !errors.Is(err, spend.ErrRequest) {
						s.Errorf("an export after an entry of another budget: %+v, %v; want ErrRequest", e, err)
					}
				}
			})},
		},
		{
			name: "an export ends with an error", why: "a list that stops early must not look whole", rules: window,
			steps: []step{charge(1).to("a"), charge(1).to("b"), check(func(s *fixture) {
				ended, cancel := context.WithCancel(ctx)
				n := 0
				for e, err := range s.b.Export(ended, spend.Entry{}) {
					switch n++; {
					case n == 1 && (err != nil || e.Name != "a"):
						s.Errorf("the first entry is %+v, %v", e, err)
					case n == 2 && (!errors.Is(err, context.Canceled) || e.Seq != 0), n > 2:
						s.Errorf("after the end of the context: %+v, %v", e, err)
					}
					cancel()
				}
				if cancel(); n != 2 {
					s.Errorf("the export yielded %d times; want an entry and an error", n)
				}
			})},
		},
		{
			name: "IDs are compared byte by byte", why: "two requests with similar IDs are two requests", rules: window,
			steps: []step{apart(func(c call, name string) call { return c.as(name) }), shows(66, 0, 99_934), sound(11)},
		},
		{
			name: "accounts are compared byte by byte", why: "nobody may spend from the account of another", rules: window,
			steps: []step{apart(func(c call, name string) call { return c.to(name) })},
		},
		{
			name: "many rules", why: "the data of an account and the answer to a request have any length", rules: many,
			steps: []step{check(func(s *fixture) {
				first, again := charge(60).as("c").decide(s), charge(60).as("c").again().decide(s)
				if d := differ.Fields(again.Remaining, first.Remaining); len(again.Remaining) != 20 || d != "" {
					s.Errorf("the retry of a charge by 20 rules has %d figures:\n%s", len(again.Remaining), d)
				}
			}), shows(60, 0, 59, "rule-19"+strings.Repeat("-", 40))},
		},
		{
			name: "values that no window needs",
			why:  "the working set of an account must not grow with its history",
			rules: []spend.Rule{
				spend.Rolling("amount", money(100), days).Per("merchant"), spend.Count("number", 5, days).Per("merchant"),
			},
			steps: []step{charge(1).with("merchant", "a"), after(2 * days), charge(1).with("merchant", "b"), check(func(s *fixture) {
				one := s.stateSize()
				repeat(300, func(c call, i int) call { return c.with("merchant", fmt.Sprintf("m%03d", i)) }).do(s)
				if n := s.stateSize(); n < 2*one {
					s.Errorf("the working set has %d bytes with 300 values and %d with one", n, one)
				}
				after(2 * days).do(s)
				charge(1).with("merchant", "m300").do(s)
				if n := s.stateSize(); n > one+16 { // the numbers of entries have become longer
					s.Errorf("the working set has %d bytes after all windows have passed; want some %d", n, one)
				}
			}), sound(303)},
		},
		{
			name: "a restart loses nothing", why: "answers, entries, spends and holds outlive the process", rules: window,
			steps: []step{
				charge(100).as("c"), authorize("h", 200).lasting(2 * days), authorize("expiring", 300).lasting(time.Hour),
				check(func(s *fixture) {
					if s.h.Reopen == nil {
						s.Skip("left out because it needs Harness.Reopen")
					}
					s.l = s.h.Reopen(s, s.l, s.clock.now)
					s.b = s.b.With(s.l)
					s.processes[""] = s.b
				}),
				shows(100, 500, 99_400), sound(3), charge(100).as("c").again(), capture("h", 150).last(), after(time.Hour),
				charge(1),
				shows(251, 0, 99_749), after(30 * days), charge(1000), shows(1000, 0, 99_000), sound(8),
			},
		},
		{
			name: "a clock before 1970", why: "the time 0 is a time like any other, and no time is another value",
			rules: []spend.Rule{
				month(1000).AtMost(money(2000)), spend.Calendar("calendar", money(1000), spend.Month, time.UTC), leaky(1024),
				spend.Lifetime("ever", money(5000)), spend.Count("often", 9, 30*days),
			},
			others: map[string][]spend.Rule{"new": {spend.Lifetime("new", money(5000))}},
			steps: []step{
				at(-100 * days), charge(100), record(7).ago(10 * days), limit(spend.RuleLimit{Rule: "month", Amount: money(900)}),
				shows(107, 0, 793), after(20 * days), shows(100, 0, 800), raise("month", 2000, 80*days),
				at(-30 * days), charge(200), check(func(s *fixture) {
					if u := s.shows(200, 0, 1800); u.GrowsAt.UnixMicro() != 0 {
						s.Errorf("GrowsAt is %v; want 1970", u.GrowsAt)
					}
				}),
				by("new"), shows(307, 0, 5000-307), by(""),
				at(-time.Hour), authorize("h", 50).lasting(time.Hour), charge(10).as("c"), charge(10).as("c").again(),
				authorize("voided", 20), void("voided"), at(-time.Microsecond), shows(210, 50, 1740),
				at(0), charge(30).as("now"), at(time.Second), shows(40, 0, 860), shows(30, 0, 970, "calendar"), refund("now", 5),
				record(1).ago(time.Second), shows(36, 0, 864), after(30*days - time.Second - time.Microsecond), shows(26, 0, 874),
				after(time.Microsecond), shows(0, 0, 900), shows(100+7+200+10+25+1, 0, 5000-343, "ever"), sound(13),
			},
		},
		{
			name: "a crowded account before 1970", rules: window,
			why: "a hold that lasts longer with others does not end at the time 0, which stands for no end",
			steps: []step{at(-10 * days), check(func(s *fixture) {
				for i := range 32 {
					authorize(fmt.Sprint("h", i), 1).lasting(20*days + time.Duration(i)*time.Hour).do(s)
				}
			}), authorize("late", 5).lasting(10*days - time.Hour), at(0), capture("late", 3), after(time.Microsecond), shows(3, 32, 99_965), sound(34)},
		},
		{
			name: "more open holds than a page", rules: window,
			why: "Holds reads a page after the last hold of the page before, in whatever order the ledger keeps holds of one expiry",
			steps: []step{check(func(s *fixture) {
				// A ledger may store an ID of each of these forms in another way.
				forms := []string{"f%07x-0000-4000-8000-000000000000", "%032x", "z%015x", "h%d"}
				want := make(map[string]bool)
				hold := func(id string, ttl time.Duration) {
					d, err := s.b.Authorize(ctx, spend.Request{ID: id, Account: "card", Amount: money(1), TTL: ttl})
					if err != nil || !d.Approved {
						s.Fatal(id, d, err)
					}
				}
				for i := range 4 * 55 {
					id := fmt.Sprintf(forms[i%len(forms)], 7919*(i+1))
					want[id] = true
					hold(id, days)
				}
				hold("last", 2*days)
				hold("first", time.Hour)
				holds, err := collect(s.b.Holds(ctx, "card"))
				if n := len(holds); err != nil || n != len(want)+2 || holds[0].ID != "first" || holds[n-1].ID != "last" {
					s.Errorf("%d holds, %v; want %d, with the first and the last at their places", n, err, len(want)+2)
					return
				}
				for _, h := range holds[1 : len(holds)-1] {
					if !want[h.ID] {
						s.Errorf("hold %s appears twice, or was never opened", h.ID)
					}
					delete(want, h.ID)
				}
			}), shows(0, 222, 100_000-222), sound(222)},
		},
		{
			name: "an account that was never used", rules: window,
			why: "accounts need no registration: one without entries has used nothing, and a question leaves nothing behind",
			steps: []step{
				shows(0, 0, 100_000), able(100_000), able(100_001).no(store.Never, "month"), prune(0, 0), sound(0),
				check(func(s *fixture) {
					holds, err := collect(s.b.Holds(ctx, "card"))
					limits, err2 := s.b.Limits(ctx, "card")
					list, _ := s.exported(spend.Entry{})
					if err := errors.Join(err, err2); err != nil || len(holds)+len(limits)+len(list) != 0 {
						s.Errorf("holds %+v, limits %+v, entries %q, %v", holds, limits, list, err)
					}
				}),
			},
		},
		{
			name: "closed", why: "a context that has ended, and a ledger that is closed, decide nothing", rules: window,
			steps: []step{check(closed)},
		},
	}
}

// pruneCases are about Prune beside rules of other processes, and rules that begin later. The
// random sequences prune too, but not in these ways.
func pruneCases() []testCase {
	single := []spend.Rule{spend.PerTransaction("single", money(1<<20))}
	yearly := map[string][]spend.Rule{"year": {
		spend.Rolling("year", money(1000), 365*days), spend.Lifetime("ever", money(1000)),
		spend.Calendar("calendar", money(1000), spend.Year, time.UTC), spend.Count("often", 9, 365*days),
	}}
	return []testCase{
		{
			name:  "prune and open holds",
			why:   "a rule that is new to the account counts the entry of a hold and that of its end, which mints alone",
			rules: []spend.Rule{month(1000)}, others: yearly,
			steps: []step{
				charge(100), after(days), authorize("h", 300).lasting(300 * days), after(days), charge(50), after(100 * days),
				prune(0, 2), by("year"), shows(50, 300, 650), by(""), increase("h", 1), by("year"), shows(50, 301, 649), by(""),
				void("h"), by("year"), shows(50, 0, 950), shows(50, 0, 950, "ever"), shows(50, 0, 950, "calendar"),
				shows(1, 0, 8, "often"), sound(5),
			},
		},
		{
			name:  "prune and corrections",
			why:   "a rule that begins later counts no refund or capture whose entry is gone; each would make room",
			rules: []spend.Rule{month(1000)}, others: yearly,
			steps: []step{
				charge(400).as("charged"), authorize("hold", 300).lasting(60 * days), after(20 * days),
				authorize("open", 50).lasting(300 * days), after(days), increase("open", 7), capture("open", 50), after(29 * days),
				refund("charged", 400), capture("hold", 100).last(), after(70 * days), prune(0, 4), by("year"), shows(50, 7, 943),
				shows(50, 7, 943, "ever"), shows(50, 7, 943, "calendar"),
				charge(944).no(200*days, "year", "ever", "calendar"), charge(943), after(365 * days), shows(0, 0, 1000), sound(8),
			},
		},
		{
			name: "prune beside an idle account",
			why:  "a figure of another process counts entries that it subtracts later; without them they stay used for ever",
			rules: []spend.Rule{
				month(10000), spend.Rolling("longer", money(10000), 80*days),
				spend.Calendar("each", money(10000), spend.Month, time.UTC).Per("merchant").CountsCredits(),
				spend.Calendar("calendar", money(10000), spend.Month, time.UTC), spend.Count("often", 10, 30*days),
				spend.CountPer("monthly", 10, spend.Month, time.UTC),
			},
			others: map[string][]spend.Rule{"job": single},
			steps: []step{
				charge(9000), after(10 * days), credit(1000), after(10 * days), charge(500), after(71 * days), by("job"),
				prune(0, 1),
				by(""), shows(0, 0, 10000), shows(500, 0, 9500, "longer"), after(4 * days), by("job"), prune(0, 0), by(""),
				shows(500, 0, 9500, "longer"), after(5 * days), shows(0, 0, 10000, "longer"), charge(10000), shows(10000, 0, 0),
				shows(10000, 0, 0, "longer"), shows(10000, 0, 0, "each"), shows(10000, 0, 0, "calendar"),
				shows(1, 0, 9, "often"), shows(1, 0, 9, "monthly"),
				// Nothing keeps the entries of an account that stays idle.
				after(200 * days), by("job"), prune(0, 3), sound(0),
			},
		},
		{
			name:  "many holds expire",
			why:   "a decision ends two of them, the figures are without all of them, and Prune ends the others",
			rules: []spend.Rule{month(1000)},
			steps: []step{
				repeat(20, func(c call, _ int) call { c.Method = "authorize"; return c.lasting(days) }), after(days),
				charge(1000), shows(1000, 0, 0, "month"), prune(18, 0), shows(1000, 0, 0, "month"), sound(20 + 20 + 1),
			},
		},
		{
			name:  "many holds end in any order",
			why:   "a ledger may keep some holds of an account apart from the others, and each ends once",
			rules: []spend.Rule{month(1000)},
			steps: []step{
				repeat(9, func(_ call, i int) call { return authorize(fmt.Sprint("h", i), 10).lasting(time.Duration(20-i) * days) }),
				void("h7"), void("h1"), capture("h8", 10).last(), capture("h0", 4), authorize("more", 10).lasting(15 * days),
				shows(14, 66, 1000-80), after(16 * days), prune(4, 0), shows(14, 26, 1000-40), capture("h2", 10).last(), void("h3"),
				after(5 * days), prune(1, 0), shows(24, 0, 1000-24), sound(10 + 2 + 2 + 4 + 1 + 1 + 1), after(100 * days), prune(0, 16),
			},
		},
		{
			name:  "pruning covers all accounts of one budget",
			why:   "pages neither lose nor repeat an account, and the IDs of another budget may have to live longer",
			rules: []spend.Rule{spend.Rolling("day", money(1000), days)},
			steps: []step{check(func(s *fixture) {
				const n = 450
				repeat(n, func(c call, i int) call { c.Method = "authorize"; return c.to(fmt.Sprintf("%04d", i)) }).do(s)
				list, _ := s.exported(spend.Entry{})
				for i := range n {
					if len(list) != n || list[i] != fmt.Sprintf("%04d 1", i) {
						s.Fatalf("%d entries of %d, and entry %d is %q", len(list), n, i, list[i])
					}
				}
				mine, other := s.b, s.budget(spend.Budget{Name: "another budget to prune", Currency: "EUR", Rules: s.c.rules})
				s.b = other
				charge(1).as("theirs").do(s)
				s.b = mine
				after(8 * days).do(s)
				prune(n, 0).do(s)
				after(100 * days).do(s)
				prune(0, n).do(s)
				s.b = other
				charge(1).as("theirs").again().do(s)
			})},
		},
		{
			name: "prune before 1970", rules: []spend.Rule{month(1000)},
			why: "the entries that are gone have a time, and an account that nothing was pruned of has none",
			steps: []step{
				at(-200 * days), authorize("h", 100), prune(0, 0), at(-190 * days), charge(1), prune(0, 0), at(-100 * days),
				prune(0, 1), shows(0, 0, 1000), record(3).ago(90 * days).fails(spend.ErrRequest),
				record(3).ago(90*days - time.Microsecond),
				sound(1), at(0), prune(0, 2), sound(0), shows(0, 0, 1000),
			},
		},
	}
}
