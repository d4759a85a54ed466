package pgledger_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

// moving matches a block of statements of the page about the move, with the server for which it is.
var moving = regexp.MustCompile("(?s)   ```sql\n   -- (old|new) server\n(.*?)   ```\n")

// TestMove runs the statements of the documentation that move a ledger to another server by logical
// replication. Callers spend on new accounts until they lose the right, and send the spend that
// failed again to the new server. Each spend must be approved once. At last, the copy of the table
// of migrations must fail, as the page says.
func TestMove(t *testing.T) {
	const callers, limit, before = 4, 3, 100
	text, err := os.ReadFile("../../docs/postgres-upkeep.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := moving.FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 4 {
		t.Fatalf("the page has %d blocks of statements; want 4", len(blocks))
	}
	servers := map[string]*pgtest.Server{"old": pgtest.NewServer(t, "wal_level = logical"), "new": pgtest.NewServer(t)}
	admins := make(map[string]*pgxpool.Pool)
	budgets := make(map[string]*spend.Budgets)
	for _, name := range []string{"old", "new"} {
		admin := servers[name].Pool(t)
		if err := migrations.Up(t.Context(), admin, nil); err != nil {
			t.Fatal(err)
		}
		run(t, admin, `CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA brim TO app;
			GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA brim TO app`)
		admins[name] = admin
	}
	open := func(name string) *spend.Budgets {
		app := pgtest.PoolAt(t, strings.Replace(servers[name].URL(), "postgres@", "app@", 1))
		return budgetOf(t, over(t, app, nil), "cards", spend.Lifetime("ever", eur(limit)))
	}
	budgets["old"] = open("old")

	// Each caller fills accounts of its own, one after the other, a cent a spend.
	var approved [callers]int
	var done atomic.Int64
	charge := func(b *spend.Budgets, caller int) error {
		n := approved[caller]
		d, err := b.Charge(t.Context(), spend.Request{
			ID: fmt.Sprint(caller, "/", n), Account: fmt.Sprint(caller, "-", n/limit), Amount: eur(1),
		})
		if err == nil && !d.Approved {
			err = fmt.Errorf("spend %d of caller %d was declined", n, caller)
		}
		if err == nil {
			approved[caller]++
			done.Add(1)
		}
		return err
	}
	var spending sync.WaitGroup
	for caller := range callers {
		spending.Go(func() {
			var err error
			for err == nil {
				err = charge(budgets["old"], caller)
			}
			if !errors.Is(err, store.ErrMisconfigured) {
				t.Errorf("caller %d ended with %v; want the lost right", caller, err)
			}
		})
	}
	more := func() { // waits for spends in between
		t.Helper()
		for n := done.Load(); done.Load() < n+before; {
			await(t, admins["old"], "SELECT true")
		}
	}
	doctor := func(want string) {
		t.Helper()
		list, err := pgledger.Check(t.Context(), admins["new"], nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range list {
			got = append(got, f.Subject)
		}
		if strings.Join(got, ", ") != want {
			t.Fatalf("a check of the new server finds %+v; want %q", list, want)
		}
	}

	host := regexp.MustCompile(`CONNECTION '.*?'`)
	address := fmt.Sprintf("CONNECTION '%s'", servers["old"].URL())
	for step, block := range blocks {
		if step < len(blocks)-1 {
			more()
		} else { // the callers have ended
			doctor("identity")
			budgets["new"] = open("new")
			fresh := spend.Request{ID: "fresh", Account: "fresh", Amount: eur(1)}
			if _, err := budgets["new"].Charge(t.Context(), fresh); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "brim doctor") {
				t.Errorf("a new account before the sequence is set: %v", err)
			}
		}
		for _, sql := range strings.Split(strings.TrimSuffix(strings.TrimSpace(block[2]), ";"), ";") {
			sql = host.ReplaceAllString(strings.TrimSpace(sql), address)
			switch {
			case strings.HasPrefix(sql, "SELECT setval"), !strings.HasPrefix(sql, "SELECT"):
				run(t, admins[block[1]], sql)
			default:
				await(t, admins[block[1]], "SELECT COALESCE(("+sql+"), false)")
			}
			if strings.HasPrefix(sql, "REVOKE") {
				spending.Wait()
			}
		}
	}
	doctor("")
	moved := done.Load()
	for caller := range callers {
		for range 2 * limit {
			if err := charge(budgets["new"], caller); err != nil {
				t.Error(err)
			}
		}
		for n := 0; n*limit < approved[caller]; n++ {
			want := eur(int64(min(limit, approved[caller]-n*limit)))
			used, err := budgets["new"].Remaining(t.Context(), fmt.Sprint(caller, "-", n))
			if err != nil || used[0].Used != want {
				t.Fatalf("account %d of caller %d: %+v, %v; want %v used", n, caller, used, err, want)
			}
		}
	}
	accounts, err := budgets["new"].VerifyAll(t.Context())
	if err != nil {
		t.Errorf("VerifyAll: %v", err)
	}
	if query[int](t, admins["new"], "SELECT current_setting('server_version_num')::int") >= 150000 { // which counts such errors
		run(t, admins["old"], "CREATE PUBLICATION whole FOR TABLE brim.buckets_migrations")
		run(t, admins["new"], "CREATE SUBSCRIPTION whole "+address+" PUBLICATION whole")
		await(t, admins["new"], "SELECT sync_error_count > 0 FROM pg_stat_subscription_stats WHERE subname = 'whole'")
	}
	t.Logf("%d spends of %d accounts, %d of them before the move", done.Load(), accounts, moved)
}
