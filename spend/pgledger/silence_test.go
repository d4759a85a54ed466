package pgledger_test

import (
	"context"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
)

// silence is the bound of the calls to a server that does not answer.
const silence = 2 * time.Second

// everyCall returns the calls of a ledger, and the questions of budgets over it.
func everyCall(l ledger.Ledger, b *spend.Budgets) map[string]func(context.Context) error {
	all := calls(l)
	all["decideall"] = func(ctx context.Context) error { return l.DecideAll(ctx, []*ledger.Job{idle("account")})[0] }
	if own, ok := l.(*pgledger.Ledger); ok {
		all["ping"] = own.Ping
	}
	all["strays"] = l.(ledger.StrayFinder).Strays
	all["decide writes"] = func(ctx context.Context) error { return l.Decide(ctx, answer("new", "account")) }
	all["spend: New"] = func(ctx context.Context) error { return cards(ctx, l, 0) }
	all["spend: New, newer"] = func(ctx context.Context) error { return cards(ctx, l, 1) }
	all["spend: Open"] = func(ctx context.Context) error { _, err := spend.Open(ctx, l, "cards", nil); return err }
	all["spend: Rules"] = func(ctx context.Context) error { return first(b.Rules(ctx)) }
	all["spend: Charge"] = func(ctx context.Context) error {
		_, err := b.Charge(ctx, spend.Request{ID: "silent", Account: "card", Amount: euros(1)})
		return err
	}
	all["spend: AbleToAccept"] = func(ctx context.Context) error {
		_, err := b.AbleToAccept(ctx, spend.Request{ID: "silent", Account: "card", Amount: euros(1)})
		return err
	}
	all["spend: Remaining"] = func(ctx context.Context) error { _, err := b.Remaining(ctx, "card"); return err }
	all["spend: Get"] = func(ctx context.Context) error { _, err := b.Get(ctx, "id"); return err }
	all["spend: Holds"] = func(ctx context.Context) error { return first(b.Holds(ctx, "card")) }
	all["spend: Limits"] = func(ctx context.Context) error { _, err := b.Limits(ctx, "card"); return err }
	all["spend: Export"] = func(ctx context.Context) error { return first(b.Export(ctx, spend.Entry{})) }
	all["spend: History"] = func(ctx context.Context) error { return first(b.History(ctx, "card", nil)) }
	all["spend: Verify"] = func(ctx context.Context) error { return b.Verify(ctx, "card") }
	all["spend: Prune"] = func(ctx context.Context) error { _, err := b.Prune(ctx); return err }
	return all
}

// cards begins with a revision of rules.
func cards(ctx context.Context, l ledger.Ledger, revision int64) error {
	_, err := spend.New(ctx, l, spend.Budget{
		Name: "cards", Currency: "EUR", Revision: revision, Rules: []spend.Rule{spend.Rolling("month", euros(1<<40), 30*24*time.Hour)},
	}, nil)
	return err
}

// first returns the first error of a listing.
func first[T any](list iter.Seq2[T, error]) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestEveryCallIsNamed finds a method of a ledger that everyCall lacks.
func TestEveryCallIsNamed(t *testing.T) {
	named := everyCall((*pgledger.Ledger)(nil), nil)
	for i := range reflect.TypeFor[*pgledger.Ledger]().NumMethod() {
		m := reflect.TypeFor[*pgledger.Ledger]().Method(i)
		name := strings.ToLower(m.Name)
		if m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() &&
			named[name] == nil && named[strings.TrimSuffix(name, "requests")] == nil {
			t.Errorf("everyCall has no call of %s, so nothing tests its bound", m.Name)
		}
	}
}

// apart returns every call, each over a pool of its own with connections that were just used, and
// some calls within transactions that have begun.
func apart(t *testing.T, url, schema string) map[string]func(context.Context) error {
	t.Helper()
	all := make(map[string]func(context.Context) error)
	for name := range everyCall((*pgledger.Ledger)(nil), nil) {
		pool := pgtest.PoolAt(t, url, func(c *pgxpool.Config) { c.MaxConns = 2 })
		l := over(t, pool, &postgres.Options{Schema: schema, StatementTimeout: silence})
		b := cardsAndTeams(t, l)
		mustCharge(t, b, spend.Request{ID: "id", Account: "card", Amount: euros(1)})
		all[name] = everyCall(l, b)[name]
		if name != "ping" && !strings.HasPrefix(name, "spend: ") { // a transaction has no Ping
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			all["With: "+name] = everyCall(l.With(tx), nil)[name]
		}
	}
	return all
}

// TestTablesLockedByAStranger makes every call while a stranger has the tables to himself.
func TestTablesLockedByAStranger(t *testing.T) {
	admin := pgtest.Pool(t)
	schema := migrated(t)
	all := apart(t, pgtest.URL(t), schema)
	names, err := pgname.New(schema, "")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // before the pools close
	for _, table := range names.Ledger() {
		if _, err := tx.Exec(t.Context(), "LOCK TABLE "+pgname.Quote(schema)+"."+pgname.Quote(table)+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Timed(t, silence, all, func(string) bool { return false })
}
