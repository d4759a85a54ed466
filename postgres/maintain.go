package postgres

import (
	"context"
	"errors"
	"fmt"
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
	found, clock, err := s.records(ctx, q, keys)
	if err != nil {
		return nil, err
	}
	states := make([]store.State, len(buckets))
	for i, b := range buckets {
		states[i] = found.of(b.Key, clock).State(b.Limit, clock, s.maxSkew)
	}
	return states, nil
}

// records are the rows of some keys, as a statement found them.
type records map[string]store.Record

// of returns the record of a key, or a new one if the key has no row.
func (r records) of(key string, clock int64) store.Record {
	if rec, ok := r[key]; ok {
		return rec
	}
	return store.NewRecord(clock)
}

// records reads the rows of keys, and the clock. It locks nothing.
func (s *Store) records(ctx context.Context, q pgrun.Queryer, keys []string) (found records, clock int64, err error) {
	found = make(records, len(keys))
	portable, _, err := s.portable(ctx, q)
	switch {
	case err != nil:
		return nil, 0, err
	case portable:
		clock, err = s.readPortable(ctx, q, s.sql.Load().portableRead, []any{keys},
			func(key string, rec store.Record) { found[key] = rec })
		return found, clock, err
	}
	query, sql := s.run.Query, s.sql.Load().read
	switch {
	case len(keys) == 1:
		sql = s.sql.Load().readOne
	case s.run.Small():
		query = s.run.QueryByIndex
	}
	_, err = query(ctx, q, sql, []any{keys, s.run.Now()}, func(rows pgx.Rows) error {
		key, rec, now, err := scanStored(rows)
		found[key], clock = rec, now
		return err
	})
	return found, clock, err
}

// Visit visits buckets in byte order of key, page by page by the primary key's index. See
// [store.Store].
func (s *Store) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	return paging.Visit(func(after string, limit int) (page []store.Entry, err error) {
		err = s.run.Look(ctx, "visit", func(ctx context.Context, conn *pgxpool.Conn) (err error) {
			page, err = s.scan(ctx, conn, prefix, after, limit)
			return err
		})
		return page, err
	}, f)
}

func (s *Store) scan(ctx context.Context, q pgrun.Queryer, prefix, after string, limit int) ([]store.Entry, error) {
	if limit <= 0 || !utf8.ValidString(prefix) || strings.Contains(prefix, "\x00") {
		return nil, nil // no key starts with such a prefix, and the server would refuse the statement
	}
	var page []store.Entry
	portable, _, err := s.portable(ctx, q)
	switch {
	case err != nil:
		return nil, err
	case portable:
		return s.scanPortable(ctx, q, prefix, after, limit)
	}
	args := []any{prefix, after, limit, s.run.Now(), pgrun.PrefixEnd(prefix)}
	_, err = s.run.QueryByIndex(ctx, q, s.sql.Load().scan, args, func(rows pgx.Rows) error {
		key, rec, clock, err := scanStored(rows)
		page = append(page, store.Entry{Key: key, State: rec.State(store.Limit{}, clock, s.maxSkew)})
		return err
	})
	return page, err
}

// Delete removes buckets. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return s.run.Wrap("delete", s.run.Ready(ctx))
	}
	return s.run.Change(ctx, "delete", func(ctx context.Context, conn *pgxpool.Conn) error {
		return s.remove(ctx, conn, keys, s.run.LockTimeout(ctx, conn))
	})
}

func (s *Store) remove(ctx context.Context, q pgrun.Queryer, keys []string, lockTimeout *string) error {
	if len(keys) == 0 {
		return nil
	}
	portable, bounded, err := s.portable(ctx, q)
	switch {
	case err != nil:
		return err
	case portable && !bounded:
		return s.removePortable(ctx, q, keys, nil)
	case portable:
		return s.removePortable(ctx, q, keys, lockTimeout)
	}
	_, err = s.run.QueryByIndex(ctx, q, s.sql.Load().remove, []any{keys, lockTimeout}, nil)
	return err
}

// prunePages is how many pages of the table one statement of Prune reads, which takes some
// milliseconds.
const prunePages = 1000

// Prune removes buckets that have leaked empty, some pages of the table at a time. It leaves rows
// that somebody is filling to the next Prune. After an error, the number counts the buckets that
// were removed before it. See [store.Store].
//
// On a table that is partitioned or distributed, or with [Options.Portable], Prune finds empty
// buckets by their keys, which costs more. It answers [errors.ErrUnsupported] if the table is of
// another kind, for instance a view, a foreign table, or one that other tables inherit from.
func (s *Store) Prune(ctx context.Context) (removed int64, err error) {
	var pages int64
	var is shape
	var portable bool
	err = s.run.Look(ctx, "prune", func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		if portable, _, err = s.portable(ctx, conn); portable || err != nil {
			return err
		}
		return conn.QueryRow(ctx, s.sql.Load().pages).Scan(&pages, &is.kind, &is.parent, &is.elsewhere)
	})
	if err == nil && (portable || is.kind == partitioned) {
		return s.prunePortable(ctx)
	}
	if why := is.unprunable(); err == nil && why != "" {
		return 0, s.run.Wrap("prune", fmt.Errorf("%w: the table of buckets %s, and Prune reads the pages of one "+
			"plain table, or finds keys if Options.Portable is set; see docs/postgres.md for a statement that removes "+
			"empty buckets", errors.ErrUnsupported, why))
	}
	for from := int64(0); err == nil && from < pages; from += prunePages {
		var n int64
		err = s.run.Change(ctx, "prune", func(ctx context.Context, conn *pgxpool.Conn) (err error) {
			n, err = s.run.QueryByIndex(ctx, conn, s.sql.Load().prune, []any{from, from + prunePages, s.run.Now(), s.maxSkew}, nil)
			return err
		})
		removed += n
	}
	return removed, err
}

// partitioned is the kind of a table whose rows are in other tables, its partitions.
const partitioned = "p"

// shape tells where the rows of the table are; see pages.sql.
type shape struct {
	kind      string // relkind in pg_class
	parent    bool   // other tables inherit from it
	elsewhere bool   // it has rows, and none of them in its own file
}

// unprunable returns the reason why the rows of the table are not all in its own pages, or "". The
// number of a row is unique within one file only, so Prune would delete rows of other files.
func (t shape) unprunable() string {
	switch {
	case t.kind == "f":
		return "is a foreign table"
	case t.kind == "v":
		return "is a view"
	case t.kind != "r":
		return "is of kind " + t.kind + " in pg_class"
	case t.parent:
		return "has tables that inherit from it"
	case t.elsewhere:
		return "has its rows on other servers"
	}
	return ""
}
