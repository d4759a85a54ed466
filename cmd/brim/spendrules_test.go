package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/internal/spendreport"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
)

func TestSpendRules(t *testing.T) {
	store := storeIn(t)
	on := func(args ...string) result {
		t.Helper()
		return cli(t, append(append([]string{"spend", "rules"}, args...), "--store", store)...)
	}
	cards := func(args ...string) result {
		t.Helper()
		return on(append(args, "--budget", "cards")...)
	}
	first := budgetIn(t, cardsBudget)
	on("set", first, "--author", "ann", "--reason", "the beginning").want(t, exitOK, "set: cards revision 1, held\nset: team revision 1, held\n", "")
	on("set", first).want(t, exitOK, "unchanged: cards revision 1, held\nunchanged: team revision 1, held\n", "")
	on("diff", first).want(t, exitOK, "", "")
	cli(t, "spend", "charge", "card", "600", "--also", "team/ops", "--budget", "cards", "--store", store).want(t, exitOK, "charged", "")

	// The next revision holds for the money that was spent before.
	changed := strings.Replace(cardsBudget, "1000.00", "700", 1)
	second := budgetIn(t, strings.Replace(changed, "rules:", "plans:\n  gold: [{name: big, per_transaction: 9}]\nrules:", 1))
	want := `--- cards revision 1
+++ ` + second + `
  budget: "cards"
  currency: "EUR"
  rules:
-   - {"name":"month","rolling":"1000.00","window":"720h0m0s"}
+   - {"name":"month","rolling":"700.00","window":"720h0m0s"}
    - {"name":"single","per_transaction":"990.00"}
+ plans:
+   "gold":
+     - {"name":"big","per_transaction":"9.00"}
`
	if r := on("diff", second); r.stdout != want || r.code != exitBroken {
		t.Errorf("exit status %d, and\n%swant\n%s", r.code, r.stdout, want)
	}
	on("diff", second, "--json").want(t, exitBroken, `"removed":["  - {\"name\":\"month\"`, "")
	on("set", second, "--author", "bob", "--json").want(t, exitOK, `{"budget":"cards","revision":2,"held":true,"changed":true}`, "")
	cli(t, "spend", "charge", "card", "101", "--budget", "cards", "--store", store).want(t, exitRefused, "600.00 of 700.00 EUR used", "")

	// A file with a number of its own is compared with the store's.
	numbered := func(n string) string {
		return budgetIn(t, strings.Replace(changed, "rules:", "revision: "+n+"\nrules:", 1))
	}
	on("set", numbered("1")).want(t, exitData, "", "the ledger has revision 2")
	on("set", numbered("2")).want(t, exitData, "", "the ledger has other rules as revision 2")
	on("diff", numbered("7")).want(t, exitBroken, "+ revision: 7", "")
	on("set", numbered("7"), "--release").want(t, exitOK, "set: cards revision 7\nset: team revision 2\n", "")
	on("set", numbered("7"), "--release").want(t, exitOK, "unchanged: cards revision 7\n", "")
	on("set", numbered("7")).want(t, exitData, "", "to hold or to release its rules, give them a higher one")

	// The output of show is a budget file.
	show := cards("show")
	show.want(t, exitOK, ", by brim\nbudget: \"cards\"\ncurrency: \"EUR\"\nrevision: 7\nrules:\n", "")
	on("set", budgetIn(t, show.stdout), "--release").want(t, exitOK, "unchanged: cards revision 7", "")
	cards("show", "--revision", "1").want(t, exitOK, ", by ann, held: the beginning\nbudget: ", "")
	cards("show", "--json").want(t, exitOK, `"by":"brim","held":false,"rules":{"budget":"cards",`, "")
	history := cards("history")
	history.want(t, exitOK, "held  bob", "")
	if n := strings.Count(history.stdout, "\n"); n != 5 { // the head, 7, 2, 1, and 0 that began
		t.Errorf("%d lines of history: %s", n, history.stdout)
	}
	cards("history", "--json").want(t, exitOK, `"reason":"the beginning","held":true,"rules":{"budget":"cards"`, "")

	// Rules that are held stay when a program starts with newer ones.
	starts := func() (rule string) {
		t.Helper()
		inLedger(t, store, func(l ledger.Ledger) {
			budget := spend.Budget{Name: "cards", Currency: "EUR", Revision: 50, Rules: []spend.Rule{spend.PerTransaction("few", spend.Money{Minor: 5, Currency: "EUR"})}}
			b, err := spend.New(t.Context(), l, budget, nil)
			if err != nil {
				t.Fatal(err)
			}
			list, err := b.Remaining(t.Context(), "card")
			if err != nil {
				t.Fatal(err)
			}
			rule = list[0].Rule
		})
		return rule
	}
	on("set", first, "--author", "ann").want(t, exitOK, "set: cards revision 8, held", "")
	if rule := starts(); rule != "month" {
		t.Errorf("the program decides by rule %q", rule)
	}
	cards("release", "--author", "ann", "--reason", "done").want(t, exitOK, "released: cards revision 9\n", "")
	cards("release").want(t, exitOK, "not held: cards revision 9\n", "")
	cards("show").want(t, exitOK, ", by ann: done\n", "")
	on("set", first).want(t, exitOK, "set: cards revision 10, held", "")
	cards("release").want(t, exitOK, "released: cards revision 11\n", "")
	if rule := starts(); rule != "few" {
		t.Errorf("the program decides by rule %q", rule)
	}
	cards("history").want(t, exitOK, "50", "")
}

