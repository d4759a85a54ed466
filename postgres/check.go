package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// Check asks the server for settings and states that break or weaken the promises of a store with
// the options o: its version and role, the settings of durability, the table and its version, the
// rights of the user, a pooler, and dead rows. o may be nil. Check needs no rights but those to
// connect; a finding that is [store.Unchecked] tells which question the server did not answer. It
// writes nothing.
//
// An error means that the server gave no answer, or that an option is invalid.
func Check(ctx context.Context, pool *pgxpool.Pool, o *Options) ([]store.Finding, error) {
	options := Options{}
	if o != nil {
		options = *o
	}
	options.PruneEvery = 0
	s, err := newStore(pool, options)
	if err != nil {
		return nil, store.Wrap("postgres", "check", err)
	}
	defer func() { _ = s.Close() }()
	var k *checker
	err = s.run.Look(ctx, "check", func(ctx context.Context, conn *pgxpool.Conn) error {
		k = &checker{conn: conn.Conn(), names: s.run.Names}
		k.hosts(pool.Config().ConnConfig, s.run.Timeout)
		for _, step := range []func(context.Context) error{k.server, k.table, k.migrations} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return k.pooler(ctx, pool)
	})
	if err != nil {
		return nil, err
	}
	return k.findings, nil
}

// checker collects the findings of Check.
type checker struct {
	conn     *pgx.Conn
	names    pgname.Names
	findings []store.Finding
}

// sql returns the statement of a file.
func (k *checker) sql(name string) string { return renderer(k.names)(name, read("sql", name+".sql")) }

func (k *checker) add(severity store.Severity, subject, problem, remedy string) {
	k.findings = append(k.findings, store.Finding{Severity: severity, Subject: subject, Problem: problem, Remedy: remedy})
}

// plain keeps the questions of Check from being prepared, so that they work through any pooler.
const plain = pgx.QueryExecModeExec

// settings are those settings of the server and of the session that Check judges.
type settings struct {
	synchronousCommit, standbyNames, fsync, fullPageWrites, readOnly, autovacuum string
	replica                                                                      bool
}

// server judges the settings of the server and of the session.
func (k *checker) server(ctx context.Context) error {
	var number int
	var version string
	var s settings
	err := k.conn.QueryRow(ctx, k.sql("check_server"), plain).
		Scan(&number, &version, &s.synchronousCommit, &s.standbyNames, &s.fsync, &s.fullPageWrites, &s.readOnly,
			&s.autovacuum, &s.replica)
	if err != nil {
		return err
	}
	k.version(number, version)
	k.settings(s)
	if s.standbyNames == "" || s.synchronousCommit == "off" || s.synchronousCommit == "local" {
		return nil
	}
	return k.commits(ctx)
}

// commits tries whether the pool shows warnings of the server to the store.
func (k *checker) commits(ctx context.Context) error {
	// Outside of a transaction, a ROLLBACK succeeds with a warning.
	pgrun.Warned(k.conn.PgConn())
	if _, err := k.conn.Exec(ctx, "ROLLBACK", plain); err != nil {
		return err
	}
	if !pgrun.Warned(k.conn.PgConn()) {
		k.add(store.Broken, "synchronous_standby_names", "the pool does not show warnings of the server to the store: a commit whose "+
			"wait for the synchronous standby was cancelled counts as acknowledged, and a fail-over loses it",
			"call postgres.WatchCommits on the configuration of the pool, and leave client_min_messages at warning or below")
	}
	return nil
}

// hosts judges how the pool gets to the second of several servers.
func (k *checker) hosts(c *pgx.ConnConfig, bound time.Duration) {
	several := slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != c.Host || f.Port != c.Port })
	if !several || c.ConnectTimeout > 0 && c.ConnectTimeout <= bound/3+time.Second {
		return
	}
	problem := "it is not set"
	if c.ConnectTimeout > 0 {
		problem = fmt.Sprintf("it is %v, more than a third of StatementTimeout", c.ConnectTimeout)
	}
	k.add(store.Broken, "connect_timeout", problem+": if the first of the servers in the connection string hangs, calls fail, "+
		"because the next server is not tried in time",
		fmt.Sprintf("put connect_timeout=%d into the connection string", max(1, int(bound.Seconds()/3))))
}

