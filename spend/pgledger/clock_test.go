package pgledger_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

// TestClocksApart: a ledger refuses to decide, to tell and to prune if the server's clock is an
// hour or more away from that of the process. Otherwise a server that is a year ahead would take
// its accounts along, and a Prune would remove all that it keeps.
func TestClocksApart(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	steady := func(off time.Duration) func() time.Time {
		return func() time.Time { return time.Now().Add(off) }
	}
	stopped := func() func() time.Time { // for a year, during each round trip
		n := 0
		return func() time.Time { n++; return time.Now().AddDate(-(n % 2), 0, 0) }
	}
	nextYear := func() time.Time { return time.Now().AddDate(1, 0, 0) }
	for _, c := range []struct {
		name    string
		process func() time.Time
		server  func() time.Time // injected; nil for the server's own
		refused bool
	}{
		{"together", steady(0), nil, false},
		{"the process ahead by less", steady(59 * time.Minute), nil, false},
		{"the process behind by less", steady(-59 * time.Minute), nil, false},
		{"the process ahead", steady(61 * time.Minute), nil, true},
		{"the process behind", steady(-61 * time.Minute), nil, true},
		{"the process stopped in between", stopped(), nil, false},
		{"an injected clock", steady(0), nextYear, false},
		{"an injected clock, and the process ahead of the server", steady(61 * time.Minute), time.Now, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := over(t, pool, &postgres.Options{Schema: schema, Clock: c.server})
			pgledger.SetProcess(l, time.Now)
			cards, empty := budgetOf(t, l, "cards", spend.Lifetime("ever", eur(1000))), budgetOf(t, l, "empty", spend.Lifetime("ever", eur(1000)))
			pgledger.SetProcess(l, c.process)
			for name, call := range map[string]func(context.Context, ledger.Ledger) error{
				"New": func(ctx context.Context, l ledger.Ledger) error {
					_, err := spend.New(ctx, l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", eur(1000))}}, nil)
					return err
				},
				"Charge": func(ctx context.Context, l ledger.Ledger) error {
					_, err := cards.With(l).Charge(ctx, spend.Request{ID: c.name, Account: c.name, Amount: eur(1)})
					return err
				},
				"AbleToAccept": func(ctx context.Context, l ledger.Ledger) error {
					_, err := cards.With(l).AbleToAccept(ctx, spend.Request{Account: c.name, Amount: eur(1)})
					return err
				},
				"Prune": func(ctx context.Context, l ledger.Ledger) error {
					_, err := empty.With(l).Prune(ctx)
					return err
				},
			} {
				tx, err := pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for where, err := range map[string]error{
					name: call(t.Context(), l), name + " in a transaction": call(t.Context(), l.With(tx)), "Ping": l.Ping(t.Context()),
				} {
					if !c.refused && err != nil {
						t.Errorf("%s: %v", where, err)
					}
					if c.refused {
						wantError(t, err, store.ErrMisconfigured)
						if err != nil && !tells(err, time.Now(), c.process()) || !strings.Contains(err.Error(), "chrony") {
							t.Errorf("%s: %v; want both times and the remedy", where, err)
						}
					}
				}
				if err := tx.Rollback(t.Context()); err != nil {
					t.Error(err)
				}
			}
			n := 1
			if c.refused {
				n = 0
			}
			if entries, err := l.History(t.Context(), "cards/"+c.name, ledger.Position{}, 10); err != nil || len(entries) != n {
				t.Errorf("%d entries, %v; want %d", len(entries), err, n)
			}
			found, err := pgledger.CheckBy(t.Context(), l)
			if wrong := len(found) > 0 && found[0].Severity == store.Broken && found[0].Subject == "clock"; err != nil || wrong != c.refused {
				t.Errorf("the check finds %+v, %v; want a wrong clock: %v", found, err, c.refused)
			}
		})
	}
}

var instant = regexp.MustCompile(`\d{4}-\S+Z`)

// tells reports whether an error has these times, to a minute.
func tells(err error, times ...time.Time) bool {
	found := instant.FindAllString(err.Error(), -1)
	for i, want := range times {
		if i >= len(found) {
			return false
		}
		if got, err := time.Parse(time.RFC3339, found[i]); err != nil || got.Sub(want).Abs() > time.Minute {
			return false
		}
	}
	return true
}
