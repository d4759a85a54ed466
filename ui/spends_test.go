package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/internal/spendreport"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

func cents(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }

// cards is a budget with a rule in the shadow.
var cards = spend.Budget{Name: "cards", Currency: "EUR", Revision: 3, Rules: []spend.Rule{
	spend.Rolling("day", cents(100_00), 24*time.Hour), spend.PerTransaction("draft", cents(20_00)).Shadow(),
}}

// brokenLedger is a ledger that can be made to fail or to hang.
type brokenLedger struct {
	ledger.Ledger
	err  error
	hang bool
}

func (l *brokenLedger) View(ctx context.Context, job *ledger.Job) error {
	if l.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if l.err != nil {
		return l.err
	}
	return l.Ledger.View(ctx, job)
}

// spending mounts a page over a ledger in memory, whose clock is that of the page.
func spending(t *testing.T, change func(*Options)) (*mounted, *spend.Budgets, *brokenLedger) {
	t.Helper()
	clock := newManual()
	l := &brokenLedger{Ledger: memledger.New(&memledger.Options{Clock: clock.Now})}
	t.Cleanup(func() { _ = l.Close() })
	b, err := spend.New(t.Context(), l, cards, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := mount(t, func(o *Options) {
		o.Spends, o.Clock = []*spend.Budgets{b}, clock.Now
		if o.Recorder, err = NewRecorder(&RecorderOptions{Clock: clock.Now}); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(o)
		}
	})
	m.clock = clock
	return m, b, l
}

func charge(t *testing.T, b *spend.Budgets, id, account string, n int64) {
	t.Helper()
	if _, err := b.Charge(t.Context(), spend.Request{ID: id, Account: account, Amount: cents(n)}); err != nil {
		t.Fatal(err)
	}
}

// TestAccount asks why a request was declined three weeks ago, what a rule in the shadow would have
// declined, and what the account has now.
func TestAccount(t *testing.T) {
	m, b, _ := spending(t, nil)
	charge(t, b, "pay-1", "card:7", 15_00)
	m.clock.Advance(time.Hour)
	charge(t, b, "pay-2", "card:7", 60_00) // the draft would decline it
	charge(t, b, "pay-3", "card:7", 40_00) // declined by day, and by the draft
	m.clock.Advance(21 * 24 * time.Hour)
	looser := cards
	looser.Revision, looser.Rules = 4, []spend.Rule{spend.Rolling("day", cents(500_00), 24*time.Hour)}
	if err := b.SetRules(t.Context(), looser, nil); err != nil {
		t.Fatal(err)
	}
	charge(t, b, "pay-4", "card:7", 1_00)
	m.access = Look
	p := m.get("account?budget=cards&account=card:7").want(t, http.StatusOK, "An account of budget cards", "500.00 EUR", "499.00",
		"Among 4 entries from 2024-02-29 23:51:00 UTC to 2024-03-22 00:51:00 UTC.", `href="explain?budget=cards&amp;id=pay-3"`)
	declined, shadow, _ := strings.Cut(p.body, "Would have been declined by rules in the shadow")
	if strings.Contains(declined, "pay-2") || !strings.Contains(shadow, "pay-2") || !strings.Contains(shadow, "draft") || strings.Contains(shadow, "pay-4") {
		t.Errorf("the account shows %s", p.body)
	}
	m.get("explain?budget=cards&id=pay-3").want(t, http.StatusOK, "<strong>Declined.</strong> At 2024-03-01 00:51:00 UTC, by revision 3 of the rules.",
		"75.00 of 100.00 EUR used, 0.00 held", "would have fit 23h later, at 2024-03-01 23:51:00 UTC",
		"in the shadow: it would have declined", "day: refused", "<bdi>pay-1</bdi>", "<bdi>pay-2</bdi>")
	m.get("explain?budget=cards&id=pay-2").want(t, http.StatusOK, "<strong>Approved: 60.00 EUR.</strong>")
	m.get("explain?budget=cards&id=none").want(t, http.StatusNotFound, "its ID is unknown, or is older than KeepIDs")
	m.get("explain?budget=none&id=pay-3").want(t, http.StatusNotFound, "No such budget")
	m.get("explain?budget=cards&id=").want(t, http.StatusBadRequest)
	m.get("account?budget=cards&account=none").want(t, http.StatusOK, "The ledger has no entry of this account.")
	m.get("account?budget=cards&account=").want(t, http.StatusBadRequest)
	m.get("account?budget=cards&account=card:7&before=x").want(t, http.StatusBadRequest, "the address names no entry")
	m.get("spends").want(t, http.StatusOK, "<option>cards</option>", `aria-current="page">Spends`)
	if p := mount(t, nil).get("spends").want(t, http.StatusNotFound); strings.Contains(p.body, `href="spends"`) {
		t.Error("a page without budgets has a tab for them")
	}
}

