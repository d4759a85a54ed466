package drivers

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/sqliteledger"
	"github.com/brimgo/brim/store"
)

// everyColumn changes each column of each row of a ledger, each byte of its blobs, and deletes each
// row, one at a time. VerifyAll finds each of these changes, in one of the budgets.
func everyColumn(t *testing.T, d Driver) {
	o := harness{Driver: d, full: true}.store(t, nil)
	l, err := sqliteledger.New(t.Context(), o.Store, nil)
	must(t, err)
	b := every(t, l)
	view(t, o.db, l)
	found, all := 0, 0
	for _, name := range []string{"accounts", "entries", "requests", "holds", "rules"} {
		table := newTable(t, o.db, "brim_"+name)
		for row := range table.rows {
			try := func(what, change string, args ...any) {
				tx, err := o.db.BeginTx(t.Context(), nil)
				must(t, err)
				defer func() { must(t, tx.Rollback()) }()
				done, err := tx.Exec(change+table.where(row), args...)
				must(t, err)
				if n, err := done.RowsAffected(); n != 1 || err != nil {
					t.Fatalf("%s: %d rows, %v", what, n, err)
				}
				here := b.With(l.With(tx))
				teams, err := here.ForBudget(t.Context(), "teams")
				must(t, err)
				_, err = here.VerifyAll(t.Context())
				if err == nil {
					_, err = teams.VerifyAll(t.Context())
				}
				if all++; errors.Is(err, store.ErrCorrupt) {
					found++
				} else {
					t.Errorf("%s of row %d, %s: %v; want ErrCorrupt", what, row, change, err)
				}
			}
			try(name, "DELETE FROM "+table.name)
			for _, c := range table.columns {
				what := name + "." + c.name
				if c.kind == "BLOB" {
					value := table.blob(t, o.db, c.name, row)
					for i := range value {
						value[i] ^= 1 << (i % 8)
						try(what, "UPDATE "+table.name+" SET "+c.name+" = ?", value)
						value[i] ^= 1 << (i % 8)
					}
					try(what, "UPDATE "+table.name+" SET "+c.name+" = ?", append(value, 0))
					continue
				}
				try(what, "UPDATE "+table.name+" SET "+c.name+" = "+strings.ReplaceAll(c.other(what), "@", c.name))
			}
		}
	}
	t.Logf("%d of %d changes are found", found, all)

	_, err = o.db.Exec(`UPDATE brim_requests SET account = account + 1000 WHERE id = 'refund'`)
	must(t, err)
	if n, err := l.PruneRequests(t.Context(), "cards/", time.Now().Add(time.Hour).UnixMicro()); n != 9 || err != nil {
		t.Errorf("beside a damaged request, %d were pruned, %v; want the 9 others without a hold", n, err)
	}
}

// view compares the view of the ledger with its entries.
func view(t *testing.T, db *sql.DB, l *sqliteledger.Ledger) {
	t.Helper()
	entries, err := l.History(t.Context(), "cards/a", ledger.Position{}, 100)
	must(t, err)
	for _, want := range entries {
		got := ledger.Entry{Account: want.Account, Seq: want.Seq, At: want.At, Dated: want.Dated, Expires: want.Expires}
		var asked, least, ttl sql.NullInt64
		var lists [3]sql.NullString
		var at, dated string // in milliseconds
		var expires sql.NullString
		must(t, db.QueryRow(`SELECT at, dated, expires, part, kind, id, spend, currency, amount, spend_amount, asked, least, ttl, used, held, spends,
			pending, becomes, tags, refused, credited FROM brim_ledger WHERE account = ? AND seq = ?`, want.Account, want.Seq).Scan(
			&at, &dated, &expires, &got.Part, &got.Kind, &got.RequestID, &got.SpendID, &got.Currency, &got.Amount, &got.SpendAmount, &asked, &least, &ttl,
			&got.Used, &got.Held, &got.Count, &got.Pending, &got.Spends, &lists[0], &lists[1], &lists[2]))
		got.Asked, got.Least, got.TTL = asked.Int64, least.Int64, ttl.Int64
		for i, to := range []any{&got.Tags, &got.Refused, &got.Credited} {
			if lists[i].Valid {
				must(t, json.Unmarshal([]byte(lists[i].String), to))
			}
		}
		if d := differ.Fields(got, want); d != "" {
			t.Errorf("entry %d of the view, against the ledger:\n%s", want.Seq, d)
		}
		for text, us := range map[string]int64{at: want.At, dated: want.Dated} {
			is, err := time.Parse("2006-01-02 15:04:05.000", text)
			if is.Sub(time.UnixMicro(us)).Abs() > time.Millisecond || err != nil {
				t.Errorf("entry %d of the view has the time %s, %v; want %v", want.Seq, text, err, time.UnixMicro(us).UTC())
			}
		}
		if expires.Valid != (want.Expires != 0) {
			t.Errorf("entry %d of the view expires at %q; want %d", want.Seq, expires.String, want.Expires)
		}
	}
}

