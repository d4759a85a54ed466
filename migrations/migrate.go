package migrations

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// Up applies the missing migrations, and does nothing if none is missing. Any number of processes
// may call it at once. If a run was killed at any point, the next run repairs it. Up makes tables
// again that somebody has dropped, but not a table of a ledger whose other tables have rows: spends
// would be decided without what was spent before. Up logs a schema that is newer than this program,
// and leaves it alone.
//
// Up uses one connection of the pool and closes it afterwards. The pool stays open. When ctx
// ends, Up asks the server to stop, and returns the error of the context. After an error the
// schema is at some version in between, and another call of Up continues from there. Errors are
// [ErrLocked], [ErrPrivilege], [ErrReadOnly], [ErrNewer] for a newer schema whose migration was
// cut short, and others that match [store.ErrUnavailable] or [store.ErrMisconfigured].
func Up(ctx context.Context, pool *pgxpool.Pool, o *Options) error {
	return fail("up", apply(ctx, pool, o, true))
}

// Down reverts every migration, and so deletes the tables with all buckets. The schema and the
// empty table of applied migrations stay. Down refuses to delete a ledger that has rows; see
// Options.DropLedger. Down returns the errors of [Up]. For a schema that is
// newer than this program it returns [ErrNewer], because it does not know how to revert the newer
// migrations.
func Down(ctx context.Context, pool *pgxpool.Pool, o *Options) error {
	return fail("down", apply(ctx, pool, o, false))
}

// runner is one call of Up or Down.
type runner struct {
	plan
	up       bool
	versions []int // known to this program, in ascending order
}

// apply migrates up or down if there is anything to do.
func apply(ctx context.Context, pool *pgxpool.Pool, o *Options, up bool) error {
	p, err := newPlan(o)
	if err != nil {
		return err
	}
	if pool == nil {
		return store.ErrClosed
	}
	versions, err := known()
	if err != nil {
		return err
	}
	r := &runner{plan: p, up: up, versions: versions}

	// The common case takes no lock, and needs no right but SELECT.
	v, err := readVersion(ctx, pool, p)
	if err != nil {
		return explain(ctx, err, p)
	}
	if done, err := r.done(v); !v.dirty && (done || err != nil) {
		return err
	}
	s, err := openSession(ctx, pool)
	if err != nil {
		return explain(ctx, err, p)
	}
	defer s.close()
	return explain(ctx, pgrun.OnStandby(s.conn.PgConn(), unwrapMigrate(r.run(ctx, s))), p)
}

// done reports whether there is nothing to do at v. Only a caller with the lock may judge a
// dirty version, because without the lock a migration may be running.
func (r *runner) done(v version) (bool, error) {
	latest := r.versions[len(r.versions)-1]
	switch {
	case v.number > latest && v.dirty:
		return false, fmt.Errorf(
			"%w: its migration to version %d was cut short, and this program knows %d; repair it with the newer program",
			ErrNewer, v.number, latest)
	case v.number > latest && !r.up:
		return false, fmt.Errorf("%w: it is at version %d, and this program knows %d; revert it with the newer program",
			ErrNewer, v.number, latest)
	case v.number > latest:
		r.log.Info("brim: schema is newer than this program, and stays as it is",
			"schema", r.Schema(), "table", r.Table(), "version", v.number, "known", latest)
		return true, nil
	case v.number != none && !slices.Contains(r.versions, v.number):
		return false, fmt.Errorf("%w: it is at version %d; choose another name for the table of buckets",
			errForeign, v.number)
	case v.dirty:
		return false, nil
	case r.up:
		return v.number == latest && len(v.missing) == 0, nil
	}
	return v.number == none, nil
}

