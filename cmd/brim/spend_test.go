package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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

// spendOn sets the rules of a budget file in a store, and returns a function that runs a command of
// "brim spend" on the first budget of the file.
func spendOn(t testing.TB, text, store string) func(args ...string) result {
	t.Helper()
	cli(t, "spend", "rules", "set", budgetIn(t, text), "--store", store).want(t, exitOK, "set: ", "")
	name, _, _ := strings.Cut(strings.TrimPrefix(text, "budget: "), "\n")
	return func(args ...string) result {
		t.Helper()
		return cli(t, append(append([]string{"spend"}, args...), "--budget", name, "--store", store)...)
	}
}

// TestSpendScale spends fractions of a cent.
func TestSpendScale(t *testing.T) {
	store := storeIn(t)
	spend := spendOn(t, "budget: agents\ncurrency: USD:8\nrules:\n  - {name: ever, lifetime: 0.01000001}\n", store)
	spend("charge", "a", "0.00000315").want(t, exitOK, "charged", "")
	spend("remaining", "a").want(t, exitOK, "0.00999686", "")
	spend("charge", "a", "0.000000315").want(t, exitUsage, "", "the currency has 8")
	spend("charge", "a", "92233720369").want(t, exitUsage, "", "the largest amount is 92233720368.54775807")
	spend("authorize", "a", "0.005", "--id", "h").want(t, exitOK, "authorized", "")
	spend("capture", "h", "0.00400001", "--final").want(t, exitOK, "captured", "")
	spend("limits", "a", "ever=0.00000001").want(t, exitOK, "set", "")
	spend("limits", "a").want(t, exitOK, "0.00000001 USD", "")
	spend("remaining", "a").want(t, exitOK, "-0.00400315", "")
	spend("history", "a", "--json").want(t, exitOK, `"amount":{"amount":"0.00000315","currency":"USD:8"}`, "")
	coarse := budgetIn(t, "budget: agents\ncurrency: USD\nrules:\n  - {name: ever, lifetime: 0.01}\n")
	cli(t, "spend", "rules", "set", coarse, "--store", store).want(t, exitUsage, "", `counts in USD:8 and not in USD`)
}

