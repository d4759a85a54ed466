package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/internal/supervisor"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// functions is a store over the function decide. It passes transactions of several operations, and what
// decide does not know, to a store in Go over the same table.
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

// TestFunctionsShareOneBucket has 64 sessions, half of them in SQL and half in Go, fill one bucket: what
// they are granted is what it holds.
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

// periodsOf are texts of quotas with every kind of start.
func periodsOf(zone string) (texts []string) {
	for _, unit := range []string{"hour", "day", "week", "week,sunday", "month", "month,15", "month,29", "month,30", "month,31", "year"} {
		texts = append(texts, "1/"+unit+"@"+zone)
		for _, clock := range []string{"00:30", "02:30", "23:59"} {
			if unit != "hour" {
				texts = append(texts, "1/"+unit+","+clock+"@"+zone)
			}
		}
	}
	return texts
}

// TestFunctionPeriods compares the periods of quotas with those of Go, in zones with every kind of change
// of clocks: around the changes, and at the beginnings and ends.
func TestFunctionPeriods(t *testing.T) {
	schema, pool := migrated(t), pgtest.Pool(t)
	years := seed.Attempts(3, 65) // some of them by day
	for i, name := range []string{
		"Europe/Berlin", "America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "Pacific/Kwajalein", "Asia/Manila", "Africa/Cairo",
		"Asia/Gaza", "America/Havana", "Antarctica/Troll", "Asia/Kathmandu", "UTC", "America/New_York", "Australia/Lord_Howe",
		"Africa/Casablanca", "Europe/London", "America/Nuuk", "Asia/Tehran", "Pacific/Chatham", "Africa/Monrovia",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(1971+i*7%(66-years), 1, 1, 0, 0, 0, 0, time.UTC)
		until := from.AddDate(years, 0, 0)
		instants := []time.Time{from, until}
		for at := from; at.Before(until); {
			_, change := at.In(zone).ZoneBounds()
			if change.IsZero() || !change.After(at) {
				break
			}
			for _, d := range []time.Duration{-24 * time.Hour, -time.Hour, -30 * time.Minute, -time.Microsecond, 0, time.Minute, 30 * time.Minute, time.Hour, 24 * time.Hour} {
				instants = append(instants, change.Add(d))
			}
			at = change
		}
		for _, text := range periodsOf(name) {
			limit, err := store.ParseLimit(text)
			if err != nil {
				t.Fatal(err)
			}
			times := slices.Clone(instants)
			for _, at := range instants {
				begins, ends := limit.PeriodAt(at)
				times = append(times, begins, ends.Add(-time.Microsecond))
			}
			rows, _ := pool.Query(t.Context(), "SELECT p.begins::int8, p.ends::int8 FROM "+schema+".parse_limit($1) AS l, unnest($2::timestamptz[]) WITH ORDINALITY AS u (at, i), "+
				schema+".period_at(l.anchor, l.width, l.zone, u.at) AS p ORDER BY u.i", text, times)
			got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (span [2]int64, err error) { return span, row.Scan(&span[0], &span[1]) })
			if err != nil || len(got) != len(times) {
				t.Fatalf("%s: %d of %d periods, %v", text, len(got), len(times), err)
			}
			for i, at := range times {
				begins, ends := limit.PeriodAt(at)
				if got[i] != [2]int64{begins.UnixMicro(), ends.UnixMicro()} {
					t.Errorf("%s at %v is %v to %v; in Go %v to %v", text, at.UTC(), time.UnixMicro(got[i][0]).UTC(), time.UnixMicro(got[i][1]).UTC(), begins, ends)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}

// TestFunctionTexts compares the limits of texts with those of Go. refused marks texts that Go reads.
func TestFunctionTexts(t *testing.T) {
	schema, pool := migrated(t), pgtest.Pool(t)
	for text, refused := range map[string]bool{
		"100/1h": false, "100/h": false, "1/3s": false, "7.5/1d12h": false, "100/2w": false, "5./.5h": false, "1e3/1ms": false, "0.1/90s": false,
		"100@0.5": false, "100@0": false, "1e15@1e-12": false, "+5@1": false, "3/h30m": false, "9/1.000000001s": false, "9/1us": false, "9/1µs": false,
		"1/0.333333333333s": false, "10/100000h": false,
		"": false, "100": false, "100/": false, "100/1": false, "-1/h": false, "1/-1h": false, "1/0s": false, "NaN@1": false, "inf/h": false, "0x1p4/h": false,
		"1e400/h": false, "1/1h@": false, "1/day": false, "1/day@": false, "1/day@Local": false, "1/day@Mars/Base": false, "1/fortnight@UTC": false,
		"1/hour,06:00@UTC": false, "1/week,funday@UTC": false, "1/month,32@UTC": false, "1/day,24:00@UTC": false, "1/1.5.2h": false, "1/1hm": false,
		"0@0": false, "9007199254740993e3@1": false, "1@1e-13": false, "1/300y": false, "1/400000w": false,
		"1/day@EST": true, "1/day@EST5EDT": true, "1.00000000000000000000000000000000000000001/h": true,
	} {
		limit, invalid := store.ParseLimit(text)
		var capacity, rate float64
		err := pool.QueryRow(t.Context(), "SELECT capacity, leak_rate FROM "+schema+".try_fillup('k', 0, $1) AS f, "+schema+".parse_limit($1)", text).Scan(&capacity, &rate)
		var pg *pgconn.PgError
		switch {
		case invalid != nil || refused:
			if !errors.As(err, &pg) || pg.Code != "22023" {
				t.Errorf("%q is read as %v, %v, %v; in Go as %v, %v", text, capacity, rate, err, limit, invalid)
			}
		case err != nil || capacity != limit.Capacity || rate != limit.LeakRate:
			t.Errorf("%q is read as %v, %v, %v; in Go as %v, %v", text, capacity, rate, err, limit.Capacity, limit.LeakRate)
		}
	}
	// The special limits count nothing, but drain and read.
	b := store.Limit{Capacity: 10}.For("k")
	s := over(t, pool, postgres.Options{Schema: schema})
	fill(t, s, op(b, 4, store.IfFits))
	for call, want := range map[string]string{
		"try_fillup('k', 1, 'nobody')": "(f,0,0,,)", "try_fillup('k', 0, '0')": "(t,0,0,00:00:00,)", "fillup('k', 1, '0/1h')": "(f,0,0,,)",
		"able_to_accept('k', 1, '0/day@UTC')": "(f,0,0,,)", "try_fillup('k', 1e9, 'unlimited')": "(t,0,9.007199254740992e+15,00:00:00,)",
		"state('k', 'nobody')": "(4,0,)", "state('k', 'unlimited')": "(4,9.007199254740988e+15,)", "state('k')": "(4,6,)", "state('k', 5, 0)": "(4,1,)",
		"state('k', '5/day@UTC')": "(4,1,)", "drain('k', 0, 'nobody')": "(t,4,0,00:00:00,)",
	} {
		if got := scalar[string](t, pool, "SELECT "+schema+"."+call+"::text"); got != want {
			t.Errorf("%s is %s; want %s", call, got, want)
		}
	}
}

// TestFunctionErrors gives the functions bad input, which they refuse in Go's words.
func TestFunctionErrors(t *testing.T) {
	schema, pool := migrated(t), pgtest.Pool(t)
	limit := store.Limit{Capacity: 10, LeakRate: 1}
	for _, c := range []struct {
		why string
		op  store.Op
	}{
		{"an empty key", op(limit.For(""), 1, store.IfFits)},
		{"a long key", op(limit.For(strings.Repeat("é", 257)), 1, store.IfFits)},
		{"no limit", op(store.Bucket{Key: "k"}, 1, store.IfFits)},
		{"a negative capacity", op(store.Limit{Capacity: -1, LeakRate: 1}.For("k"), 1, store.IfFits)},
		{"a capacity that is no number", op(store.Limit{Capacity: math.NaN(), LeakRate: 1}.For("k"), 1, store.Clamp)},
		{"a large capacity", op(store.Limit{Capacity: 1 << 54}.For("k"), 1, store.Clamp)},
		{"a negative leak rate", op(store.Limit{Capacity: 1, LeakRate: -1}.For("k"), 1, store.Ask)},
		{"a small leak rate", op(store.Limit{Capacity: 1, LeakRate: 1e-13}.For("k"), 1, store.Ask)},
		{"an amount that is no number", op(limit.For("k"), math.NaN(), store.IfFits)},
		{"a large amount", op(limit.For("k"), 1<<54, store.IfFits)},
		{"an infinite amount", op(limit.For("k"), math.Inf(1), store.Clamp)},
		{"an amount that is lost", op(store.Limit{Capacity: 1 << 53}.For("k"), 1, store.IfFits)},
	} {
		want := c.op.Validate()
		name := map[store.Mode]string{store.IfFits: "try_fillup", store.Clamp: "fillup", store.Ask: "able_to_accept"}[c.op.Mode]
		_, err := pool.Exec(t.Context(), "SELECT "+schema+"."+name+"($1, $2, $3, $4)", c.op.Key, c.op.Amount, c.op.Capacity, c.op.LeakRate)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || strings.ReplaceAll(pg.Message, "Infinity", "+Inf") != want.Error() {
			t.Errorf("%s: %v; want 22023 and %q", c.why, err, want)
		}
	}
	for _, call := range []string{
		"try_fillup('k', -1, 10, 1)", "drain('k', -1, 10, 1)", "drain('k', 'NaN', 10, 1)", "block('k', '0')", "block('k', '-1 s')", "block('k', null)",
		"try_fillup(null, 1, 10, 1)", "try_fillup('k', null, 10, 1)", "try_fillup('k', 1, null, 1)", "try_fillup('k', 1, 10, null)",
		"try_fillup('k', 1, null::text)", "state('')", "unblock('')", "state('k', 'x')", "try_fillup('', 1, 'nobody')", "try_fillup('k', -1, 'unlimited')",
	} {
		var pg *pgconn.PgError
		if _, err := pool.Exec(t.Context(), "SELECT "+schema+"."+call); !errors.As(err, &pg) || pg.Code != "22023" {
			t.Errorf("%s: %v; want 22023", call, err)
		}
	}
	if n := scalar[int](t, pool, "SELECT count(*) FROM "+table(t, schema)); n != 0 {
		t.Errorf("invalid calls have made %d buckets", n)
	}
	execute(t, pool, "INSERT INTO "+table(t, schema)+" (key, level, atime, capacity, leak_rate) VALUES ('k', 'NaN', now(), 1, 1)")
	var pg *pgconn.PgError
	if _, err := pool.Exec(t.Context(), "SELECT "+schema+".try_fillup('k', 1, 1, 1)"); !errors.As(err, &pg) || pg.Code != "XX001" {
		t.Errorf("a damaged row: %v; want XX001", err)
	}
}

// TestFunctionRefusalsLockNothing: a refusal answers at once beside a transaction that holds the row, and
// leaves the row as it is; an acceptance waits.
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

// blocks returns the code of a page in a language.
func blocks(t *testing.T, page, language string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		list = append(list, m[1])
	}
	if len(list) == 0 {
		t.Fatalf("%s has no code in %s", page, language)
	}
	return list
}

// run runs a program, and returns its output.
func run(t *testing.T, input string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+pgtest.URL(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command[0], err, out)
	}
	return string(out)
}

// runs returns a program of Debian that runs the code, or else installs the package that the code needs.
func runs(t *testing.T, pkg, program, code string) string {
	t.Helper()
	check := func() ([]byte, error) {
		return exec.CommandContext(t.Context(), program, code[:2], code[3:]).CombinedOutput()
	}
	if _, err := check(); err == nil {
		return program
	}
	if err := supervisor.Install(os.Stderr, pkg); err != nil {
		t.Fatalf("this test needs %s of Debian: %v", pkg, err)
	}
	if out, err := check(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	return program
}

// TestPsql runs the commands of docs/sql.md by psql.
func TestPsql(t *testing.T) {
	schema := migrated(t)
	psql, err := supervisor.Find(os.Stderr, "postgresql-client", "psql")
	if err != nil {
		t.Fatalf("this test needs psql, which comes with PostgreSQL: %v", err)
	}
	for i, sql := range blocks(t, "../docs/sql.md", "sql") {
		out := run(t, strings.ReplaceAll(sql, "brim.", schema+"."), psql, "-XqAt", "-v", "ON_ERROR_STOP=1", pgtest.URL(t))
		if want := blocks(t, "../docs/sql.md", "text"); i < len(want) {
			if out = strings.ReplaceAll(out, "\r", ""); out != want[i] {
				t.Errorf("psql prints %q; docs/sql.md %q", out, want[i])
			}
		}
	}
}

// TestLanguages runs the programs of docs/sql.md, and the throttle of docs/from/pecorino.md beside a
// program in Go. It installs the libraries where they are missing.
func TestLanguages(t *testing.T) {
	if os.Getenv("BRIM_TORTURE") != "1" {
		t.Skip("BRIM_TORTURE=1 runs the programs in Python and Ruby")
	}
	python := runs(t, "python3-psycopg", "/usr/bin/python3", "-c import psycopg")
	ruby := runs(t, "ruby-pg", "/usr/bin/ruby", `-e require "pg"`)
	schema := migrated(t)
	in := func(code string) string { return strings.ReplaceAll(code, "brim.", schema+".") }
	if got := run(t, in(blocks(t, "../docs/sql.md", "python")[0]), python, "-"); got != "True 0:00:00\n" {
		t.Errorf("Python prints %q", got)
	}
	if got := run(t, in(blocks(t, "../docs/sql.md", "ruby")[0]), ruby, "-"); got != "true\n00:00:00\n" {
		t.Errorf("Ruby prints %q", got)
	}
	s := over(t, pgtest.Pool(t), postgres.Options{Schema: schema})
	limit := store.Limit{Capacity: 300}
	var inGo atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 4 * 300 {
			if st, err := s.Fill(t.Context(), op(limit.For("vault"), 1, store.IfFits)); err != nil {
				t.Error(err)
			} else if st.Accepted {
				inGo.Add(1)
			}
		}
	})
	var inRuby int64
	program := in(blocks(t, "../docs/from/pecorino.md", "ruby")[1]) + `
throttle = Throttle.new(PG.connect(ENV["DATABASE_URL"]), key: "vault", limit: "300@0")
puts 300.times.count { begin; throttle.request!; true; rescue Throttle::Throttled; false; end }
`
	if _, err := fmt.Sscan(run(t, program, ruby, "-"), &inRuby); err != nil {
		t.Error(err)
	}
	wg.Wait()
	t.Logf("Go was granted %d, and Ruby %d", inGo.Load(), inRuby)
	if sum := inGo.Load() + inRuby; sum != 300 || inRuby == 0 {
		t.Errorf("Go was granted %d, and Ruby %d; want 300 together, and some in Ruby", inGo.Load(), inRuby)
	}
}

