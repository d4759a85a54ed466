package main

import (
	"fmt"
	"math"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// build builds the program as a reader does.
func build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "ingest")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// database returns a pool whose tables are in a schema of their own, and the name of the store
// there.
func database(t *testing.T) (pool *pgxpool.Pool, name string) {
	t.Helper()
	schema := pgtest.Schema(t)
	u, err := url.Parse(pgtest.With(t, "search_path="+schema))
	if err != nil {
		t.Fatal(err)
	}
	pool = pgtest.PoolAt(t, u.String())
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("brim_schema", schema)
	u.RawQuery = q.Encode()
	return pool, u.String()
}

// TestProcesses has four processes write rows of one tenant at once. No window of the rows' own
// times has more rows than the limit admits in it, no row is missing, and a refusal leaves no dead
// rows.
func TestProcesses(t *testing.T) {
	const capacity, rate, rows = 1000, 4000.0, 3000
	program := build(t)
	for _, way := range []string{"refuse", "part", "wait"} {
		t.Run(way, func(t *testing.T) {
			pool, name := database(t)
			var wg sync.WaitGroup
			for _, batch := range []int{100, 100, 100, capacity} {
				wg.Go(func() {
					out, err := exec.CommandContext(t.Context(), program, "-store", name, "-limit", fmt.Sprintf("%d@%v", capacity, rate),
						"-rows", fmt.Sprint(rows), "-batch", fmt.Sprint(batch), "-way", way).CombinedOutput()
					if err != nil {
						t.Errorf("%v: %s", err, out)
					}
					t.Logf("batches of %d: %s", batch, out)
				})
			}
			wg.Wait()
			var at time.Time
			n, earlier := 0, math.Inf(1) // the least of the rows before less those that had leaked
			var first time.Time
			_, err := pgx.ForEachRow(query(t, pool, "SELECT charged FROM events ORDER BY charged"), []any{&at}, func() error {
				if n == 0 {
					first = at
				}
				leaked := rate * at.Sub(first).Seconds()
				earlier = min(earlier, float64(n)-leaked)
				n++
				if over := float64(n) - leaked - earlier; over > capacity+rate/1e6+1e-6 {
					return fmt.Errorf("the window that ends %v after the first row has %v rows more than leak in it", at.Sub(first), over)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			if n != 4*rows {
				t.Errorf("%d rows are in the table, want %d", n, 4*rows)
			}
			if dead := dead(t, pool); dead != 0 {
				t.Errorf("%d dead rows are in the table, want none: the limit decides before rows go in", dead)
			}
		})
	}
}

func query(t *testing.T, pool *pgxpool.Pool, sql string) pgx.Rows {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// dead returns the number of rows that transactions have inserted and rolled back. A server's
// process tells the statistics when it ends, soon after its client.
func dead(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	const sql = `SELECT (SELECT n_tup_ins FROM pg_stat_user_tables WHERE relid = 'events'::regclass) - (SELECT count(*) FROM events)`
	for until := time.Now().Add(10 * time.Second); ; {
		if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n >= 0 {
			return n
		}
		if time.Now().After(until) {
			t.Fatalf("the statistics lack %d rows", -n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestRefused calls the program with arguments that cannot be right.
func TestRefused(t *testing.T) {
	program := build(t)
	_, name := database(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-store", name, "-way", "perhaps"}, "it must be refuse, part or wait"},
		{[]string{"-store", name, "-batch", "5001"}, "from 1 to 5000, the capacity; a larger batch never fits"},
		{[]string{"-store", name, "-batch", "0"}, "from 1 to 5000"},
		{[]string{"-store", name, "-limit", "many"}, "invalid limit"},
		{[]string{"-store", "memory:"}, "postgres://host/database"},
	} {
		out, err := exec.Command(program, c.args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q printed %s, %v; want an error that contains %q", c.args, out, err, c.want)
		}
	}
}
