package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// Read reports states, all at one time of the server's clock. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	if len(buckets) == 0 {
		return nil, s.run.Wrap("read", s.run.Ready(ctx))
	}
	err = s.run.Look(ctx, "read", func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		states, err = s.read(ctx, conn, buckets)
		return err
	})
	return states, err
}

func (s *Store) read(ctx context.Context, q pgrun.Queryer, buckets []store.Bucket) ([]store.State, error) {
	if len(buckets) == 0 {
		return nil, nil
	}
	keys := make([]string, len(buckets))
	for i, b := range buckets {
		keys[i] = b.Key
	}
	found, err := s.records(ctx, q, keys)
	if err != nil {
		return nil, err
	}
	states := make([]store.State, len(buckets))
	for i, b := range buckets {
		rec, err := found.of(b.Key)
		if err != nil {
			return nil, err
		}
		states[i] = rec.State(b.Limit, found.clock, s.maxSkew)
	}
	return states, nil
}

// reading is the answer of read.sql: the rows of some keys, and the time.
type reading struct {
	rows  map[string]store.Record
	clock int64
}

func newReading() *reading { return &reading{rows: make(map[string]store.Record)} }

// each reads a row of the answer.
func (r *reading) each(rows pgx.Rows) error {
	key, rec, clock, err := readStored(rows)
	r.rows[key], r.clock = rec, clock
	return err
}

// of returns the record of a key, or a new one if the key has no row. The error is that of a row
// which no call can have written.
func (r *reading) of(key string) (store.Record, error) {
	if rec, ok := r.rows[key]; ok {
		return rec, rec.Validate()
	}
	return store.NewRecord(r.clock), nil
}

// records reads the rows of keys. It locks nothing.
func (s *Store) records(ctx context.Context, q pgrun.Queryer, keys []string) (*reading, error) {
	found := newReading()
	query, sql := s.run.Query, s.sql.Load().read
	switch {
	case len(keys) == 1:
		sql = s.sql.Load().readOne
	case s.run.Small():
		query = s.run.QueryByIndex
	}
	_, err := query(ctx, q, sql, []any{keys, s.run.Now()}, found.each)
	return found, err
}

// queueRead queues the statement that records sends.
func (s *Store) queueRead(ctx context.Context, b *pgx.Batch, keys []string) *reading {
	found := newReading()
	sql := s.sql.Load().read
	if len(keys) == 1 {
		sql = s.sql.Load().readOne
	}
	pgrun.Queue(ctx, b, sql, []any{keys, s.run.Now()}, found.each)
	return found
}

// Visit visits buckets in byte order of key, page by page by the primary key's index. See
// [store.Store].
func (s *Store) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	return paging.Visit(func(after string, limit int) (page []store.Entry, err error) {
		err = s.run.Look(ctx, "visit", func(ctx context.Context, conn *pgxpool.Conn) (err error) {
			page, err = s.page(ctx, conn, prefix, after, limit)
			return err
		})
		return page, err
	}, f)
}

// page reads up to limit buckets whose keys start with prefix and come after the key after. It
// leaves out damaged buckets, and then returns an error beside the others.
func (s *Store) page(ctx context.Context, q pgrun.Queryer, prefix, after string, limit int) ([]store.Entry, error) {
	if !utf8.ValidString(prefix) || strings.Contains(prefix, "\x00") {
		return nil, nil // no key starts with such a prefix, and the server would refuse the statement
	}
	var page []store.Entry
	var damage error
	for more := true; more && len(page) < limit; {
		wanted, n := limit-len(page), 0
		args := []any{prefix, after, wanted, s.run.Now(), pgrun.PrefixEnd(prefix)}
		_, err := s.run.QueryByIndex(ctx, q, s.sql.Load().page, args, func(rows pgx.Rows) error {
			key, rec, clock, err := readStored(rows)
			if bad := rec.Validate(); bad != nil {
				damage = cmp.Or(damage, bad)
			} else {
				page = append(page, store.Entry{Key: key, State: rec.State(store.Limit{}, clock, s.maxSkew)})
			}
			after, n = key, n+1
			return err
		})
		if err != nil {
			return nil, err
		}
		more = n == wanted
	}
	return page, damage
}

// Delete removes buckets. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return s.run.Wrap("delete", s.run.Ready(ctx))
	}
	return s.run.Change(ctx, "delete", func(ctx context.Context, conn *pgxpool.Conn) error {
		return s.remove(ctx, conn, keys, s.run.LockTimeout(conn))
	})
}

func (s *Store) remove(ctx context.Context, q pgrun.Queryer, keys []string, lockTimeout *string) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := s.run.QueryByIndex(ctx, q, s.sql.Load().remove, []any{keys, lockTimeout}, nil)
	return err
}

// prunePages is how many pages of the table one statement of Prune reads, which takes some
// milliseconds.
const prunePages = 1000

// Prune removes buckets that have leaked empty, some pages of the table at a time. It leaves rows
// that somebody is filling to the next Prune. After an error, the number counts the buckets that
// were removed before it. See [store.Store].
//
// It answers [errors.ErrUnsupported] if the table is neither plain nor partitioned, for instance a
// view, a foreign table, or one that other tables inherit from.
func (s *Store) Prune(ctx context.Context) (removed int64, err error) { return s.prune(ctx, nil) }

// pruneAlone is Prune for Options.PruneEvery. It stops where it finds another process at the table.
func (s *Store) pruneAlone(ctx context.Context) (removed int64, err error) {
	lock := s.pruneLock()
	return s.prune(ctx, &lock)
}

// pruneLock returns the key of the advisory lock of the table.
func (s *Store) pruneLock() int64 {
	name := fnv.New64a()
	_, _ = io.WriteString(name, "brim: prune "+s.run.Names.Qualified())
	return int64(name.Sum64())
}

func (s *Store) prune(ctx context.Context, lock *int64) (removed int64, err error) {
	var pages, parts int64
	var is shape
	err = s.run.Look(ctx, "prune", func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, s.sql.Load().shape).Scan(&pages, &parts, &is.kind, &is.parent)
	})
	if why := is.unprunable(); err == nil && why != "" {
		return 0, s.run.Wrap("prune", fmt.Errorf("%w: the table of buckets %s, and Prune reads the pages of a plain "+
			"or partitioned table; see docs/postgres.md for a statement that removes empty buckets",
			errors.ErrUnsupported, why))
	}
	step := max(1, prunePages/max(1, parts)) // the statement reads as many pages of each part
	for from, mine := int64(0), true; err == nil && mine && from < pages; from += step {
		var n int64
		err = s.run.Change(ctx, "prune", func(ctx context.Context, conn *pgxpool.Conn) error {
			args := []any{from, from + step, s.run.Now(), s.maxSkew, lock}
			_, err := s.run.QueryByIndex(ctx, conn, s.sql.Load().prune, args, func(rows pgx.Rows) error { return rows.Scan(&mine, &n) })
			return err
		})
		removed += n
	}
	return removed, err
}

// shape is the kind of table that the buckets are in; see shape.sql.
type shape struct {
	kind   string // relkind in pg_class
	parent bool   // it is plain, and other tables inherit from it
}

// unprunable returns the reason why Prune cannot read the pages of the table, or "".
func (t shape) unprunable() string {
	switch {
	case t.kind == "f":
		return "is a foreign table"
	case t.kind == "v":
		return "is a view"
	case t.kind != "r" && t.kind != "p":
		return "is of kind " + t.kind + " in pg_class"
	case t.parent:
		return "has tables that inherit from it"
	}
	return ""
}