// settings judges settings.
func (k *checker) settings(s settings) {
	switch {
	case s.replica:
		k.add(store.Broken, "role", "the server is a replica: it is behind its primary, and refuses to decide",
			"connect to the primary, for instance with target_session_attrs=read-write")
	case s.readOnly == "on":
		k.add(store.Broken, "default_transaction_read_only", "it is on: the server refuses every fill",
			"set it to off for the role and the database of the application")
	}
	switch {
	case s.synchronousCommit == "off":
		k.add(store.Broken, "synchronous_commit", "it is off: a crash loses the last acknowledged fills",
			"set it to on for the role and the database of the application")
	case s.synchronousCommit == "local" && s.standbyNames != "":
		k.add(store.Warning, "synchronous_commit", "it is local: a fail-over loses the fills that the synchronous replica "+
			"had not received", "set it to on for the role and the database of the application")
	}
	if s.fsync != "on" {
		k.add(store.Broken, "fsync", "it is off: a crash of the machine can damage the whole database", "set it to on")
	}
	if s.fullPageWrites != "on" {
		k.add(store.Broken, "full_page_writes", "it is off: a crash of the machine can damage the whole database", "set it to on")
	}
	if s.autovacuum != "on" {
		k.add(store.Warning, "autovacuum", "it is off: the table grows for ever", "set it to on")
	}
}

// version judges a version by its number, as server_version_num reports it, and its name.
func (k *checker) version(number int, name string) {
	if number < oldestServer {
		k.add(store.Broken, "version", fmt.Sprintf("the server is PostgreSQL %s; the oldest that works is %d", name, oldestServer/10000),
			"upgrade the server")
	}
}

// oldestServer is the number of the oldest version that brim works with.
const oldestServer = 140000

// rights are the rights on the table that a store needs.
var rights = []string{"SELECT", "INSERT", "UPDATE", "DELETE"}

// table judges the table of buckets.
func (k *checker) table(ctx context.Context) error {
	const missing = `run "brim migrate up", or migrations.Up`
	var persistence string
	var usage, vacuum bool
	var allowed []bool
	var columns, live, dead, bytes int64
	err := k.conn.QueryRow(ctx, k.sql("check_table"), plain, rights).
		Scan(&persistence, &usage, &allowed, &vacuum, &columns, &live, &dead, &bytes)
	if errors.Is(err, pgx.ErrNoRows) {
		k.add(store.Broken, "table", fmt.Sprintf("there is no table %s", k.names.Qualified()), missing)
		return nil
	}
	if err != nil {
		return err
	}
	if columns != 8 {
		k.add(store.Broken, "table", fmt.Sprintf("the table %s is not that of brim: columns are missing", k.names.Qualified()),
			"choose another name with Options.Schema and Options.Table, and "+missing)
	}
	if persistence == "u" {
		k.add(store.Broken, "table", "it is UNLOGGED: a crash of the server empties it", "ALTER TABLE ... SET LOGGED")
	}
	var lacking []string
	for i, ok := range allowed {
		if !ok {
			lacking = append(lacking, rights[i])
		}
	}
	if !usage || len(lacking) > 0 {
		if !usage {
			lacking = append(lacking, "USAGE on its schema")
		}
		k.add(store.Broken, "rights", "the user lacks on the table: "+strings.Join(lacking, ", "),
			"grant SELECT, INSERT, UPDATE and DELETE on the table, and USAGE on its schema")
	}
	switch {
	case !vacuum:
		k.add(store.Warning, "autovacuum", "it is off for the table, which therefore grows for ever",
			"ALTER TABLE ... RESET (autovacuum_enabled)")
	case dead > 10_000+live:
		k.add(store.Warning, "dead rows", fmt.Sprintf("the table has %d dead rows beside %d buckets: the vacuum does not keep up, "+
			"most likely because of a long transaction or a forgotten replication slot", dead, live),
			"see pg_stat_activity for the oldest backend_xmin, and pg_replication_slots")
	}
	if bytes > 8<<20 && bytes > 10*bucketBytes*(live+dead) {
		k.add(store.Warning, "bloat", fmt.Sprintf("the table takes %d MiB for %d buckets", bytes>>20, live),
			"VACUUM FULL in a quiet hour, since it locks the table; if the figure is wrong, ANALYZE first")
	}
	return nil
}