// BenchmarkFunction has a lone caller fill a bucket by the function, in turns with a bare UPDATE of its row.
// It reports the rates, and the part of the rate of the UPDATE that the function reaches.
func BenchmarkFunction(b *testing.B) {
	const turn = 250 * time.Millisecond
	pool := pgtest.PoolAt(b, pgtest.With(b, "pool_max_conns=1"))
	schema := migrated(b)
	var calls, took [3]float64
	statements := [3]string{
		"UPDATE " + table(b, schema) + " SET level = level + 1 WHERE key = $1",
		"SELECT * FROM " + schema + ".try_fillup($1, 1, 1e12, 1)",
		"SELECT * FROM " + schema + ".try_fillup($1, 1, '1e12/month@UTC')",
	}
	run := func() {
		for i, sql := range statements {
			begin := time.Now()
			for time.Since(begin) < turn {
				execute(b, pool, sql, fmt.Sprint("k", i))
				calls[i]++
			}
			took[i] += time.Since(begin).Seconds()
		}
	}
	execute(b, pool, "SELECT "+schema+".try_fillup('k0', 1, 1e12, 1)")
	run()
	calls, took = [3]float64{}, [3]float64{}
	for b.Loop() {
		run()
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"updates/s", "functions/s", "quotas/s"} {
		b.ReportMetric(calls[i]/took[i], name)
	}
	b.ReportMetric(calls[1]/took[1]/(calls[0]/took[0]), "ratio")
	b.ReportMetric(calls[2]/took[2]/(calls[0]/took[0]), "ratio-quota")
}
