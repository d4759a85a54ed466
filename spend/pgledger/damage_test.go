package pgledger_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/store"
)

// harmless are the changes that no decision and no proof can meet, by table and column.
var harmless = map[string]string{
	"accounts.watch": "only tells which entries to read ahead; each decision asks for those that it needs",
	"requests.spend": "with a row in spends, it is the spend as it began, which nobody reads",
}

// TestEveryColumn changes each column of each row of a ledger, deletes each row, and changes the
// bytes of each value of package spend, one at a time. VerifyAll finds each of them, in one of the
// budgets. It makes one change in three, at random, or with BRIM_TORTURE=1 all of them.
func TestEveryColumn(t *testing.T) {
	t.Parallel()
	ctx, schema := t.Context(), migrated(t)
	pool := pgtest.Pool(t)
	l := over(t, pool, &postgres.Options{Schema: schema})
	rules := []spend.Rule{
		spend.Rolling("day", eur(10_000), 24*time.Hour).Thresholds(80), spend.Lifetime("ever", eur(50_000)).CountsCredits(),
		spend.Leaky("leaky", eur(20_000), time.Hour), spend.Count("often", 50, time.Hour),
	}
	b, err := spend.New(ctx, l, spend.Budget{
		Name: "cards", Currency: "EUR", Rules: rules, Plans: map[string][]spend.Rule{"gold": rules[:3]},
	}, &spend.Options{Budgets: []spend.Budget{{Name: "teams", Currency: "EUR", Rules: rules[:2]}}})
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	must := func(d spend.Decision, err error) {
		t.Helper()
		if sent++; err != nil {
			t.Fatalf("request %d: %v", sent, err)
		}
	}
	team := []spend.Account{{Budget: "teams", Name: "t"}, {Budget: "teams", Name: "u"}}
	of := func(id string, n int64) spend.Request { return spend.Request{ID: id, Account: "a", Amount: eur(n)} }
	both := func(id string, n int64) spend.Request {
		r := of(id, n)
		r.Also, r.Tags = team, map[string]string{"merchant": "m"}
		return r
	}
	must(b.Charge(ctx, both("charge", 100)))
	must(b.Refund(ctx, spend.RefundRequest{ID: "refund", SpendID: "charge", Amount: eur(10)}))
	must(b.Authorize(ctx, both("captured", 200)))
	must(b.Capture(ctx, spend.CaptureRequest{ID: "capture", HoldID: "captured", Amount: eur(150), Final: true}))
	must(b.Charge(ctx, of("declined", 20_000)))
	must(b.Credit(ctx, of("credit", 5)))
	must(b.Charge(ctx, of("canceled", 50)))
	must(b.Cancel(ctx, "canceled", "a"))
	must(b.SetPlan(ctx, spend.PlanRequest{ID: "plan", Account: "a", Plan: "gold"}))
	must(b.SetLimits(ctx, spend.LimitsRequest{ID: "limits", Account: "a", Limits: []spend.RuleLimit{{Rule: "ever", Amount: eur(40_000)}}}))
	for i := range 5 { // the last is in the table of holds
		must(b.Authorize(ctx, both(fmt.Sprint("held", i), 10)))
	}
	must(b.Freeze(ctx, spend.FreezeRequest{ID: "freeze", Account: "a", Reason: "lost"}))
	find := func(change string, args ...any) error {
		t.Helper()
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if tag, err := tx.Exec(ctx, change, args...); err != nil || tag.RowsAffected() != 1 {
			t.Fatalf("%s: %v, %v", change, tag, err)
		}
		here := b.With(l.With(tx))
		teams, err := here.ForBudget(t.Context(), "teams")
		if err != nil {
			t.Fatal(err)
		}
		_, err = here.VerifyAll(ctx)
		if err == nil {
			_, err = teams.VerifyAll(ctx)
		}
		return err
	}
	r := rand.New(rand.NewPCG(spendload.Seed(t), 5))
	found, all, unseen := 0, 0, make(map[string]int)
	try := func(what, change string, args ...any) {
		t.Helper()
		if r.IntN(seed.Attempts(3, 1)) > 0 {
			return
		}
		all++
		switch err := find(change, args...); {
		case errors.Is(err, store.ErrCorrupt):
			found++
		case err == nil && harmless[what] != "":
			unseen[what]++
		default:
			t.Errorf("%s: %s %v: %v; want ErrCorrupt", what, change, args, err)
		}
	}
	if err := find("UPDATE " + schema + ".buckets_accounts SET key = key WHERE key = 'cards/a'"); err != nil {
		t.Fatalf("the ledger as it was: %v", err)
	}
	step := seed.Attempts(7, 1) // the distance of the bytes that are changed
	for _, name := range []string{"accounts", "entries", "requests", "spends", "holds", "rules"} {
		table := schema + ".buckets_" + name
		columns := query[[][]string](t, pool, `SELECT jsonb_agg(ARRAY[column_name, data_type]) FROM information_schema.columns
			WHERE table_schema = $1 AND table_name = $2`, schema, "buckets_"+name)
		rows, err := pool.Query(ctx, "SELECT ctid::text FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(ids) == 0 {
			t.Fatalf("%s: %v, %v", name, ids, err)
		}
		for _, row := range ids {
			where := " WHERE ctid = '" + row + "'"
			try(name, "DELETE FROM "+table+where)
			for _, c := range columns {
				column, kind := c[0], c[1]
				what := name + "." + column
				if what == "accounts.id" { // GENERATED ALWAYS: the server lets nobody change it
					continue
				}
				null := query[bool](t, pool, "SELECT "+column+" IS NULL FROM "+table+where)
				if kind == "bytea" && !null {
					size := query[int](t, pool, "SELECT octet_length("+column+") FROM "+table+where)
					for i := 0; i < size; i += step {
						try(what, fmt.Sprintf("UPDATE %s SET %s = set_byte(%[2]s, %[3]d, get_byte(%[2]s, %[3]d) # 4)%[4]s", table, column, i, where))
					}
					try(what, fmt.Sprintf("UPDATE %s SET %s = %[2]s || '\\x00'%[3]s", table, column, where))
					continue
				}
				if what == "rules.rules" {
					size := query[int](t, pool, "SELECT length(rules) FROM "+table+where)
					for i := 1; i <= size; i += step {
						try(what, fmt.Sprintf("UPDATE %s SET rules = overlay(rules PLACING '~' FROM %d FOR 1)%s", table, i, where))
					}
				}
				now := map[string]string{
					"bigint": "COALESCE(@, 0) + 1", "smallint": "COALESCE(@, 0::smallint) + 1::smallint", "text": "@ || 'x'",
					"timestamp with time zone": "COALESCE(@, now()) - interval '1 microsecond'", "ARRAY": "COALESCE(@, '{}') || 1::bigint",
					"bytea": "'x'", "boolean": "NOT @", "jsonb": "CASE WHEN @ IS NULL THEN " + cmp.Or(map[string]string{
						"credited": `'[{"rule": "ever", "counts": 1, "amount": 1}]'`, "refused": `'["day"]'`,
					}[column], `'{"x": "y"}'`) + "::jsonb END",
				}[kind]
				switch what {
				case "entries.account", "entries.seq", "holds.account": // the next one is another row's
					now = "@ + 1000"
				case "entries.dated":
					now = "COALESCE(@, at) - interval '1 microsecond'"
				case "entries.part":
					now = "COALESCE(@, seq) - 1"
				case "entries.amount", "entries.spend_amount":
					now = "COALESCE(@, amount, used, held, 0) + 1"
				}
				try(what, "UPDATE "+table+" SET "+column+" = "+strings.ReplaceAll(now, "@", column)+where)
			}
		}
	}
	t.Logf("%d of %d changes are found; harmless are %v", found, all, unseen)
}
