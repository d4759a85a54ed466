package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// functions is a store over the function decide. It passes transactions of several operations, and
// operations unknown to decide, to a store in Go over the same table.
type functions struct {
	store.Store
	pool   *pgxpool.Pool
	schema string
	clock  func() time.Time
	closed atomic.Bool
}

// function returns the name by which decide knows the operation, or "" if it does not.
func function(op *store.Op) string {
	switch {
	case op.Validate() != nil || op.Hold != 0 || op.Ceiling != 0 || op.Amount < 0 != (op.Mode == store.Always && op.Amount != 0):
	case op.BlockFor != 0 && (op.Mode != store.Block || op.BlockFor == store.UntilEmpty):
	case op.Mode <= store.Unblock:
		return map[store.Mode]string{
			store.IfFits: "try_fillup", store.Clamp: "fillup", store.Ask: "able_to_accept", store.Always: "drain",
			store.Block: "block", store.Unblock: "unblock",
		}[op.Mode]
	}
	return ""
}

// decide calls the function, and reads its answer as a State.
func (f *functions) decide(ctx context.Context, name string, op *store.Op) (st store.State, err error) {
	if err := ctx.Err(); err != nil {
		return st, err
	}
	if f.closed.Load() {
		return st, store.ErrClosed
	}
	var clock *time.Time
	if f.clock != nil {
		now := f.clock()
		clock = &now
	}
	var at, outside, blocked pgtype.Timestamptz
	var retry pgtype.Interval
	var accepted, full pgtype.Bool
	var capacity, rate, level, remaining, held, spilled, drained pgtype.Float8
	err = f.pool.QueryRow(ctx, `SELECT capacity, leak_rate, accepted, level, remaining, retry_after, blocked_until, held, at, filled,
			spilled, drained, outside
		FROM `+f.schema+`.decide($1, $2, $3, $4, $5, $6, $7, $8)`,
		op.Key, name, max(op.Amount, -op.Amount), op.Capacity, op.LeakRate, float64(op.Begins),
		pgtype.Interval{Microseconds: op.BlockFor.Microseconds(), Valid: op.BlockFor != 0}, clock).
		Scan(&capacity, &rate, &accepted, &level, &remaining, &retry, &blocked, &held, &at, &full, &spilled, &drained, &outside)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "XX001":
		return st, store.ErrCorrupt
	case pg != nil:
		return st, err
	case err != nil: // the statement may have reached the server
		return st, errors.Join(store.ErrUnknownOutcome, err)
	case outside.Valid:
		return st, &store.PeriodError{Times: []time.Time{outside.Time.UTC()}}
	}
	st = store.State{
		Accepted: accepted.Bool, Full: full.Bool, Level: level.Float64, Held: held.Float64, Spilled: spilled.Float64,
		Drained: drained.Float64, At: at.Time.UTC(), RetryAfter: store.Never,
	}
	st.SetLimit(store.Limit{Capacity: capacity.Float64, LeakRate: rate.Float64})
	if retry.Valid {
		st.RetryAfter = time.Duration(retry.Microseconds) * time.Microsecond
	}
	if blocked.Valid {
		st.BlockedUntil = blocked.Time.UTC()
	}
	if remaining.Float64 != st.Remaining() {
		return st, fmt.Errorf("remaining is %v; want %v", remaining.Float64, st.Remaining())
	}
	return st, nil
}

func (f *functions) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if name := function(&op); name != "" {
		return f.decide(ctx, name, &op)
	}
	return f.Store.Fill(ctx, op)
}

func (f *functions) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	results := make([]store.Result, len(txns))
	for i, txn := range txns {
		if len(txn) != 1 || function(&txn[0]) == "" {
			found, err := f.Store.Apply(ctx, txn)
			if err != nil {
				return nil, err
			}
			results[i] = found[0]
			continue
		}
		st, err := f.Fill(ctx, txn[0])
		if results[i].Err = err; err == nil {
			results[i] = store.Result{Accepted: st.Accepted || txn[0].Mode == store.Clamp, States: []store.State{st}}
		}
	}
	return results, nil
}

func (f *functions) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	states := make([]store.State, len(buckets))
	for i, b := range buckets {
		st, err := f.decide(ctx, "state", &store.Op{Bucket: b})
		if err != nil {
			return nil, err
		}
		st.Accepted = false
		states[i] = st
	}
	return states, nil
}

func (f *functions) Close() error {
	f.closed.Store(true)
	return f.Store.Close()
}

// TestFunctionsShareOneBucket has 64 sessions, half of them in SQL and half in Go, fill one bucket:
// it holds all units that they were granted.
func TestFunctionsShareOneBucket(t *testing.T) {
	const sessions, calls = 64, 40
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=32&"+quick))
	schema := migrated(t)
	s := over(t, pgtest.Pool(t), postgres.Options{Schema: schema})
	limit := store.Limit{Capacity: sessions * calls}
	execute(t, pool, "SELECT "+schema+".try_fillup('hot', 1, $1, 0)", limit.Capacity)
	var granted, refused atomic.Int64
	granted.Add(1)
	concurrently(t, sessions*calls, func(i int64) (err error) {
		n, accepted := 1+i%4, false
		if i%2 == 0 {
			err = pool.QueryRow(t.Context(), "SELECT accepted FROM "+schema+".try_fillup('hot', $1, $2, 0)", float64(n), limit.Capacity).Scan(&accepted)
		} else {
			var st store.State
			st, err = s.Fill(t.Context(), op(limit.For("hot"), float64(n), store.IfFits))
			accepted = st.Accepted
		}
		if accepted {
			granted.Add(n)
		} else {
			refused.Add(1)
		}
		return err
	})
	if granted.Load() > int64(limit.Capacity) || int64(limit.Capacity)-granted.Load() > 3 || refused.Load() == 0 {
		t.Errorf("%d of %v units were granted, and %d calls refused", granted.Load(), limit.Capacity, refused.Load())
	}
	levelIs(t, s, "hot", float64(granted.Load()))
}