func TestSpend(t *testing.T) {
	store := storeIn(t)
	spend := spendOn(t, cardsBudget, store)
	spend("charge", "card", "30.00", "--id", "coffee").want(t, exitOK, "charged: coffee\n  month   970.00 of 1000.00 EUR left", "")
	spend("charge", "card", "30.00", "--id", "coffee").want(t, exitOK, "charged, as it was answered before: coffee", "")
	spend("charge", "card", "31.00", "--id", "coffee").want(t, exitData, "", "ID was used")
	spend("charge", "card", "990.00").want(t, exitRefused, "month", "")
	spend("charge", "card", "990.01").want(t, exitNever, "single", "")
	hotel := []string{"--id", "hotel", "--tag", "category=hotel", "--also", "team/ops", "--ttl", "2d"}
	spend(append([]string{"authorize", "card", "500"}, hotel...)...).want(t, exitOK, "authorized: hotel", "")
	spend("capture", "hotel", "501").want(t, exitData, "", "more than is left")
	spend("capture", "hotel", "200", "--id", "c1").want(t, exitOK, "captured: c1", "")
	spend("void", "hotel", "--id", "v1").want(t, exitOK, "voided: v1", "")
	spend("void", "hotel").want(t, exitData, "", "hold has ended")
	spend("refund", "hotel", "50.00").want(t, exitOK, "refunded", "")
	spend("refund", "hotel", "150.01").want(t, exitData, "", "150.00")
	spend("reverse", "hotel", "50.01").want(t, exitData, "", "more than is left")
	spend("reverse", "hotel", "20.00", "--id", "rv").want(t, exitOK, "reversed: rv", "")
	spend("refund", "hotel", "20.00").want(t, exitOK, "refunded", "")
	spend("refund", "nothing", "1").want(t, exitData, "", "no such spend")
	spend("record", "card", "2000").want(t, exitOK, "recorded", "")
	spend("remaining", "card").want(t, exitOK, "-1180.00", "")
	history := spend("history", "card", "--rows", "3")
	history.want(t, exitOK, "record", "")
	if n := strings.Count(history.stdout, "\n"); n != 3 {
		t.Errorf("%d lines of history; want 3", n)
	}
	r := spend("charge", "other", "995", "--id", "big", "--json")
	r.want(t, exitNever, `"approved":false`, "")
	r.want(t, exitNever, `"retry_after":null`, "")
	spend("remaining", "card", "--json").want(t, exitOK, `"remaining":{"amount":"-1180.00","currency":"EUR"}`, "")
	spend("history", "card", "--json", "--rows", "0").want(t, exitOK, `"kind":"authorize"`, "")
	export := spend("export")
	export.want(t, exitOK, `{"budget":"cards","account":"card","seq":1,`, "")
	var order []string
	for line := range strings.Lines(export.stdout) {
		var e struct{ Budget, Account string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("a line of the export is %q: %v", line, err)
		}
		order = append(order, e.Budget+"/"+e.Account)
	}
	if got := slices.Compact(order); !slices.Equal(got, []string{"cards/card", "cards/other"}) {
		t.Errorf("the export has the accounts %q", got)
	}
	cli(t, "spend", "export", "--budget", "team", "--store", store).want(t, exitOK, `{"budget":"team","account":"ops","seq":`, "")
	// The same file contains buckets, which the ledger leaves alone.
	cli(t, "try", "k", "1", "--capacity", "1", "--leak-rate", "0", "--store", store).want(t, exitOK, "accepted", "")
	cli(t, "compact", "--store", store).want(t, exitOK, "compacted", "")
	spend("remaining", "card").want(t, exitOK, "-1180.00", "")
	// So does a backup.
	cli(t, "backup", store+".copy", "--store", store).want(t, exitOK, "values of the ledger", "")
	if err := os.Remove(store); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(store+".copy", store); err != nil {
		t.Fatal(err)
	}
	spend("remaining", "card").want(t, exitOK, "-1180.00", "")
	cli(t, "list", "--store", store).want(t, exitOK, "k", "")
}

func TestSpendUpkeep(t *testing.T) {
	store := storeIn(t)
	spend := spendOn(t, accountBudget, store)
	spend("upto", "card", "600.00", "--id", "much").want(t, exitNever, "declined: much", "")
	spend("upto", "card", "600.00", "--least", "100.00", "--hold", "--tag", "country=DE", "--id", "part").want(t, exitOK, "approved 500.00 EUR: part", "")
	spend("decrease", "part", "20.00").want(t, exitOK, "decreased", "")
	spend("increase", "part", "15.00", "--id", "more").want(t, exitOK, "increased: more", "")
	spend("increase", "part", "15.00").want(t, exitRefused, "day", "")
	spend("increase", "part", "15.00", "--least", "1.00", "--id", "rest").want(t, exitOK, "increased", "")
	spend("decrease", "part", "5.00").want(t, exitOK, "decreased", "")
	spend("increase", "nothing", "15.00").want(t, exitData, "", "no such spend")
	spend("able", "card", "15.00", "--tag", "country=DE").want(t, exitRefused, "day", "")
	spend("able", "card", "5.00", "--tag", "country=DE").want(t, exitOK, "able", "")
	spend("authorize", "card", "5.00", "--tag", "country=DE", "--id", "slow").want(t, exitOK, "authorized: slow", "")
	spend("cancel", "slow", "card").want(t, exitOK, "canceled: slow", "")
	spend("cancel", "slow", "card").want(t, exitOK, "canceled, as it was answered before: slow", "")
	spend("cancel", "slow", "other").want(t, exitUsage, "", "another account")
	spend("cancel", "more", "card").want(t, exitData, "", "began no spend")
	spend("charge", "card", "1.00", "--id", "slow").want(t, exitNever, "declined, because it was canceled: slow", "")
	spend("authorize", "card", "900", "--id", "stood", "--dated", "2020-01-31T12:00:00Z").want(t, exitUsage, "", "needs --force")
	spend("authorize", "card", "900", "--id", "stood", "--force", "--dated", "soon").want(t, exitUsage, "", "--dated is")
	spend("authorize", "card", "900", "--id", "stood", "--force", "--dated", "2020-01-31T12:00:00Z").want(t, exitOK, "authorized: stood", "")
	spend("extend", "stood", "--on-expiry", "keep").want(t, exitUsage, "", "release or spend")
	spend("extend", "stood", "--on-expiry", "spend").want(t, exitOK, "extended", "")
	spend("void", "stood").want(t, exitOK, "voided", "")
	spend("record", "card", "9", "--dated", "2020-01-31T12:00:00Z").want(t, exitOK, "recorded", "")
	spend("verify").want(t, exitOK, "sound: 1 account", "")
	spend("prune").want(t, exitOK, "pruned: 0 expired holds, 0 IDs", "")
	spend("prune", "--json").want(t, exitOK, `{"expired_holds":0,"ids":0}`, "")
	spend("prune", "--keep-ids", "1us").want(t, exitOK, "pruned: 0 expired holds, 11 IDs", "")
	spend("verify").want(t, exitData, "", "although it is younger than --keep-ids")
	spend("verify", "--keep-ids", "1us").want(t, exitOK, "sound: 1 account", "")
	spend("verify", "--keep-ids", "40000d").want(t, exitData, "", "at most 100 years, and --keep-ids")
}

