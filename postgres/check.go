package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/internal/trial"
	"github.com/brimgo/brim/store"
)

// Check finds out whether a store with the options o can keep its promises, by trying. It makes a
// decision of each kind in a transaction that it rolls back, and then fills and deletes a bucket
// of its own, whose key begins with "brim.check/": a commit may wait for a standby, and a rollback
// never does. If synchronous_standby_names is set, the commit has a second. Check also asks the
// server for settings and states that break or weaken the promises: its version and role, the
// settings of durability, the table and its version, the rights of the user, the connection
// string, a pooler, clocks, and dead rows. It reads up to 2,000 pages of the table, which has some
// hundred thousand buckets there, and counts the rows that no call can have written. o may be nil.
// Check needs no rights but those to connect; a finding that is [store.Unchecked] tells which
// question the server did not answer.
//
// An error means that the server gave no answer, or that an option is invalid. Package pgledger has
// a Check for its tables.
func Check(ctx context.Context, pool *pgxpool.Pool, o *Options) ([]store.Finding, error) {
	options := Options{}
	if o != nil {
		options = *o
	}
	options.PruneEvery = -1
	s, err := newStore(pool, options)
	if err != nil {
		return nil, store.Wrap("postgres", "check", err)
	}
	defer func() { _ = s.Close() }()
	k := &checker{}
	err = s.run.Look(ctx, "check", func(ctx context.Context, conn *pgxpool.Conn) error {
		*k = checker{Check: pgrun.Check{Conn: conn.Conn(), Names: s.run.Names}, skew: s.maxSkew}
		k.connection(pool.Config().ConnConfig, s.run.Timeout)
		k.failover(pool.Config().ConnConfig)
		for _, step := range []func(context.Context) error{k.server, k.replicas, k.table, k.migrations} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		if k.undecided {
			return nil
		}
		n := len(k.Findings)
		err := k.Try(ctx, func(tx pgx.Tx) error { return trial.Decide(ctx, s.With(tx), trial.Key()) })
		if err == nil && len(k.Findings) == n {
			err = k.pooler(ctx, pool)
		}
		k.undecided = slices.ContainsFunc(k.Findings[n:], func(f store.Finding) bool { return f.Severity == store.Broken })
		if err == nil && !k.undecided {
			err = k.rows(ctx)
		}
		return err
	})
	if k.Unfit(err) {
		return k.Findings, nil
	}
	if err == nil && !k.undecided {
		err = k.commit(ctx, pool, options)
	}
	if err == nil && !k.undecided {
		err = k.open(ctx, s.run)
	}
	if err == nil {
		config := pool.Config() // a copy
		if config.BeforeConnect != nil {
			err = config.BeforeConnect(ctx, config.ConnConfig) // it may put a server that answers first
		}
		k.hosts(ctx, config.ConnConfig)
	}
	if err != nil {
		return nil, err
	}
	return k.Findings, nil
}

// checker collects the findings of Check.
type checker struct {
	pgrun.Check
	undecided bool   // a finding tells why no decision can work
	standbys  string // for which commits wait
	buckets   pgrun.Table
	skew      time.Duration // Options.MaxSkew
}

// sql returns the statement of a file.
func (k *checker) sql(name string) string { return renderer(k.Names)(name) }

// commitTime is how long a commit may wait for a synchronous standby.
const commitTime = time.Second

// commit tries a commit, through the combined statements of a store.
func (k *checker) commit(ctx context.Context, pool *pgxpool.Pool, o Options) error {
	if k.standbys != "" {
		o.StatementTimeout = commitTime
	}
	s, err := newStore(pool, o)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	err = trial.Commit(ctx, s)
	if k.standbys != "" && ctx.Err() == nil && errors.Is(err, store.ErrUnknownOutcome) {
		k.Add(store.Broken, "synchronous_standby_names", fmt.Sprintf("a commit was not acknowledged within %v: no synchronous standby "+
			"of %s answers, so every fill fails", commitTime, k.standbys),
			"start the standby; or go on without, by `ALTER SYSTEM SET synchronous_standby_names = ''` and `SELECT pg_reload_conf()`")
		return nil
	}
	return k.Tried(err)
}

// settings are those settings of the server and of the session that Check judges.
type settings struct {
	synchronousCommit, standbyNames, fsync, fullPageWrites, readOnly, autovacuum string
	replica                                                                      bool
}