// every sends a request of each kind to a new ledger.
func every(t *testing.T, l *sqliteledger.Ledger) *spend.Budgets {
	ctx := t.Context()
	rules := []spend.Rule{
		spend.Rolling("day", money(10_000), 24*time.Hour).Thresholds(80), spend.Lifetime("ever", money(50_000)).CountsCredits(),
		spend.Leaky("leaky", money(20_000), time.Hour), spend.Count("often", 50, time.Hour),
	}
	b, err := spend.New(ctx, l, spend.Budget{
		Name: "cards", Currency: "EUR", Rules: rules, Plans: map[string][]spend.Rule{"gold": rules[:3]},
	}, &spend.Options{Budgets: []spend.Budget{{Name: "teams", Currency: "EUR", Rules: rules[:2]}}})
	must(t, err)
	of := func(id string, n int64) spend.Request { return spend.Request{ID: id, Account: "a", Amount: money(n)} }
	both := func(id string, n int64) spend.Request {
		r := of(id, n)
		r.Also = []spend.Account{{Budget: "teams", Name: "t"}, {Budget: "teams", Name: "u"}}
		r.Tags = map[string]string{"merchant": "m"}
		return r
	}
	for _, send := range []func() (spend.Decision, error){
		func() (spend.Decision, error) { return b.Charge(ctx, both("charge", 100)) },
		func() (spend.Decision, error) {
			return b.Refund(ctx, spend.RefundRequest{ID: "refund", SpendID: "charge", Amount: money(10)})
		},
		func() (spend.Decision, error) { return b.Authorize(ctx, both("captured", 200)) },
		func() (spend.Decision, error) {
			return b.Capture(ctx, spend.CaptureRequest{ID: "capture", HoldID: "captured", Amount: money(150), Final: true})
		},
		func() (spend.Decision, error) { return b.Charge(ctx, of("declined", 20_000)) },
		func() (spend.Decision, error) { return b.Credit(ctx, of("credit", 5)) },
		func() (spend.Decision, error) { return b.Charge(ctx, of("canceled", 50)) },
		func() (spend.Decision, error) { return b.Cancel(ctx, "canceled", "a") },
		func() (spend.Decision, error) {
			return b.SetPlan(ctx, spend.PlanRequest{ID: "plan", Account: "a", Plan: "gold"})
		},
		func() (spend.Decision, error) {
			return b.SetLimits(ctx, spend.LimitsRequest{ID: "limits", Account: "a", Limits: []spend.RuleLimit{{Rule: "ever", Amount: money(40_000)}}})
		},
		func() (spend.Decision, error) { return b.Authorize(ctx, both("held", 10)) },
		func() (spend.Decision, error) {
			return b.Freeze(ctx, spend.FreezeRequest{ID: "freeze", Account: "a", Reason: "lost"})
		},
	} {
		_, err := send()
		must(t, err)
	}
	return b
}

// table is a table of a ledger.
type table struct {
	name    string
	columns []column
	key     string // names of columns
	rows    int
}

// column is a column of a table. null tells that it may be.
type column struct {
	name, kind string
	null       bool
}

func newTable(t *testing.T, db *sql.DB, name string) *table {
	t.Helper()
	o := &table{name: name, key: "rowid"}
	var key []string
	rows, err := db.Query(`SELECT name, type, "notnull", pk FROM pragma_table_info(?)`, name)
	must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var c column
		var filled, pk int
		must(t, rows.Scan(&c.name, &c.kind, &filled, &pk))
		if c.null = filled == 0; pk > 0 {
			key = append(key, c.name)
		}
		o.columns = append(o.columns, c)
	}
	must(t, rows.Err())
	if len(key) > 0 {
		o.key = strings.Join(key, ", ")
	}
	if must(t, db.QueryRow("SELECT count(*) FROM "+name).Scan(&o.rows)); o.rows == 0 {
		t.Fatalf("%s has no rows", name)
	}
	return o
}

// where selects a row by its place.
func (o *table) where(row int) string {
	return fmt.Sprintf(" WHERE (%[1]s) = (SELECT %[1]s FROM %[2]s ORDER BY %[1]s LIMIT 1 OFFSET %[3]d)", o.key, o.name, row)
}

func (o *table) blob(t *testing.T, db *sql.DB, column string, row int) (value []byte) {
	t.Helper()
	must(t, db.QueryRow("SELECT "+column+" FROM "+o.name+o.where(row)).Scan(&value))
	return value
}

// other returns an expression for another value of a column, for which @ stands.
func (c *column) other(what string) string {
	switch what {
	case "accounts.id", "entries.account", "entries.seq", "holds.account", "requests.account": // the next one may be another row's
		return "@ + 1000"
	case "entries.becomes", "rules.held":
		return "1 - @"
	case "entries.dated":
		return "coalesce(@, at) - 1"
	case "entries.part":
		return "coalesce(@, seq) - 1"
	case "entries.spend_amount":
		return "coalesce(@, amount) + 1"
	case "entries.credited":
		return `CASE WHEN @ IS NULL THEN '[{"rule": "ever", "counts": 1, "amount": 1}]' END`
	case "entries.refused":
		return `CASE WHEN @ IS NULL THEN '["day"]' END`
	case "entries.tags":
		return `CASE WHEN @ IS NULL THEN '{"x": "y"}' END`
	case "requests.also":
		return `CASE WHEN @ IS NULL THEN '[1]' END`
	}
	if c.kind == "TEXT" {
		return "coalesce(@, '') || 'x'"
	}
	return "@ + 1"
}