const accountBudget = `budget: cards
currency: EUR
rules:
  - {name: day, rolling: 500.00, window: 24h, at_most: 5000.00}
  - {name: often, count: 5, period: day, zone: UTC, at_most: 9}
  - {name: casinos, per_transaction: 0, where: {mcc: "7995"}}
  - {name: abroad, rolling: 50, window: 7d, where_not: {country: [DE, AT]}}
  - {name: shops, rolling: 700, window: 24h, per: shop}
  - {name: net, calendar: 5000, period: month, zone: UTC, counts_credits: true, thresholds: [12]}
  - {name: try, per_transaction: 590, shadow: true}
plans:
  gold:
    - {name: day, rolling: 900.00, window: 24h}
`

func TestSpendAccounts(t *testing.T) {
	store := storeIn(t)
	spend := spendOn(t, accountBudget, store)
	home := []string{"--tag", "country=DE"}
	charge := func(amount string, more ...string) result {
		return spend(append([]string{"charge", "card", amount}, more...)...)
	}
	charge("30", append(home, "--tag", "mcc=7995")...).want(t, exitNever, "casinos", "")
	charge("60", "--tag", "country=FR").want(t, exitNever, "abroad", "")
	charge("600", home...).want(t, exitNever, "day", "")
	if r := spend("plan", "vip"); r != (result{stdout: "plan: none\n"}) {
		t.Errorf("%+v; want one line", r)
	}
	spend("plan", "vip", "gold", "--id", "plan-1").want(t, exitOK, "set: plan-1", "")
	spend("plan", "vip").want(t, exitOK, "plan: gold", "")
	spend("charge", "vip", "600").want(t, exitOK, "charged", "")
	spend("plan", "vip", "silver").want(t, exitData, "", `budget "cards" has no plan "silver"`)
	spend("plan", "vip", "gold", "--none").want(t, exitUsage, "", "either PLAN or --none")
	spend("plan").want(t, exitUsage, "", "ACCOUNT is missing")
	spend("plan", "vip", "--none").want(t, exitOK, "set", "")
	spend("plan", "vip", "--json").want(t, exitOK, `{"plan":""}`, "")
	spend("limits", "card").want(t, exitOK, "", "")
	spend("limits", "card", "day=2000", "often=1x", "--id", "l1").want(t, exitOK, "set: l1", "")
	spend("limits", "card", "day=3000", "--until", "2100-01-01T00:00:00Z").want(t, exitOK, "set", "")
	spend("limits", "card").want(t, exitOK, "3000.00 EUR", "")
	spend("limits", "card", "--json").want(t, exitOK, `{"rule":"day","amount":{"amount":"3000.00","currency":"EUR"},"until":"2100-01-01T00:00:00Z"}`, "")
	spend("limits", "shop", "day=+100", "often=-2x").want(t, exitOK, "set", "")
	spend("limits", "shop").want(t, exitOK, "600.00 EUR", "")
	spend("limits", "shop", "day=-700").want(t, exitUsage, "", "would be below 0")
	spend("limits", "card", "day=5001").want(t, exitData, "", "at most 5000.00 EUR")
	spend("limits", "card", "week=1").want(t, exitData, "", `no rule "week"`)
	spend("limits", "card", "day").want(t, exitUsage, "", "day=default")
	spend("limits", "card", "often=many"+"x").want(t, exitUsage, "", "bursts=3x")
	spend("limits", "card", "--until", "2100-01-01T00:00:00Z").want(t, exitUsage, "", "no RULE=AMOUNT")
	spend("limits", "card", "day=1", "--until", "soon").want(t, exitUsage, "", "--until")
	spend("limits").want(t, exitUsage, "", "ACCOUNT is missing")
	charge("600", append(home, "--id", "c1")...).want(t, exitOK, "charged: c1", "")
	charge("600", append(home, "--id", "c1")...).want(t, exitOK, "is in the shadow, and would decline", "")
	spend("history", "card", "--rows", "1").want(t, exitOK, "in the shadow, by try", "")
	charge("600", append(home, "--id", "c1")...).want(t, exitOK, "has reached 12 %", "")
	charge("600", append(home, "--id", "c1", "--json")...).want(t, exitOK, `"share":12`, "")
	charge("600", append(home, "--id", "c1", "--varying", "trace", "--tag", "trace=2")...).want(t, exitOK, "as it was answered before", "")
	charge("1", home...).want(t, exitRefused, "often", "")
	spend("limits", "card", "often=default").want(t, exitOK, "set", "")
	spend("freeze", "card").want(t, exitUsage, "", "--reason")
	spend("freeze", "card", "--reason", "lost").want(t, exitOK, "frozen", "")
	charge("1", home...).want(t, exitNever, "lost", "")
	charge("1", append(home, "--json")...).want(t, exitNever, `"frozen":"lost"`, "")
	spend("unfreeze", "card", "--reason", "found").want(t, exitOK, "unfrozen", "")
	spend("authorize", "card", "100", "--id", "h1", "--tag", "country=DE", "--ttl", "1h").want(t, exitOK, "authorized", "")
	spend("decrease", "h1", "40").want(t, exitOK, "decreased", "")
	spend("decrease", "h1", "61").want(t, exitData, "", "more than is left")
	spend("extend", "h1", "--ttl", "2d").want(t, exitOK, "extended", "")
	spend("holds", "card").want(t, exitOK, "60.00 EUR", "")
	spend("holds", "card", "--json").want(t, exitOK, `"id":"h1"`, "")
	spend("get", "h1").want(t, exitOK, "held", "")
	spend("get", "c1", "--json").want(t, exitOK, `"state":"charged"`, "")
	spend("get", "nobody").want(t, exitData, "", "no such spend")
	spend("history", "card", "--rows", "0").want(t, exitOK, "unfreeze", "")
	spend("mend", "card").want(t, exitUsage, "", "--reason")
	spend("mend", "card", "--reason", "the clock was ahead").want(t, exitOK, "mended", "")
	spend("history", "card", "--rows", "1").want(t, exitOK, "mend", "")
	spend("move", "card").want(t, exitUsage, "", "NEW")
	spend("move", "card", "card 2").want(t, exitUsage, "", "--reason")
	spend("move", "card", "card 2", "--reason", "lost", "--id", "m1").want(t, exitOK, "moved: m1", "")
	spend("move", "card", "card 3", "--reason", "lost", "--id", "m1").want(t, exitData, "", "ID was used for another request")
	spend("move", "nobody", "card 3", "--reason", "lost").want(t, exitUsage, "", "no account of that name")
	spend("history", "card", "--rows", "1").want(t, exitOK, "move", "")
	spend("remaining", "card", "--json").want(t, exitOK, `"account":"card 2"`, "")
	charge("101", home...).want(t, exitRefused, "shops shop=", "")
	charge("701", append(home, "--tag", "shop=s1")...).want(t, exitNever, "shops shop=s1", "")
	charge("1", append(home, "--tag", "shop=s1", "--json")...).want(t, exitOK, `"rule":"shops","tag":"shop","value":"s1"`, "")
	spend("remaining", "card").want(t, exitOK, "shops shop=s1", "")
	spend("refund", "c1", "601").want(t, exitData, "", "Force credits the rest")
	spend("refund", "c1", "600", "--force").want(t, exitOK, "refunded", "")
	charge("600", home...).want(t, exitOK, "charged", "")
	spend("credit", "card", "900", "--id", "p1").want(t, exitOK, "credited: p1", "")
	spend("history", "card", "--rows", "1").want(t, exitOK, "counted by net 601.00", "")
	spend("history", "card", "--rows", "1", "--json").want(t, exitOK, `"credited":{"net":{"amount":"601.00","currency":"EUR"}}`, "")
	for text, says := range map[string]string{
		"{name: c, count: 5, window: 1h, period: day, zone: UTC}": "either a window, or a period",
		"{name: c, count: 5, period: day}":                        "needs zone",
		"{name: c, count: 5, period: noon, zone: UTC}":            "day, week, month or year",
		"{name: c, count: 5, window: 1h, counts_credits: true}":   "CountsCredits has no meaning",
		"{name: c, rolling: 5, window: 1h, at_most: 4}":           "at most 4.00 EUR",
		"{name: c, rolling: 5, window: 1h, at_most: x}":           "x",
		"{name: c, rolling: 5, window: 1h, where_not: 7}":         "where_not",
	} {
		wrong := budgetIn(t, "budget: b\ncurrency: EUR\nrules:\n  - "+text+"\n")
		cli(t, "spend", "rules", "check", wrong).want(t, exitData, "", says)
	}
}