// inLedger calls f with the ledger of a program that has the file open.
func inLedger(t *testing.T, store string, f func(ledger.Ledger)) {
	t.Helper()
	s, err := bolt.Open(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := boltledger.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f(l)
}

func TestSpendRulesOfALifetime(t *testing.T) {
	store := storeIn(t)
	spendOn(t, "budget: b\ncurrency: EUR\nrules:\n  - {name: ever, lifetime: 100}\n", store)
	rest := "budget: b\ncurrency: EUR\nrules:\n  - {name: one, per_transaction: 100}\n"
	cli(t, "spend", "rules", "set", budgetIn(t, rest), "--store", store).want(t, exitData, "", `lacks lifetime rule "ever"`)
	cli(t, "spend", "rules", "set", budgetIn(t, rest), "--store", store).want(t, exitData, "", "name the rule in retired")
	cli(t, "spend", "rules", "set", budgetIn(t, rest+"retired: [ever]\n"), "--store", store).want(t, exitOK, "set: b revision 2", "")
	cli(t, "spend", "rules", "show", "--budget", "b", "--store", store).want(t, exitOK, `retired: ["ever"]`, "")
}

// A budget that a program may change at once has its maker and its reason, too.
func TestSpendRulesBeginReleased(t *testing.T) {
	store := storeIn(t)
	cli(t, "spend", "rules", "set", budgetIn(t, cardsBudget), "--release", "--author", "ann", "--store", store).want(t, exitOK, "set: cards revision 1\n", "")
	cli(t, "spend", "rules", "show", "--budget", "cards", "--store", store).want(t, exitOK, ", by ann\n", "")
}

func TestDiff(t *testing.T) {
	for _, c := range []struct{ was, is, want string }{
		{"", "", ""},
		{"a", "", "-a"},
		{"", "a", "+a"},
		{"ab", "ab", " a b"},
		{"abc", "ac", " a-b c"},
		{"ac", "abc", " a+b c"},
		{"ab", "ba", "-a b+a"},
		{"abcd", "xbyd", "-a+x b-c+y d"},
	} {
		var got strings.Builder
		for _, line := range diff(strings.Split(c.was, "")[:len(c.was)], strings.Split(c.is, "")[:len(c.is)]) {
			got.WriteString(line[:1] + line[2:])
		}
		if got.String() != c.want {
			t.Errorf("%q and %q: %q; want %q", c.was, c.is, got.String(), c.want)
		}
	}
}

func TestSpendBacktest(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "s.db")
	on := spendOn(t, cardsBudget, store)
	on("charge", "a", "100", "--id", "a1").want(t, exitOK, "charged", "")
	on("charge", "a", "950", "--id", "a2").want(t, exitRefused, "declined", "")
	on("charge", "b", "40", "--id", "b1", "--also", "team/ops").want(t, exitOK, "charged", "")
	on("upto", "b", "90", "--least", "1", "--id", "b2").want(t, exitOK, "approved", "")
	on("charge", "b", "45", "--id", "b3").want(t, exitOK, "charged", "")
	on("authorize", "b", "45", "--id", "b4", "--force").want(t, exitOK, "authorized", "")
	on("freeze", "c", "--reason", "lost").want(t, exitOK, "frozen", "")
	on("charge", "c", "45").want(t, exitNever, "declined", "")
	test := func(text string, more ...string) result {
		t.Helper()
		return cli(t, append([]string{"spend", "backtest", "--rules", budgetIn(t, text), "--store", store}, more...)...)
	}
	test(cardsBudget, "--since", "1h").want(t, exitOK, "cards: of 5 decisions on 3 accounts since ", "")
	test(cardsBudget).want(t, exitOK, ", 0 would be declined, 0 approved, and 0 approved for less\n", "")
	test(cardsBudget).want(t, exitOK, "team: of 1 decisions on 1 accounts since ", "")
	test(cardsBudget, "--since", "1us").want(t, exitOK, "cards: of 0 decisions on 3 accounts since ", "")

	other := "budget: cards\ncurrency: EUR\nrules:\n  - {name: month, rolling: 2000.00, window: 30d}\n  - {name: one, per_transaction: 50}\n"
	r := test(other)
	r.want(t, exitOK, "  a  a1  100.00 EUR  would be declined by one\n", "")
	r.want(t, exitOK, "  b  b2  90.00 EUR  would be approved for 50.00 EUR\n", "")
	r.want(t, exitOK, "cards: of 5 decisions on 3 accounts since ", "")
	r.want(t, exitOK, ", 1 would be declined, 0 approved, and 1 approved for less\n", "")
	r.want(t, exitOK, "\n\n  WOULD DECLINE  WOULD APPROVE  WOULD REDUCE  RULE\n              1              0             0  one\n", "")
	r.want(t, exitOK, "            0              0             1  b\n", "")
	r.want(t, exitOK, "It is not known whether a declined request would have come again", "")
	r.want(t, exitOK, "REDUCE  DAY\n              1              0             1  20", "")
	loose := "budget: cards\ncurrency: EUR\nrules:\n  - {name: month, rolling: 2000.00, window: 30d}\n"
	test(loose).want(t, exitOK, "  a  a2  950.00 EUR  would be approved for 950.00 EUR, and was declined by month\n", "")
	one := test(other, "--top", "1", "--json")
	one.want(t, exitOK, `"top_accounts":[{"account":"a","would_decline":1,"would_approve":0,"would_reduce":0}],"days":[{"day":"`, "")
	one.want(t, exitOK, `"approved":false,"refused":["one"],"entry":{"budget":"cards","account":"a","seq":1,`, "")
	one.want(t, exitOK, `"complete":true,"accounts":3,"entries":8,"decisions":5,"would_decline":1,"would_approve":0,"would_reduce":1,`, "")

	test(other, "--account", "b").want(t, exitOK, "cards: of 3 decisions on 1 accounts since ", "")

	// Those with the most flips come first.
	two := "budget: cards\ncurrency: EUR\nrules:\n  - {name: a, per_transaction: 95}\n  - {name: z, per_transaction: 44}\n"
	test(two, "--json").want(t, exitOK, `"rules":[{"rule":"z","would_decline":2,"would_approve":0,"would_reduce":0},{"rule":"a","would_decline":1,`, "")
	test(two, "--json").want(t, exitOK, `"top_accounts":[{"account":"b","would_decline":1,"would_approve":0,"would_reduce":1},{"account":"a",`, "")

	// The picture has the decisions of the report.
	picture := filepath.Join(dir, "p.svg")
	test(other, "--plot", picture).want(t, exitOK, "cards", "the picture is in "+picture)
	svg, err := os.ReadFile(picture)
	if err != nil || !strings.Contains(string(svg), "decisions in 1 d") || !strings.Contains(string(svg), ">flipped<") {
		t.Errorf("%v, %s", err, svg)
	}
	test(other, "--plot", dir).want(t, exitUsage, "", "is a directory")

	// An account whose entries are gone is skipped.
	store = filepath.Join(dir, "pruned.db")
	rules := "budget: cards\ncurrency: EUR\nrules:\n  - {name: one, per_transaction: 50}\n"
	cli(t, "spend", "rules", "set", budgetIn(t, rules), "--store", store).want(t, exitOK, "set", "")
	inLedger(t, store, func(l ledger.Ledger) {
		b, err := spend.Open(t.Context(), l, "cards", &spend.Options{HoldTTL: time.Microsecond, KeepIDs: time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Charge(t.Context(), spend.Request{ID: "1", Account: "a", Amount: spend.Money{Minor: 5, Currency: "EUR"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	cli(t, "spend", "charge", "a", "7", "--budget", "cards", "--store", store).want(t, exitOK, "charged", "")
	test(loose).want(t, exitOK, "cards: of 0 decisions on 0 accounts since", "")
	test(loose).want(t, exitOK, "accounts skipped: 1\n  a: Prune has removed entries", "")
	test(loose, "--json").want(t, exitOK, `"skipped":1,"top_skipped":[{"account":"a","why":"Prune has removed`, "")
}

// interrupting ends a context by its first write.
type interrupting struct {
	strings.Builder
	cancel context.CancelCauseFunc
}

func (w *interrupting) Write(p []byte) (int, error) {
	w.cancel(signalError{syscall.SIGINT})
	return w.Builder.Write(p)
}

// A backtest that is interrupted reports the part that was done.
func TestSpendBacktestInterrupted(t *testing.T) {
	store := storeIn(t)
	on := spendOn(t, cardsBudget, store)
	for _, account := range []string{"a", "b", "c"} {
		on("charge", account, "100").want(t, exitOK, "charged", "")
	}
	rules := budgetIn(t, "budget: cards\ncurrency: EUR\nrules:\n  - {name: one, per_transaction: 50}\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &interrupting{cancel: cancel}
	code := run(ctx, []string{"spend", "backtest", "--rules", rules, "--store", store, "--json"}, strings.NewReader(""), out, io.Discard)
	if code != exitSignal+int(syscall.SIGINT) || !strings.Contains(out.String(), `"complete":false`) || strings.Count(out.String(), `"entry"`) != 1 {
		t.Errorf("exit status %d, %s", code, out.String())
	}
}

// The picture of a backtest counts the decisions that its report counts.
func TestSpendBacktestCounts(t *testing.T) {
	store := storeIn(t)
	on := spendOn(t, cardsBudget, store)
	on("authorize", "a", "100", "--id", "h").want(t, exitOK, "authorized", "")
	on("increase", "h", "10", "--id", "i").want(t, exitOK, "increased", "")
	on("increase", "h", "5000").want(t, exitNever, "declined", "")
	on("capture", "h", "20").want(t, exitOK, "captured", "")
	on("record", "a", "20").want(t, exitOK, "recorded", "")
	on("credit", "a", "20").want(t, exitOK, "credited", "")
	on("charge", "a", "5000").want(t, exitNever, "declined", "")
	on("cancel", "late", "a").want(t, exitOK, "canceled", "")
	on("capture", "late", "3", "--force").want(t, exitOK, "captured", "")
	on("authorize", "a", "1", "--force").want(t, exitOK, "authorized", "")
	on("freeze", "a", "--reason", "lost").want(t, exitOK, "frozen", "")
	on("charge", "a", "5").want(t, exitNever, "declined", "")
	on("charge", "b", "5000").want(t, exitNever, "declined", "")
	inLedger(t, store, func(l ledger.Ledger) {
		b, err := spend.Open(t.Context(), l, "cards", nil)
		if err != nil {
			t.Fatal(err)
		}
		rules, err := newest(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		err = b.Backtest(t.Context(), spend.BacktestOptions{
			Rules: rules.Rules,
			Decision: func(e spend.Entry) error {
				if e.Name == "a" {
					kinds = append(kinds, e.Kind)
				}
				return nil
			},
			Done: func(r spend.Replayed) error {
				if r.Name == "a" && int(r.Decisions) != len(kinds) {
					t.Errorf("the report counts %d decisions; want %d", r.Decisions, len(kinds))
				}
				return nil
			},
		})
		if want := []string{"authorize", "increase", "decline", "decline"}; !slices.Equal(kinds, want) {
			t.Errorf("decided are %q; want %q", kinds, want)
		}
		if err != nil {
			t.Fatal(err)
		}

		// The authorization flips. Its increase goes with it, and counts as a decision that stays.
		tight := spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.PerTransaction("none", spend.Money{Currency: "EUR"})}}
		for since, want := range map[time.Duration][]plot.Bin{-time.Hour: {{Accepted: 4, Refused: 1}}, time.Hour: {}} {
			bt := &spendreport.Backtest{Course: plot.Daily()}
			o := spend.BacktestOptions{Rules: tight, Since: time.Now().Add(since)}
			if err := (&app{stdout: io.Discard}).backtest(t.Context(), b, bt, o); err != nil {
				t.Fatal(err)
			}
			got := bt.Course.Bins()
			for i := range got {
				got[i].Start = time.Time{}
			}
			if !slices.Equal(got, want) || bt.Course.Width() != 24*time.Hour {
				t.Errorf("since %v: bins of %v, %+v; want %+v", since, bt.Course.Width(), got, want)
			}
		}
	})
}