// server judges the settings of the server and of the session.
func (k *checker) server(ctx context.Context) error {
	var number int
	var version string
	var now pgrun.Instant
	var s settings
	before := time.Now()
	err := k.Conn.QueryRow(ctx, k.sql("check_server"), pgrun.Plain).
		Scan(&k.User, &number, &version, &now, &s.synchronousCommit, &s.standbyNames, &s.fsync, &s.fullPageWrites, &s.readOnly,
			&s.autovacuum, &s.replica)
	if err != nil {
		return err
	}
	k.clock(before, time.UnixMicro(now.Micros), time.Now())
	k.version(number, version)
	k.settings(s)
	if s.standbyNames == "" || s.synchronousCommit == "off" || s.synchronousCommit == "local" {
		return nil
	}
	k.standbys = s.standbyNames
	return k.commits(ctx)
}

// apart is how far the clocks of the server and of the program may be apart.
const apart = time.Second

// clock judges the clock of the server, which was read between two readings of the program's clock.
func (k *checker) clock(before, server, after time.Time) {
	off, word := server.Sub(after), "ahead of"
	if behind := before.Sub(server); behind > off {
		off, word = behind, "behind"
	}
	if off > apart {
		severity := store.Warning
		if off > k.skew { // a fail-over to a server with the other clock moves all buckets
			severity = store.Broken
		}
		k.Add(severity, "clock", fmt.Sprintf("the server's clock is %v %s that of this program: all times in answers are those of "+
			"the server's clock", off.Round(time.Millisecond), word), "have both synchronized, for instance by chrony")
	}
}

// commits tries whether the pool shows warnings of the server to the store.
func (k *checker) commits(ctx context.Context) error {
	// Outside of a transaction, a ROLLBACK succeeds with a warning.
	pgrun.Warned(k.Conn.PgConn())
	if _, err := k.Conn.Exec(ctx, "ROLLBACK", pgrun.Plain); err != nil {
		return err
	}
	if !pgrun.Warned(k.Conn.PgConn()) {
		k.Add(store.Broken, "WatchCommits", "the pool does not show warnings of the server to the store: a commit whose "+
			"wait for the synchronous standby was cancelled counts as acknowledged, and a fail-over loses it",
			"call postgres.WatchCommits on the configuration of the pool, and leave client_min_messages at warning or below")
	}
	return nil
}

// connection judges the connection string.
func (k *checker) connection(c *pgx.ConnConfig, bound time.Duration) {
	several := slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != c.Host || f.Port != c.Port })
	if several && (c.ConnectTimeout <= 0 || c.ConnectTimeout > bound/3+time.Second) {
		problem := "it is not set"
		if c.ConnectTimeout > 0 {
			problem = fmt.Sprintf("it is %v, more than a third of StatementTimeout", c.ConnectTimeout)
		}
		k.Add(store.Broken, "connect_timeout", problem+": if the first of the servers in the connection string hangs, calls fail, "+
			"because the next server is not tried in time",
			fmt.Sprintf("put `connect_timeout=%d` into the connection string", max(1, int(bound.Seconds()/3))))
	}
	plain := func(host string, tls bool) bool {
		ip := net.ParseIP(host)
		return !tls && !strings.HasPrefix(host, "/") && host != "localhost" && (ip == nil || !ip.IsLoopback())
	}
	if plain(c.Host, c.TLSConfig != nil) ||
		slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return plain(f.Host, f.TLSConfig != nil) }) {
		k.Add(store.Warning, "sslmode", "it lets the connection go without TLS, so whoever is on the way can read the password and "+
			"change answers", "put `sslmode=verify-full` and sslrootcert into the connection string")
	}
}

// settings judges settings.
func (k *checker) settings(s settings) {
	switch {
	case s.replica:
		k.Add(store.Broken, "role", "the server is a replica: it is behind its primary, and refuses to decide",
			"connect to the primary, for instance with `target_session_attrs=read-write`")
		k.undecided = true
	case s.readOnly == "on":
		k.Add(store.Broken, "default_transaction_read_only", "it is on: the server refuses every fill",
			k.alter("default_transaction_read_only", "off"))
		k.undecided = true
	}
	switch {
	case s.synchronousCommit == "off":
		k.Add(store.Broken, "synchronous_commit", "it is off: a crash loses the last acknowledged fills",
			k.alter("synchronous_commit", "on"))
	case s.synchronousCommit == "local" && s.standbyNames != "":
		k.Add(store.Warning, "synchronous_commit", "it is local: a fail-over loses the fills that the synchronous replica "+
			"had not received", k.alter("synchronous_commit", "on"))
	}
	const damage = "it is off: a crash of the machine can damage the whole database"
	if s.fsync != "on" {
		k.Add(store.Broken, "fsync", damage, setSystem("fsync"))
	}
	if s.fullPageWrites != "on" {
		k.Add(store.Broken, "full_page_writes", damage, setSystem("full_page_writes"))
	}
	if s.autovacuum != "on" {
		k.Add(store.Warning, "autovacuum", "it is off: the table grows for ever", setSystem("autovacuum"))
	}
}

