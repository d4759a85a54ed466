package pgledger_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// page is the page of the documentation that has audit queries.
const page = "../../docs/spend-audit.md"

// audited matches a statement of the page and the result that follows it.
var audited = regexp.MustCompile("(?s)```sql\n(.*?)```\n(?:\n```text\n(.*?)```\n)?")

// TestAuditQueries runs every statement of the page against a known ledger, and compares the
// results with those of the page. The clocks have changed within the last 30 days, and a spend
// counts against two accounts.
func TestAuditQueries(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	pool := pgtest.Pool(t)
	schema := migrated(t)
	now := knownLedger(t, func(clock func() time.Time) ledger.Ledger {
		return over(t, pool, &postgres.Options{Schema: schema, Clock: clock})
	})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SET LOCAL timezone = 'Europe/Berlin'"); err != nil {
		t.Fatal(err)
	}
	found := audited.FindAllStringSubmatch(string(text), -1)
	if len(found) < 7 {
		t.Fatalf("%s has %d statements; want at least 7", page, len(found))
	}
	for _, m := range found {
		sql := strings.NewReplacer("brim.", schema+".", "now()", "timestamptz '"+now.Format(time.RFC3339)+"'").Replace(m[1])
		if got := result(t, tx, sql); got != m[2] {
			t.Errorf("%s returns\n%s\nand %s says\n%s", m[1], got, page, m[2])
		}
	}
}

// result runs a statement and formats its result.
func result(t *testing.T, tx pgx.Tx, sql string) string {
	t.Helper()
	conn := tx.Conn().PgConn()
	if strings.Contains(sql, "COPY") {
		var rows bytes.Buffer
		if _, err := conn.CopyTo(t.Context(), &rows, sql); err != nil {
			t.Fatalf("%v, for %s", err, sql)
		}
		return rows.String()
	}
	results, err := conn.Exec(t.Context(), sql).ReadAll()
	if err != nil || len(results) != 1 {
		t.Fatalf("%d results, %v, for %s", len(results), err, sql)
	}
	var columns []table.Column
	for _, f := range results[0].FieldDescriptions {
		columns = append(columns, table.Left(f.Name))
	}
	out := table.New(columns...)
	for _, row := range results[0].Rows {
		var cells []string
		for _, value := range row {
			cells = append(cells, string(value))
		}
		out.Add(cells...)
	}
	return out.Text()
}

// knownLedger makes the ledger of the page, and returns the time of its end. It compares the page's
// sums with those of package spend.
func knownLedger(t *testing.T, open func(clock func() time.Time) ledger.Ledger) time.Time {
	t.Helper()
	var now time.Time
	rules := []spend.Rule{
		spend.Rolling("month", eur(200_00), 30*24*time.Hour), spend.PerTransaction("single", eur(150_00)),
	}
	b, err := spend.New(t.Context(), open(func() time.Time { return now }), spend.Budget{Name: "cards", Currency: "EUR", Rules: rules},
		&spend.Options{Budgets: []spend.Budget{{Name: "teams", Currency: "EUR", Rules: []spend.Rule{
			spend.Lifetime("ever", eur(10_000_00)),
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	request := func(id string, cents int64, category string) spend.Request {
		return spend.Request{ID: id, Account: "card:7", Amount: eur(cents), Tags: map[string]string{"category": category}}
	}
	shared := request("pay-4", 20_00, "food")
	shared.Also = []spend.Account{{Budget: "teams", Name: "sales"}}
	for _, step := range []struct {
		at       string
		approved bool
		do       func() (spend.Decision, error)
	}{
		{"2025-12-20T12:00:00Z", true, func() (spend.Decision, error) { return b.Charge(ctx, request("pay-0", 40_00, "food")) }},
		{"2026-03-11T09:30:00Z", true, func() (spend.Decision, error) { return b.Charge(ctx, request("pay-2", 5_00, "food")) }},
		{"2026-03-11T10:30:00Z", true, func() (spend.Decision, error) { return b.Charge(ctx, request("pay-3", 10_00, "food")) }},
		{"2026-04-02T08:00:00Z", true, func() (spend.Decision, error) { return b.Authorize(ctx, request("pay-1", 30_00, "travel")) }},
		{"2026-04-03T08:00:00Z", true, func() (spend.Decision, error) {
			return b.Capture(ctx, spend.CaptureRequest{ID: "take-1", HoldID: "pay-1", Amount: eur(28_50), Final: true})
		}},
		{"2026-04-05T16:45:00Z", true, func() (spend.Decision, error) {
			return b.Refund(ctx, spend.RefundRequest{ID: "back-1", SpendID: "pay-1", Amount: eur(8_50)})
		}},
		{"2026-04-06T07:00:00Z", true, func() (spend.Decision, error) {
			return b.Credit(ctx, spend.Request{ID: "paid-1", Account: "card:7", Amount: eur(25_00)})
		}},
		{"2026-04-08T11:00:00Z", true, func() (spend.Decision, error) { return b.Charge(ctx, shared) }},
		{"2026-04-09T07:00:00Z", true, func() (spend.Decision, error) { return b.Authorize(ctx, request("pay-5", 12_00, "food")) }},
		{"2026-04-09T18:00:00Z", false, func() (spend.Decision, error) { return b.Charge(ctx, request("pay-6", 160_00, "travel")) }},
		{"2026-04-09T18:01:00Z", false, func() (spend.Decision, error) { return b.Charge(ctx, request("pay-7", 149_00, "travel")) }},
		{"2026-04-09T18:02:00Z", false, func() (spend.Decision, error) { return b.Charge(ctx, request("pay-8", 148_00, "travel")) }},
	} {
		if now, err = time.Parse(time.RFC3339, step.at); err != nil {
			t.Fatal(err)
		}
		if d, err := step.do(); err != nil || d.Approved != step.approved {
			t.Fatalf("at %s: %+v, %v; want an approval: %t", step.at, d, err, step.approved)
		}
	}
	now = time.Date(2026, 4, 10, 10, 0, 0, 0, time.UTC)
	used, err := b.Remaining(ctx, "card:7")
	if err != nil || used[0].Used != eur(50_00) || used[0].Held != eur(12_00) {
		t.Errorf("the rolling window has %+v, %v; want 50.00 used and 12.00 held, like the query", used, err)
	}
	return now
}

// eur returns an amount of cents.
func eur(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "EUR"} }
