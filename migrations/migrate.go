package migrations

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/store"
)

// Up applies the migrations that are missing, and does nothing where none is. Any number of processes may call it at once. A
// run that was killed, whenever that was, is repaired by the next. A schema that is newer than this program is left alone
// and logged.
//
// It uses one connection of the pool and closes it afterwards; the pool stays open. When ctx ends, the server is asked to
// stop, and Up returns the context's error. After any error the schema is at some version in between, and calling Up again
// goes on from there. Errors: [ErrLocked], [ErrPrivilege], [ErrReadOnly], [ErrNewer] for a newer schema whose own migration
// was cut short, and [store.ErrUnavailable].
func Up(ctx context.Context, pool *pgxpool.Pool, o *Options) error {
	return fail("up", apply(ctx, pool, o, true))
}

// Down takes every migration back, and with the tables all buckets. The schema itself and the empty table of applied
// migrations stay. It answers as [Up] does, and to a schema that is newer than this program with [ErrNewer], because it does
// not know how to take that back.
func Down(ctx context.Context, pool *pgxpool.Pool, o *Options) error {
	return fail("down", apply(ctx, pool, o, false))
}

// runner is one call of Up or Down.
type runner struct {
	plan
	up       bool
	versions []int // that this program knows, ascending
}

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

	// The common case takes no lock and needs no right but to read.
	v, err := readVersion(ctx, pool, p)
	if err != nil {
		return explain(ctx, err, p)
	}
	if settled, err := r.settled(v); !v.dirty && (settled || err != nil) {
		return err
	}
	s, err := openSession(ctx, pool)
	if err != nil {
		return explain(ctx, err, p)
	}
	defer s.close()
	return explain(ctx, r.run(ctx, s), p)
}

// settled reports whether there is nothing to do at v. A dirty version is only to be judged under the lock: without it, it
// may be that of a migration that is running.
func (r *runner) settled(v version) (bool, error) {
	latest := r.versions[len(r.versions)-1]
	switch {
	case v.number > latest && v.dirty:
		return false, fmt.Errorf("%w: its migration to version %d was cut short, and this program knows %d; run the newer one's",
			ErrNewer, v.number, latest)
	case v.number > latest && !r.up:
		return false, fmt.Errorf("%w: it is at version %d, and this program knows %d; take it back with the newer one",
			ErrNewer, v.number, latest)
	case v.number > latest:
		r.log.Info("brim: schema is newer than this program, and left as it is",
			"schema", r.Schema(), "table", r.Table(), "version", v.number, "known", latest)
		return true, nil
	case v.number != none && !slices.Contains(r.versions, v.number):
		return false, fmt.Errorf("%w: it is at version %d; choose a table of another name", errForeign, v.number)
	case v.dirty:
		return false, nil
	case r.up:
		return v.number == latest, nil
	}
	return v.number == none, nil
}

// run migrates, alone: everything in it happens under the lock.
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
	if settled, err := r.settled(v); settled || err != nil {
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

// createSchema is done here and not left to the first migration, because the table of versions is in it.
func (r *runner) createSchema(ctx context.Context, s *session) error {
	var exists bool
	err := s.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, r.Schema()).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = s.conn.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgname.Quote(r.Schema()))
	return err
}

// steps goes up or down from v, one migration at a time, so that a failure leaves no other being read.
func (r *runner) steps(ctx context.Context, m *migrate.Migrate, v version) error {
	if v.dirty {
		from := r.restart(v.number)
		r.log.Warn("brim: an earlier migration was cut short, and is repeated",
			"schema", r.Schema(), "table", r.Table(), "version", v.number)
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

// restart returns the version to continue from where n is dirty. golang-migrate writes the version that it is going to, so
// n's own migration may be there or not on the way up, and that after it on the way down. Every migration may run again: on
// the way up n's is repeated, and on the way down the one after it.
func (r *runner) restart(n int) int {
	i := r.count(n) // versions up to and including n
	if r.up {
		return append([]int{none, none}, r.versions...)[i]
	}
	return r.versions[min(i, len(r.versions)-1)]
}

// count returns how many versions are not above n.
func (r *runner) count(n int) int {
	i, found := slices.BinarySearch(r.versions, n)
	if found {
		i++
	}
	return i
}

// readFirst keeps back a failure to mark a version dirty until the migration was read. golang-migrate stops there without
// reading it, and the goroutine that offers the text stays for ever.
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
