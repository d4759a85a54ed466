package pgledger_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/docpage"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/internal/spendload"
)

// trips notes the statements of every round trip.
type trips struct {
	mu   sync.Mutex
	list []string
}

var label = regexp.MustCompile(`brim:ledger\.(\w+)`)

func (t *trips) note(statements ...string) {
	var names []string
	for _, sql := range statements {
		name, _, _ := strings.Cut(sql, " ")
		if m := label.FindStringSubmatch(sql); m != nil {
			name = m[1]
		}
		names = append(names, name)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, strings.Join(names, " "))
}

func (t *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if label.MatchString(d.SQL) {
		t.note(d.SQL)
	}
	return ctx
}

func (t *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (t *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	var statements []string
	for _, q := range d.Batch.QueuedQueries {
		statements = append(statements, q.SQL)
	}
	t.note(statements...)
	return ctx
}

func (t *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (t *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// inOrder reports whether all has the elements of some in their order.
func inOrder(some, all []string) bool {
	for _, name := range all {
		if len(some) > 0 && some[0] == name {
			some = some[1:]
		}
	}
	return len(some) == 0
}

// TestRoundTrips sees that a decision takes the round trips that docs/spend-operations.md lists,
// with the statements of docs/internals/spend.md in their order.
func TestRoundTrips(t *testing.T) {
	schema := migrated(t)
	var seen trips
	pool := pgtest.PoolAt(t, pgtest.URL(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer = &seen })
	l := over(t, pool, &postgres.Options{Schema: schema})
	b := cardsAndTeams(t, l)
	const (
		read = "BEGIN plan take requests watched"
		find = "BEGIN plan take begun requests watched"
	)
	const page = "../../docs/internals/spend.md"
	if lacks := docpage.Lacks(page, "read "+find+" decide", "decides in two round trips"); lacks != "" {
		t.Error(lacks)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	told := strings.Fields(string(regexp.MustCompile(`(?m)^ store +save.*$`).Find(text)))
	for _, c := range []struct {
		name string
		call func(context.Context) (spend.Decision, error)
		want []string
	}{
		{"first charge", func(ctx context.Context) (spend.Decision, error) {
			return b.Charge(ctx, spend.Request{ID: "1", Account: "7", Amount: euros(1)})
		}, []string{read, "create take requests watched", "save append answer unused COMMIT"}},
		{"charge", func(ctx context.Context) (spend.Decision, error) {
			return b.Charge(ctx, spend.Request{ID: "2", Account: "7", Amount: euros(1)})
		}, []string{read, "save append answer COMMIT"}},
		{"authorization", func(ctx context.Context) (spend.Decision, error) {
			return b.Authorize(ctx, spend.Request{ID: "3", Account: "7", Amount: euros(2)})
		}, []string{read, "save append answer COMMIT"}},
		{"another authorization", func(ctx context.Context) (spend.Decision, error) {
			return b.Authorize(ctx, spend.Request{ID: "3b", Account: "7", Amount: euros(2)})
		}, []string{read, "save append answer COMMIT"}},
		{"capture", func(ctx context.Context) (spend.Decision, error) {
			return b.Capture(ctx, spend.CaptureRequest{ID: "4", HoldID: "3", Amount: euros(2)})
		}, []string{find, "save append answer spends COMMIT"}},
		{"authorizations of a crowded account", func(ctx context.Context) (d spend.Decision, err error) {
			for i := range 4 {
				d, err = b.Authorize(ctx, spend.Request{ID: fmt.Sprint("crowd", i), Account: "7", Amount: euros(1)})
			}
			return d, err
		}, []string{
			read, "save append answer COMMIT", read, "save append answer COMMIT", read, "save append answer COMMIT",
			read, "save append answer open COMMIT",
		}},
		{"capture there", func(ctx context.Context) (spend.Decision, error) {
			return b.Capture(ctx, spend.CaptureRequest{ID: "4b", HoldID: "crowd3", Amount: euros(1)})
		}, []string{find, "save append answer unhold spends COMMIT"}},
		{"refund", func(ctx context.Context) (spend.Decision, error) {
			return b.Refund(ctx, spend.RefundRequest{ID: "5", SpendID: "3", Amount: euros(1)})
		}, []string{find, "save append answer spends COMMIT"}},
		{"several charges", func(ctx context.Context) (spend.Decision, error) {
			answers := b.ChargeAll(ctx, []spend.Request{
				{ID: "6", Account: "7", Amount: euros(1)}, {ID: "7", Account: "8", Amount: euros(1)}, {ID: "8", Account: "7", Amount: euros(1)},
			})
			return answers[2].Decision, cmp.Or(answers[0].Err, answers[1].Err, answers[2].Err)
		}, []string{read, "create take requests watched", "save append answer unused COMMIT"}},
		{"several charges again", func(ctx context.Context) (spend.Decision, error) {
			answers := b.ChargeAll(ctx, []spend.Request{
				{ID: "9", Account: "7", Amount: euros(1)}, {ID: "10", Account: "8", Amount: euros(1)}, {ID: "11", Account: "7", Amount: euros(1)},
			})
			return answers[2].Decision, cmp.Or(answers[0].Err, answers[1].Err, answers[2].Err)
		}, []string{read, "save append answer COMMIT"}},
		{"new rules", func(ctx context.Context) (spend.Decision, error) {
			return spend.Decision{Approved: true}, l.Decide(ctx, spendload.Revised("other", "text"))
		}, []string{read, "revise COMMIT"}},
		{"move", func(ctx context.Context) (spend.Decision, error) {
			return b.MoveAccount(ctx, spend.MoveRequest{ID: "12", Account: "7", To: "9", Reason: "lost"})
		}, []string{read, "create take requests watched", "requests", "save append answer unused rename COMMIT"}},
		{"first charge under the old name", func(ctx context.Context) (spend.Decision, error) {
			return b.Charge(ctx, spend.Request{ID: "13", Account: "7", Amount: euros(1)})
		}, []string{read, "create take requests watched", "ROLLBACK", read, "save append answer COMMIT"}},
		{"move back", func(ctx context.Context) (spend.Decision, error) {
			return b.MoveAccount(ctx, spend.MoveRequest{ID: "14", Account: "9", To: "7", Reason: "found"})
		}, []string{read, "create take requests watched", "requests", "save append answer unused rename COMMIT"}},
		{"replay", func(ctx context.Context) (spend.Decision, error) {
			return b.Charge(ctx, spend.Request{ID: "2", Account: "7", Amount: euros(1)})
		}, []string{read, "ROLLBACK"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen.list = nil
			if d, err := c.call(t.Context()); err != nil || !d.Approved {
				t.Fatalf("%+v, %v", d, err)
			}
			if !slices.Equal(seen.list, c.want) {
				t.Errorf("round trips %q, want %q", seen.list, c.want)
			}
			if stored := c.want[len(c.want)-1]; stored != "ROLLBACK" && !inOrder(strings.Fields(stored), told) {
				t.Errorf("%s are stored in another order than docs/internals/spend.md has: %s", stored, told)
			}
		})
	}
}