// bucketBytes is the size of a bucket in the table, in bytes; docs/operations.md.
const bucketBytes = 150

// migrations judges the version of the tables.
func (k *checker) migrations(ctx context.Context) error {
	var version int
	var dirty bool
	err := k.conn.QueryRow(ctx, k.sql("check_versions"), plain).Scan(&version, &dirty)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg), errors.Is(err, pgx.ErrNoRows):
		k.add(store.Unchecked, "migrations", "the version of the tables cannot be read from "+k.names.QualifiedVersions(),
			"grant SELECT on it; it does not exist if another tool than brim has made the tables")
	case err != nil:
		return err
	case dirty:
		k.add(store.Broken, "migrations", fmt.Sprintf("the migration to version %d is running, or was cut short", version),
			`"brim migrate up" repairs it`)
	case version < pgname.Latest:
		k.add(store.Warning, "migrations", fmt.Sprintf("the tables have version %d, and this brim knows %d", version, pgname.Latest),
			`run "brim migrate up", or migrations.Up`)
	}
	return nil
}

// pooler finds out whether a pooler in transaction mode forgets prepared statements. A pooler gives
// its clients other process IDs than those of the server.
func (k *checker) pooler(ctx context.Context, pool *pgxpool.Pool) error {
	var first, second, third uint32
	process := k.sql("check_process")
	if err := k.conn.QueryRow(ctx, process, plain).Scan(&first); err != nil {
		return err
	}
	mode := pool.Config().ConnConfig.DefaultQueryExecMode
	if first == k.conn.PgConn().PID() || mode != pgx.QueryExecModeCacheStatement && mode != pgx.QueryExecModeDescribeExec &&
		mode != pgx.QueryExecModeCacheDescribe {
		return nil
	}
	prepared := k.sql("check_prepared")
	if err := k.conn.QueryRow(ctx, prepared, pgx.QueryExecModeCacheStatement).Scan(&first); err != nil {
		return k.forgets(err)
	}
	if pool.Config().MaxConns < 2 {
		k.add(store.Unchecked, "pooler", "a pooler is in between, and the pool has no second connection to find out its mode",
			"set pool_max_conns to 2 or more for the check")
		return nil
	}
	other, err := pool.Begin(ctx) // in transaction mode it takes the server's session of the first connection
	if err != nil {
		return err
	}
	defer func() { _ = other.Rollback(ctx) }()
	if err := other.QueryRow(ctx, process, plain).Scan(&second); err != nil {
		return err
	}
	return k.forgets(k.conn.QueryRow(ctx, prepared, pgx.QueryExecModeCacheStatement).Scan(&third))
}

// forgets adds a finding if err says that a prepared statement is unknown, and returns any other
// error.
func (k *checker) forgets(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "26000" || pg.Code == "42P05") {
		k.add(store.Broken, "pooler", "a pooler in transaction mode forgets prepared statements, so calls fail",
			"set max_prepared_statements above 0 in PgBouncer 1.21 or newer, or default_query_exec_mode=exec in the connection string")
		return nil
	}
	return err
}