// TestFunctionRefusalsLockNothing: a refusal answers at once beside a transaction that holds the
// row, and leaves the row as it is; an acceptance waits.
func TestFunctionRefusalsLockNothing(t *testing.T) {
	schema, pool := migrated(t), pgtest.Pool(t)
	execute(t, pool, "SELECT "+schema+".try_fillup('k', 10, 10, 0)")
	defer lockRow(t, pool, schema, "k")()
	version := "SELECT xmin::text || xmax::text FROM " + table(t, schema)
	before := scalar[string](t, pool, version)
	for call, waits := range map[string]bool{
		"try_fillup('k', 1, 10, 0)": false, "able_to_accept('k', 1, 20, 0)": false, "state('k')": false, "try_fillup('k', 11, 10, 1)": false,
		"try_fillup('k', 0, 10, 0)": false, "unblock('k')": false,
		"try_fillup('k', 1, 11, 0)": true, "try_fillup('k', 1, 10, 1)": true, "drain('k', 1, 10, 0)": true, "block('k', '1 s')": true,
	} {
		_, err := pool.Exec(t.Context(), "SET lock_timeout = 50; SELECT "+schema+"."+call+"; RESET lock_timeout", pgx.QueryExecModeSimpleProtocol)
		var pg *pgconn.PgError
		if late := errors.As(err, &pg) && pg.Code == "55P03"; late != waits || err != nil && !late {
			t.Errorf("%s beside a holder of the row: %v; want that it waits: %v", call, err, waits)
		}
		if _, err := pool.Exec(t.Context(), "RESET lock_timeout"); err != nil {
			t.Fatal(err)
		}
	}
	if after := scalar[string](t, pool, version); after != before {
		t.Errorf("the row has version %s after refusals, and had %s", after, before)
	}
}

// TestFunctionRights gives a role the lines at the end of the migration, and no others.
func TestFunctionRights(t *testing.T) {
	owner, schema := pgtest.Pool(t), migrated(t)
	role := schema + "_sql"
	execute(t, owner, "CREATE ROLE "+role)
	defer execute(t, owner, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	files, err := migrations.Files(&migrations.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(files, "0003_functions.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	pool := pgtest.PoolAt(t, pgtest.With(t, "role="+role))
	calls := []string{
		"try_fillup('k', 1, 10, 1)", "fillup('k', 1, 10, 1)", "able_to_accept('k', 1, 10, 1)", "drain('k', 1, 10, 1)", "state('k', 10, 1)",
		"state('k')", "block('k', '1 s')", "unblock('k')",
		"try_fillup('q', 1, '10/day@UTC')", "fillup('q', 1, '10/h')", "able_to_accept('q', 1, '10/h')", "drain('q', 1, '10/h')", "state('q', '10/h')",
	}
	check := func(granted string, denied bool) {
		t.Helper()
		for _, call := range calls {
			_, err := pool.Exec(t.Context(), "SELECT "+schema+"."+call)
			var pg *pgconn.PgError
			if errors.As(err, &pg) != denied || denied && pg.Code != "42501" {
				t.Errorf("%s with %s: %v; want 42501: %v", call, granted, err, denied)
			}
		}
	}
	lines := regexp.MustCompile(`(?m)^--   (GRANT (.*)) TO app;$`).FindAllStringSubmatch(string(text), -1)
	if len(lines) != 20 {
		t.Fatalf("found %d lines of rights; want 20", len(lines))
	}
	execute(t, owner, lines[0][1]+" TO "+role)
	check("the schema alone", true)
	execute(t, owner, lines[1][1]+" TO "+role)
	check("the table", true)
	for _, line := range lines[2:] {
		execute(t, owner, line[1]+" TO "+role)
	}
	check("all lines", false)
	execute(t, owner, "REVOKE ALL ON "+table(t, schema)+" FROM "+role)
	check("all lines but those of the table", true)
}

// TestFunctionsOfOtherTables: two tables of one schema have functions of their own.
func TestFunctionsOfOtherTables(t *testing.T) {
	schema, pool := migrated(t), pgtest.Pool(t)
	for _, name := range []string{"try", "fillup", `Limits "$brim$"`} {
		if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema, Table: name}); err != nil {
			t.Fatal(err)
		}
		execute(t, pool, "SELECT "+schema+"."+pgname.Quote("try_fillup_"+name)+"('k', 2, '10/month@UTC')")
		if n := scalar[float64](t, pool, "SELECT level FROM "+schema+"."+pgname.Quote("state_"+name)+"('k')"); n != 2 {
			t.Errorf("the bucket of %s has level %v; want 2", name, n)
		}
	}
	if n := scalar[float64](t, pool, "SELECT level FROM "+schema+".state('k')"); n != 0 {
		t.Errorf("the bucket of the default table has level %v; want 0", n)
	}
}
