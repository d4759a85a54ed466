package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/spend"
)

// rulesOf returns rules of a revision, in the place of those of the example.
func rulesOf(revision int, list string) string {
	return fmt.Sprintf(`{"budget":"cards","currency":"EUR","revision":%d,"rules":[%s]}`, revision, list)
}

// set sends rules, and wants a status.
func (n *network) set(revision int, list string, want int) {
	n.Helper()
	body := fmt.Sprintf(`{"rules":%s,"by":"Ann","reason":"Christmas"}`, rulesOf(revision, list))
	if got := n.send(http.MethodPut, "/rules", "", body); got.status != want {
		n.Errorf("revision %d: %d, %s; want %d", revision, got.status, got.Detail, want)
	}
}

// spends sends a payment, and wants its answer.
func (n *network) spends(key, amount, want string) {
	n.Helper()
	got := n.send(http.MethodPost, "/authorizations", key, pay(amount, "food", ""))
	line := got.line()
	for _, u := range got.Shadow {
		line += " not " + u.Rule
	}
	if line != want {
		n.Errorf("%s of %s: %s; want %s", key, amount, line, want)
	}
}

const week = `{"name":"week","rolling":"100.00","window":"7d"}`

// TestSetRules changes the rules while two instances run, and one begins with older rules.
func TestSetRules(t *testing.T) {
	n := newNetwork(t)
	defer n.end()
	budget, err := readRules("")
	if err != nil {
		t.Fatal(err)
	}
	n.spends("a", "90.00", "200 90.00 EUR")
	n.set(1, week, http.StatusBadRequest) // the ledger has another revision 1
	n.set(0, week, http.StatusBadRequest)
	n.spends("b", "1.00", "200 1.00 EUR")
	n.set(2, week, http.StatusOK)
	later, err := spend.New(t.Context(), n.stalling, budget, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := &network{T: t, stalling: n.stalling, service: &service{cards: later}}
	for i, n := range []*network{n, other} {
		n.spends(fmt.Sprint("c", i), "10.00", "402 week, wait 604800 s")
	}
	for r, err := range n.cards.Rules(t.Context()) {
		if err != nil || r.Rules.Revision != 2 || r.By != "Ann" || r.Reason != "Christmas" {
			t.Errorf("the newest rules are %+v, %v", r, err)
		}
		break
	}
}

// TestShadow tries a rule on live traffic, and then lets it judge with the figures that it has.
func TestShadow(t *testing.T) {
	n := newNetwork(t)
	defer n.end()
	n.set(2, `{"name":"single","per_transaction":"500.00"},{"name":"week","rolling":"100.00","window":"7d","shadow":true}`, http.StatusOK)
	n.spends("a", "90.00", "200 90.00 EUR")
	n.spends("b", "90.00", "200 90.00 EUR not week")
	n.set(3, week, http.StatusOK)
	n.spends("c", "1.00", "402 week, wait 604800 s")
}

// TestBacktest decides the payments of some days anew.
func TestBacktest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		defer n.end()
		for i := range 6 {
			n.spends(fmt.Sprint(i), "80.00", "200 80.00 EUR")
			time.Sleep(24 * time.Hour)
		}
		n.spends("laptop", "550.00", "402 month single")
		since := time.Now().Add(-73 * time.Hour).Format(time.RFC3339)
		for name, tc := range map[string]struct {
			rules string
			want  verdict
		}{
			"tighter": {rulesOf(2, week), verdict{Decisions: 4, Refuses: map[string]int64{"week": 3}}},
			"wider":   {rulesOf(2, `{"name":"ever","lifetime":"5000.00"}`), verdict{Decisions: 4, Approves: 1, Refuses: map[string]int64{}}},
		} {
			got := n.send(http.MethodPost, "/rules/backtest", "", `{"rules":`+tc.rules+`,"since":"`+since+`"}`)
			want, err := json.Marshal(tc.want)
			if err != nil || got.status != http.StatusOK || got.body != string(want)+"\n" {
				t.Errorf("%s rules: %d, %s, %v; want %s", name, got.status, got.body, err, want)
			}
		}
		n.spends("b", "1.00", "200 1.00 EUR") // the rules are those of before
		if got := n.send(http.MethodPost, "/rules/backtest", "", `{"rules":{"budget":"cards"}}`); got.status != http.StatusBadRequest {
			t.Errorf("rules with a mistake: %d, %s", got.status, got.Detail)
		}
	})
}