// TestAccountPages walks through the entries of an account.
func TestAccountPages(t *testing.T) {
	m, b, _ := spending(t, nil)
	for i := range pageEntries + 5 {
		charge(t, b, fmt.Sprint("pay-", i), "a", 101_00)
		m.clock.Advance(time.Second)
	}
	p := m.get("account?budget=cards&account=a").want(t, http.StatusOK, fmt.Sprintf("Among %d entries", pageEntries), fmt.Sprintf("id=pay-%d", pageEntries+4))
	_, rest, found := strings.Cut(p.body, `<a href="account?`)
	query, _, _ := strings.Cut(rest, `"`)
	if !found || strings.Contains(p.body, "pay-4<") {
		t.Fatalf("no older entries: %s", p.body)
	}
	older := m.get("account?"+strings.ReplaceAll(query, "&amp;", "&")).want(t, http.StatusOK, "Among 5 entries", "id=pay-4", "id=pay-0")
	if strings.Contains(older.body, "Older entries") || strings.Contains(older.body, "pay-5<") {
		t.Errorf("the older entries are %s", older.body)
	}
}

// TestExplainFrozen explains a decline of a frozen account, and a canceled request.
func TestExplainFrozen(t *testing.T) {
	m, b, _ := spending(t, nil)
	if _, err := b.Freeze(t.Context(), spend.FreezeRequest{ID: "f", Account: "a", Reason: "<lost>"}); err != nil {
		t.Fatal(err)
	}
	charge(t, b, "pay-1", "a", 5_00)
	m.get("explain?budget=cards&id=pay-1").want(t, http.StatusOK, "Declined", "&lt;lost&gt;", "until somebody unfreezes the account")
	charge(t, b, "pay-2", "b", 5_00)
	if _, err := b.Cancel(t.Context(), "pay-2", "b"); err != nil {
		t.Fatal(err)
	}
	m.get("explain?budget=cards&id=pay-2").want(t, http.StatusOK, "Canceled", "The request was canceled.")
}

// tighter are rules as JSON, with another limit of a day.
func tighter(limit string) string {
	return fmt.Sprintf(`{"budget": "cards", "currency": "EUR", "rules": [{"name": "day", "rolling": %q, "window": "24h"}]}`, limit)
}