// alter is the remedy for a setting that the application's own role or database has.
func (k *checker) alter(name, value string) string {
	return fmt.Sprintf("`ALTER ROLE %s SET %s = %s`, and connect anew; or remove it from the connection string", k.User, name, value)
}

// setSystem is the remedy for a setting of the server that is off.
func setSystem(name string) string {
	return fmt.Sprintf("`ALTER SYSTEM SET %s = on` and `SELECT pg_reload_conf()`, unless the command line of the server says otherwise", name)
}

// version judges a version by its number, as server_version_num reports it, and its name.
func (k *checker) version(number int, name string) {
	if number < oldestServer {
		k.Add(store.Broken, "version", fmt.Sprintf("the server is PostgreSQL %s; the oldest that works is %d", name, oldestServer/10000),
			"upgrade the server")
	}
}

// oldestServer is the number of the oldest version that brim works with.
const oldestServer = 140000

// table judges the table of buckets.
func (k *checker) table(ctx context.Context) error {
	t, usable, err := k.Table(ctx, k.Names.Table(), []string{"SELECT", "INSERT", "UPDATE", "DELETE"}, "key")
	if err != nil || !usable {
		k.undecided = true
		return err
	}
	k.buckets = t
	if t.Unvacuumed {
		k.Add(store.Warning, "autovacuum", "it is off for the table, which therefore grows for ever",
			fmt.Sprintf("`ALTER TABLE %s RESET (autovacuum_enabled)`", t.Name))
	}
	if t.Bytes > 8<<20 && t.Bytes > 10*bucketBytes*(t.Live+t.Dead) {
		k.Add(store.Warning, "bloat", fmt.Sprintf("the table takes %d MiB for %d buckets", t.Bytes>>20, t.Live),
			fmt.Sprintf("`VACUUM FULL %s` in a quiet hour, since it locks the table; if the figure is wrong, ANALYZE first", t.Name))
	}
	return nil
}

// open looks for transactions that hold callers or the vacuum up, and judges the dead rows.
func (k *checker) open(ctx context.Context, run *pgrun.Runner) error {
	slot := ""
	found, err := k.Open(ctx, true, []string{k.Names.Table()}, func(f func(context.Context, *pgx.Conn) error) error {
		return run.Look(ctx, "check", func(ctx context.Context, conn *pgxpool.Conn) error {
			err := conn.QueryRow(ctx, k.sql("check_slot"), pgrun.Plain).Scan(&slot)
			if err == nil || errors.Is(err, pgx.ErrNoRows) {
				err = f(ctx, conn.Conn())
			}
			return err
		})
	})
	if err == nil {
		k.dead(found, slot)
	}
	return err
}

// dead judges the dead rows. Their number alone tells nothing: after a burst it is high until the
// autovacuum comes, within a minute or so. held reports whether a finding names a transaction that
// keeps the vacuum from its work, and slot is such a replication slot.
func (k *checker) dead(held bool, slot string) {
	t := &k.buckets
	if t.Dead <= 10_000+t.Live {
		return
	}
	problem := fmt.Sprintf("the table has %d dead rows beside %d buckets: ", t.Dead, t.Live)
	switch {
	case slot != "":
		k.Add(store.Warning, "dead rows", problem+"no vacuum can remove rows that the replication slot "+slot+" keeps, and no standby uses it",
			fmt.Sprintf("start its standby, or `SELECT pg_drop_replication_slot(%s)`; then `VACUUM %s`", pgname.Literal(slot), t.Name))
	case held:
		k.Add(store.Warning, "dead rows", problem+"no vacuum can remove them before the transactions end that other findings name",
			fmt.Sprintf("end those; then `VACUUM %s`", t.Name))
	case t.Dead < t.Due:
		k.Add(store.Warning, "dead rows", problem+fmt.Sprintf("by its settings the autovacuum comes at %d", t.Due),
			fmt.Sprintf("`ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000)`; then `VACUUM %[1]s`", t.Name))
	}
}

