package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brimgo/brim/cmd/brim/internal/cards"
)

const cardsBudget = `budget: cards
currency: EUR
rules:
  - {name: month, rolling: 1000.00, window: 30d}
  - {name: single, per_transaction: 990.00}
also:
  - {budget: team, currency: EUR, rules: [{name: ever, lifetime: 1500}]}
`

func budgetIn(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "budget.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSpend(t *testing.T) {
	store, budget := storeIn(t), budgetIn(t, cardsBudget)
	spend := func(args ...string) result {
		return cli(t, append(append([]string{"spend"}, args...), "--budget", budget, "--store", store)...)
	}
	spend("remaining", "card").want(t, exitOK, "1000.00", "does not exist")
	spend("capture", "pay", "1").want(t, exitUnavailable, "", "no such file")
	spend("charge", "card", "30.00", "--id", "coffee").want(t, exitOK, "charged: coffee", "")
	spend("charge", "card", "30.00", "--id", "coffee").want(t, exitOK, "charged, as it was answered before: coffee", "")
	spend("charge", "card", "31.00", "--id", "coffee").want(t, exitData, "", "ID was used")
	spend("charge", "card", "990.00").want(t, exitRefused, "month", "")
	spend("charge", "card", "990.01").want(t, exitNever, "single", "")
	hotel := []string{"--id", "hotel", "--tag", "category=hotel", "--also", "team/ops", "--ttl", "2d"}
	spend(append([]string{"authorize", "card", "500"}, hotel...)...).want(t, exitOK, "authorized: hotel", "")
	spend("capture", "hotel", "501").want(t, exitData, "", "more than is held")
	spend("capture", "hotel", "200", "--id", "c1").want(t, exitOK, "captured: c1", "")
	spend("void", "hotel", "--id", "v1").want(t, exitOK, "voided: v1", "")
	spend("void", "hotel").want(t, exitData, "", "hold has ended")
	spend("refund", "hotel", "50.00").want(t, exitOK, "refunded", "")
	spend("refund", "hotel", "150.01").want(t, exitData, "", "150.00")
	spend("refund", "nothing", "1").want(t, exitData, "", "no such spend")
	spend("record", "card", "2000").want(t, exitOK, "recorded", "")
	spend("remaining", "card").want(t, exitOK, "-1180.00", "")
	history := spend("history", "card", "--limit", "3")
	history.want(t, exitOK, "record", "")
	if n := strings.Count(history.stdout, "\n"); n != 3 {
		t.Errorf("%d lines of history; want 3", n)
	}
	r := spend("charge", "other", "995", "--id", "big", "--json")
	r.want(t, exitNever, `"approved":false`, "")
	r.want(t, exitNever, `"retry_after":null`, "")
	spend("remaining", "card", "--json").want(t, exitOK, `"remaining":{"amount":"-1180.00","currency":"EUR"}`, "")
	spend("history", "card", "--json", "--limit", "0").want(t, exitOK, `"kind":"authorize"`, "")
	// The same file contains buckets, which the ledger leaves alone.
	cli(t, "try", "k", "1", "--capacity", "1", "--leak-rate", "0", "--store", store).want(t, exitOK, "accepted", "")
	cli(t, "compact", "--store", store).want(t, exitOK, "compacted", "")
	spend("remaining", "card").want(t, exitOK, "-1180.00", "")
}

func TestWrongSpends(t *testing.T) {
	store, budget := storeIn(t), budgetIn(t, cardsBudget)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no command", []string{"sped"}, exitUsage, "unknown command"},
		{"no budget", []string{"charge", "card", "1"}, exitUsage, "--budget is missing"},
		{"no such budget", []string{"charge", "card", "1", "--budget", "nowhere.yaml"}, exitData, "nowhere.yaml"},
		{"unknown field", []string{"charge", "card", "1", "--budget", budgetIn(t, "budget: x\ncolour: red\n")}, exitData, `line 2: unknown field "colour"`},
		{"bad rules", []string{"charge", "card", "1", "--budget", budgetIn(t, "budget: a/b\ncurrency: EUR\nrules: [{name: e, lifetime: 1}]\n")}, exitData, "without /"},
		{"no amount", []string{"charge", "card", "--budget", budget}, exitUsage, "AMOUNT is missing"},
		{"too exact", []string{"charge", "card", "1.234", "--budget", budget}, exitUsage, "decimal places"},
		{"zero", []string{"charge", "card", "0", "--budget", budget}, exitUsage, "positive"},
		{"tag", []string{"charge", "card", "1", "--tag", "travel", "--budget", budget}, exitUsage, "--tag"},
		{"tag twice", []string{"charge", "card", "1", "--tag", "a=1", "--tag", "a=2", "--budget", budget}, exitUsage, "twice"},
		{"also", []string{"charge", "card", "1", "--also", "team", "--budget", budget}, exitUsage, "--also"},
		{"no such also", []string{"charge", "card", "1", "--also", "no/one", "--budget", budget}, exitUsage, "no budget"},
		{"store", []string{"charge", "card", "1", "--budget", budget, "--store", "redis://x"}, exitUsage, "redis"},
		{"limit", []string{"history", "card", "--limit", "-1", "--budget", budget}, exitUsage, "--limit"},
		{"replay in a store", []string{"replay", "x.csv", "--budget", budget, "--store", store}, exitUsage, "in memory"},
		{"replay of nothing", []string{"replay", "nothing.csv", "--budget", budget}, exitData, "nothing.csv"},
		{"no such day", []string{"generate", "--start", "soon"}, exitUsage, "--start"},
		{"no cards", []string{"generate", "--cards", "0"}, exitUsage, "cards"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"spend"}, c.args...)
			if !strings.Contains(strings.Join(args, " "), "--store") && !strings.Contains(c.name, "replay") {
				args = append(args, "--store", store)
			}
			cli(t, args...).want(t, c.code, "", c.says)
		})
	}
}

func TestSpendReplay(t *testing.T) {
	log := cli(t, "spend", "generate", "--seed", "7", "--cards", "30", "--days", "60")
	log.want(t, exitOK, cards.Synthetic, "")
	budget := budgetIn(t, cardsBudget)
	var rep cards.Report
	cliIn(t, t.Context(), log.stdout, "spend", "replay", "-", "--budget", budget, "--json").decode(t, &rep)
	if rep.Events < 1000 || rep.Declined == 0 || rep.Accounts != 30 || rep.Unparsed != 0 || !rep.Synthetic {
		t.Errorf("got %+v", rep)
	}
	cliIn(t, t.Context(), log.stdout, "spend", "replay", "-", "--budget", budget).want(t, exitOK,
		"declined by month", "")
	cliIn(t, t.Context(), "time,kind\n", "spend", "replay", "-", "--budget", budget).want(t, exitData, "", "stdin")
}