// TestBacktest runs backtests by the form and by the address for programs, which obey one rule.
func TestBacktest(t *testing.T) {
	m, b, _ := spending(t, nil)
	for i := range 5 {
		charge(t, b, fmt.Sprint("pay-", i), "card:7", 30_00) // the last two are declined
	}
	charge(t, b, "other", "card:8", 90_00)
	form := func(account, since, rules string) url.Values {
		return url.Values{"budget": {"cards"}, "account": {account}, "since": {since}, "rules": {rules}}
	}
	program := func(body string) page {
		return m.do(httptest.NewRequest(http.MethodPost, "http://ops.example/limits/api/backtest", strings.NewReader(body)))
	}
	post := func(account string, seconds int, rules string) page {
		text, err := json.Marshal(uiapi.Backtest{Budget: "cards", Account: account, Since: float64(seconds), Rules: json.RawMessage(rules)})
		if err != nil {
			return program(fmt.Sprintf(`{"budget":"cards","account":%q,"since":%d,"rules":%s}`, account, seconds, rules))
		}
		return program(string(text))
	}
	m.get("backtest?budget=cards&account=card:7").want(t, http.StatusOK, "&#34;name&#34;: &#34;day&#34;", "&#34;100.00&#34;", `value="30d"`)
	m.post("backtest", form("card:7", "30d", tighter("50.00"))).want(t, http.StatusOK,
		"Of 5 decisions since", "2 would be declined, 0 approved", "would be declined by day", "<svg", "It is not known whether a declined request")
	m.post("backtest", form("card:7", "30d", tighter("130.00"))).want(t, http.StatusOK, "0 would be declined, 1 approved", "was declined by day")
	got := post("card:7", 3600, tighter("50.00")).want(t, http.StatusOK)
	lines := strings.Split(strings.TrimSpace(got.body), "\n")
	var sum spendreport.Summary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil || len(lines) != 3 || sum.Decline != 2 || sum.Accounts != 1 || !sum.Complete {
		t.Errorf("%v, %+v of %s", err, sum, got.body)
	}
	for _, bad := range []struct {
		account, since string
		seconds        int
		rules          string
		status         int
		says           string
	}{
		{"card:7", "soon", 0, tighter("50.00"), http.StatusBadRequest, "a backtest needs a time before now"},
		{"card:7", "-1h", -3600, tighter("50.00"), http.StatusBadRequest, "a backtest needs a time before now"},
		{"", "1h", 3600, tighter("50.00"), http.StatusBadRequest, "a backtest needs an account"},
		{"card:7", "1h", 3600, `{}`, http.StatusBadRequest, "budget"},
		{"card:7", "1h", 3600, strings.Replace(tighter("50.00"), "cards", "teams", 1), http.StatusBadRequest, "teams"},
		{"card:7", "1h", 3600, strings.Replace(tighter("50.00"), "rolling", "rollling", 1), http.StatusBadRequest, "rollling"},
	} {
		m.post("backtest", form(bad.account, bad.since, bad.rules)).want(t, bad.status, bad.says)
		post(bad.account, bad.seconds, bad.rules).want(t, bad.status, bad.says)
	}
	program("{").want(t, http.StatusBadRequest, "cannot be read")
	program(`{"rules":"`+strings.Repeat("x", maxRules)+`"}`).want(t, http.StatusBadRequest)
	m.post("backtest", url.Values{"rules": {strings.Repeat("x", maxRules)}}).want(t, http.StatusBadRequest)

	m.handler.backtesting <- struct{}{} // another one runs
	m.post("backtest", form("card:7", "1h", tighter("50.00"))).want(t, http.StatusServiceUnavailable, "Another backtest runs")
	post("card:7", 3600, tighter("50.00")).want(t, http.StatusServiceUnavailable, "one backtest at a time")
	<-m.handler.backtesting

	m.access = Look
	m.get("backtest?budget=cards&account=card:7").want(t, http.StatusForbidden)
	m.post("backtest", form("card:7", "1h", tighter("50.00"))).want(t, http.StatusForbidden, "nor run a backtest")
	post("card:7", 3600, tighter("50.00")).want(t, http.StatusForbidden, "nor run a backtest")
	if p := m.get("account?budget=cards&account=card:7").want(t, http.StatusOK); strings.Contains(p.body, "Backtest") {
		t.Error("an account offers backtests to those who may only look")
	}
	m.access = Act
	m.get("account?budget=cards&account=card:7").want(t, http.StatusOK, `href="backtest?account=card%3A7&amp;budget=cards"`)
	foreign := formPost("backtest", form("card:7", "1h", tighter("50.00")))
	foreign.Header.Set("Origin", "http://evil.example")
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	m.do(foreign).want(t, http.StatusForbidden, "of another origin")
	if n, err := count(b); n != 6 || err != nil {
		t.Errorf("%d entries, %v: a backtest has written", n, err)
	}
}

// count returns the number of entries of all accounts.
func count(b *spend.Budgets) (n int, err error) {
	for _, failed := range b.Export(context.Background(), spend.Entry{}) {
		n, err = n+1, errors.Join(err, failed)
	}
	return n, err
}

// TestSpendsAreBounded asks about spends in a ledger that hangs, and in one that fails.
func TestSpendsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, b, l := spending(t, nil)
		charge(t, b, "pay-1", "a", 5_00)
		l.hang = true
		for path, bound := range map[string]time.Duration{
			"explain?budget=cards&id=pay-1": explainTimeout, "api/explain?budget=cards&id=pay-1": explainTimeout,
			"account?budget=cards&account=a": patience, "backtest": backtestTimeout,
		} {
			began := time.Now()
			if path == "backtest" {
				form := url.Values{"budget": {"cards"}, "account": {"a"}, "since": {"1h"}, "rules": {tighter("1.00")}}
				m.post(path, form).want(t, http.StatusOK, "These are the decisions of the part that was replayed within 20s.")
			} else {
				m.get(path).want(t, http.StatusServiceUnavailable, "The store does not answer")
			}
			if took := time.Since(began); took != bound {
				t.Errorf("%s: the answer came after %v, want %v", path, took, bound)
			}
		}
		l.hang, l.err = false, store.Wrap("pgledger", "view", store.ErrUnavailable)
		m.get("account?budget=cards&account=a").want(t, http.StatusServiceUnavailable, "pgledger: view: store unavailable")
		m.get("api/explain?budget=cards&id=pay-1").want(t, http.StatusServiceUnavailable, `"kind":"unavailable"`)
		l.err = nil
		m.get("api/explain?budget=cards&id=pay-1").want(t, http.StatusOK, `"revision":3`, `"counted":`)
	})
}

func TestSpendsOptions(t *testing.T) {
	m, b, _ := spending(t, nil)
	look := func(*http.Request) Access { return Look }
	for name, o := range map[string]*Options{
		"nil":    {Spends: []*spend.Budgets{nil}},
		"hidden": {Spends: []*spend.Budgets{b}, Key: func(string) string { return "" }},
	} {
		if h, err := New(m.store, look, o); err == nil || h != nil {
			t.Errorf("%s: no error", name)
		}
	}
}