func TestSpendExplain(t *testing.T) {
	spend := spendOn(t, accountBudget, storeIn(t))
	tags := []string{"--tag", "country=DE", "--tag", "shop=s1"}
	spend(append([]string{"charge", "card", "400", "--id", "c1"}, tags...)...).want(t, exitOK, "charged", "")
	spend(append([]string{"authorize", "card", "60", "--id", "h1"}, tags...)...).want(t, exitOK, "authorized", "")
	spend("freeze", "card", "--reason", "lost").want(t, exitOK, "frozen", "")
	spend(append([]string{"charge", "card", "595", "--id", "c2"}, tags...)...).want(t, exitNever, "lost", "")
	spend("unfreeze", "card").want(t, exitOK, "unfrozen", "")
	spend("refund", "c1", "400").want(t, exitOK, "refunded", "")
	spend(append([]string{"charge", "card", "595", "--id", "c3"}, tags...)...).want(t, exitNever, "day", "")

	r := spend("explain", "c2")
	for _, line := range []string{
		"declined, as it was answered before: c2\n", "is frozen                              lost\n", ", by revision 1 of the rules:\n",
		"cards/card day: 400.00 of 500.00 EUR used, 60.00 held: refused\n",
		"  used 400.00  held 0.00   c1\n", "  used 0.00    held 60.00  h1\n",
		"cards/card shops s1: 400.00 of 700.00 EUR used, 60.00 held: refused\n", "cards/card often: 2 of 5 used, 0 held\n",
	} {
		r.want(t, exitOK, line, "")
	}
	spend("explain", "c3").want(t, exitOK, "cards/card day: 0.00 of 500.00 EUR used, 60.00 held: refused\n", "")
	spend("explain", "c2", "--json").want(t, exitOK, `"counted":[{"id":"c1","dated":"`, "")
	spend("explain", "c2", "--json").want(t, exitOK, `"decision":{"id":"c2","approved":false,`, "")
	spend("explain", "nobody").want(t, exitData, "", "no such spend")
}