// run takes the lock, and migrates.
func (r *runner) run(ctx context.Context, s *session) error {
	if err := s.prepare(ctx, r.plan); err != nil {
		return err
	}
	dbname, err := s.lock(ctx, r.plan)
	if err != nil {
		return err
	}
	v, err := readVersion(ctx, s.conn, r.plan)
	if err != nil {
		return err
	}
	if done, err := r.done(v); done || err != nil {
		return err
	}
	if err := r.mayProceed(ctx, s, v); err != nil {
		return err
	}
	if err := r.createSchema(ctx, s); err != nil {
		return err
	}
	files, err := r.files()
	if err != nil {
		return err
	}
	src, err := iofs.New(files, ".")
	if err != nil {
		return err
	}
	drv, err := pgxmigrate.WithInstance(s.db, &pgxmigrate.Config{
		DatabaseName: dbname, SchemaName: r.Schema(), MigrationsTable: r.Versions(),
	})
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", src, "pgx5", &readFirst{Driver: drv})
	if err != nil {
		return err
	}
	return r.steps(ctx, m, v)
}

// mayProceed returns an error if the migration would lose what was spent.
func (r *runner) mayProceed(ctx context.Context, s *session, v version) error {
	lost := slices.ContainsFunc(v.missing, func(name string) bool { return name != r.Table() })
	if r.up && !lost || !r.up && r.dropLedger {
		return nil
	}
	switch spent, err := r.spent(ctx, s.conn); {
	case err != nil || !spent:
		return err
	case r.up:
		return fmt.Errorf("%w: the ledger has rows, and lacks the tables %s: bring them back from the last pg_dump, or restore the database; to lose what was "+
			"spent, run the output of \"brim migrate sql\"", store.ErrMisconfigured, strings.Join(v.missing, ", "))
	}
	return fmt.Errorf("%w: the ledger has rows, and its tables would be deleted with them; set Options.DropLedger to lose what was spent",
		store.ErrMisconfigured)
}

// createSchema creates the schema before the first migration, because golang-migrate puts its
// table of versions there.
func (r *runner) createSchema(ctx context.Context, s *session) error {
	var exists bool
	err := s.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, r.Schema()).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = s.conn.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgname.Quote(r.Schema()))
	return err
}

// steps goes up or down from v, one migration at a time. If one fails, no goroutine of
// golang-migrate is left that reads the next.
func (r *runner) steps(ctx context.Context, m *migrate.Migrate, v version) error {
	if v.dirty || r.up && len(v.missing) > 0 {
		from := none
		if v.dirty {
			from = r.restart(v.number)
			r.log.Warn("brim: an earlier migration was cut short, and runs again",
				"schema", r.Schema(), "table", r.Table(), "version", v.number)
		} else {
			r.log.Warn("brim: tables were dropped, and are created again, empty", "schema", r.Schema(), "tables", v.missing)
		}
		if err := m.Force(from); err != nil {
			return err
		}
		v = version{number: from}
	}
	todo, step := r.versions[r.count(v.number):], 1
	if !r.up {
		todo, step = slices.Clone(r.versions[:r.count(v.number)]), -1
		slices.Reverse(todo)
	}
	for _, n := range todo {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.Steps(step); err != nil {
			return err
		}
		r.log.Info("brim: schema migrated", "schema", r.Schema(), "table", r.Table(), "migration", n, "up", r.up)
	}
	return nil
}

// restart returns the version to continue from if n is dirty. golang-migrate writes the version
// that it is going to. The migration that was cut short is therefore that of n on the way up, and
// the one after n on the way down. It may be applied or not. Every migration may run again, so
// restart repeats it.
func (r *runner) restart(n int) int {
	i := r.count(n) // versions up to and including n
	if r.up {
		return append([]int{none, none}, r.versions...)[i]
	}
	return r.versions[min(i, len(r.versions)-1)]
}

// count returns the number of versions up to n.
func (r *runner) count(n int) int {
	i, found := slices.BinarySearch(r.versions, n)
	if found {
		i++
	}
	return i
}

// readFirst delays a failure to mark a version dirty until the migration has been read.
// golang-migrate stops at such a failure without reading the migration, and its goroutine that
// offers the text would stay forever.
type readFirst struct {
	database.Driver
	err error
}

func (d *readFirst) SetVersion(number int, dirty bool) error {
	err := d.Driver.SetVersion(number, dirty)
	if dirty {
		d.err = err
		return nil
	}
	return err
}

func (d *readFirst) Run(migration io.Reader) error {
	if d.err != nil {
		if _, err := io.Copy(io.Discard, migration); err != nil {
			return err
		}
		return d.err
	}
	return d.Driver.Run(migration)
}