// bucketBytes is the size of a bucket in the table, in bytes; docs/operations.md.
const bucketBytes = 150

// samplePages is how many pages of the table a check reads, some hundred thousand buckets in about
// a tenth of a second. It reads all of a smaller table.
const samplePages = 2000

// rows looks for rows that no call can have written.
func (k *checker) rows(ctx context.Context) error {
	var pages, looked, damaged int64
	if err := k.Conn.QueryRow(ctx, k.sql("pages"), pgrun.Plain).Scan(&pages); err != nil {
		return err
	}
	share := min(100, 100*samplePages/float64(max(1, pages)))
	if err := k.Conn.QueryRow(ctx, k.sql("check_rows"), pgrun.Plain, share).Scan(&looked, &damaged); err != nil {
		return err
	}
	if damaged > 0 {
		k.Add(store.Broken, "rows", fmt.Sprintf("%d of %d rows hold values that no call writes, and calls for their buckets fail", damaged, looked),
			fmt.Sprintf("`%s` names all such buckets, and \"brim reset KEY\" makes one empty and usable again",
				strings.Join(strings.Fields(k.sql("check_damaged")), " ")))
	}
	return nil
}

// migrations judges the version of the tables.
func (k *checker) migrations(ctx context.Context) error {
	var version int
	var dirty bool
	err := k.Conn.QueryRow(ctx, k.sql("check_versions"), pgrun.Plain).Scan(&version, &dirty)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg), errors.Is(err, pgx.ErrNoRows):
		k.Add(store.Unchecked, "migrations", "the version of the tables cannot be read from "+k.Names.QualifiedVersions(),
			fmt.Sprintf("`GRANT SELECT ON %s TO %s`; it does not exist if another tool than brim has made the tables",
				k.Names.QualifiedVersions(), k.User))
	case err != nil:
		return err
	case dirty && version > pgname.Latest:
		k.Add(store.Broken, "migrations", fmt.Sprintf("the migration to version %d is running, or was cut short, and this brim knows %d",
			version, pgname.Latest), "run \"brim migrate up\" of the newer brim, which repairs it")
	case dirty:
		k.Add(store.Broken, "migrations", fmt.Sprintf("the migration to version %d is running, or was cut short", version),
			"`brim migrate up` repairs it")
	case version < pgname.Latest:
		k.Add(store.Warning, "migrations", fmt.Sprintf("the tables have version %d, and this brim knows %d", version, pgname.Latest),
			pgrun.Migrate)
	}
	return nil
}

// pooler finds out whether a pooler in transaction mode forgets prepared statements. A pooler gives
// its clients other process IDs than those of the server.
func (k *checker) pooler(ctx context.Context, pool *pgxpool.Pool) error {
	var first, second, third uint32
	process := k.sql("check_process")
	if err := k.Conn.QueryRow(ctx, process, pgrun.Plain).Scan(&first); err != nil {
		return err
	}
	mode := pool.Config().ConnConfig.DefaultQueryExecMode
	if first == k.Conn.PgConn().PID() || mode != pgx.QueryExecModeCacheStatement && mode != pgx.QueryExecModeDescribeExec &&
		mode != pgx.QueryExecModeCacheDescribe {
		return nil
	}
	prepared := k.sql("check_prepared")
	if err := k.Conn.QueryRow(ctx, prepared, pgx.QueryExecModeCacheStatement).Scan(&first); err != nil {
		return k.Tried(err)
	}
	if pool.Config().MaxConns < 2 {
		k.Add(store.Unchecked, "pooler", "a pooler is in between, and the pool has no second connection to find out its mode",
			"set pool_max_conns to 2 or more for the check")
		return nil
	}
	other, err := pool.Begin(ctx) // in transaction mode it takes the server's session of the first connection
	if err != nil {
		return k.Tried(err)
	}
	defer func() { _ = other.Rollback(ctx) }()
	if err := other.QueryRow(ctx, process, pgrun.Plain).Scan(&second); err != nil {
		return err
	}
	return k.Tried(k.Conn.QueryRow(ctx, prepared, pgx.QueryExecModeCacheStatement).Scan(&third))
}
