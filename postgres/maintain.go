package postgres

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// Read reports states, all at one time of the server's clock. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	if len(buckets) == 0 {
		return nil, s.run.Wrap("read", s.run.Ready(ctx))
	}
	err = s.run.Look(ctx, "read", func(conn *pgxpool.Conn) (err error) {
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
	found := make(map[string]store.Record, len(keys))
	var clock int64
	rows, err := q.Query(ctx, s.sql.read, keys, s.run.Now())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		key, rec, now, err := scanStored(rows)
		if err != nil {
			return nil, err
		}
		found[key], clock = rec, now
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	states := make([]store.State, len(buckets))
	for i, b := range buckets {
		rec, ok := found[b.Key]
		if !ok {
			rec = store.NewRecord(clock)
		}
		states[i] = rec.State(b.Limit, clock, s.maxSkew)
	}
	return states, nil
}

// Scan lists buckets in byte order of key, by the primary key's index. See [store.Store].
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) (page []store.Entry, err error) {
	if limit <= 0 {
		return nil, s.run.Wrap("scan", s.run.Ready(ctx))
	}
	err = s.run.Look(ctx, "scan", func(conn *pgxpool.Conn) (err error) {
		page, err = s.scan(ctx, conn, prefix, after, limit)
		return err
	})
	return page, err
}

func (s *Store) scan(ctx context.Context, q pgrun.Queryer, prefix, after string, limit int) ([]store.Entry, error) {
	if limit <= 0 || !utf8.ValidString(prefix) || strings.Contains(prefix, "\x00") {
		return nil, nil // no key starts with such a prefix, and the server would refuse the statement
	}
	rows, err := q.Query(ctx, s.sql.scan, prefix, after, limit, s.run.Now(), end(prefix))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []store.Entry
	for rows.Next() {
		key, rec, clock, err := scanStored(rows)
		if err != nil {
			return nil, err
		}
		page = append(page, store.Entry{Key: key, State: rec.State(store.Limit{}, clock, s.maxSkew)})
	}
	return page, rows.Err()
}

// end returns the first text after all texts that start with prefix, or null where there is
// none. UTF-8 sorts by code point, so end replaces the last character of the prefix by the
// next.
func end(prefix string) pgtype.Text {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
			continue
		case last == 0xD7FF: // surrogates follow, which are no characters
			last = 0xDFFF
		}
		return pgtype.Text{String: prefix + string(last+1), Valid: true}
	}
	return pgtype.Text{}
}

// Delete removes buckets. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return s.run.Wrap("delete", s.run.Ready(ctx))
	}
	return s.run.Change(ctx, "delete", func(conn *pgxpool.Conn) error { return s.remove(ctx, conn, keys) })
}

func (s *Store) remove(ctx context.Context, q pgrun.Queryer, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := s.run.Query(ctx, q, s.sql.remove, []any{keys}, nil)
	return err
}

// prunePages is how many pages of the table one statement of Prune reads: some milliseconds.
const prunePages = 1000

// Prune removes buckets that have leaked empty, some pages of the table at a time. It leaves
// rows that somebody is filling for the next Prune. See [store.Store].
func (s *Store) Prune(ctx context.Context) (removed int64, err error) {
	var pages int64
	err = s.run.Look(ctx, "prune", func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, s.sql.pages).Scan(&pages)
	})
	for from := int64(0); err == nil && from < pages; from += prunePages {
		var n int64
		err = s.run.Change(ctx, "prune", func(conn *pgxpool.Conn) (err error) {
			n, err = s.run.Query(ctx, conn, s.sql.prune, []any{from, from + prunePages, s.run.Now(), s.maxSkew}, nil)
			return err
		})
		removed += n
	}
	return removed, err
}

func (s *Store) pruneLoop(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		switch n, err := s.Prune(ctx); {
		case ctx.Err() != nil:
		case err != nil:
			s.log.Error("postgres: pruning failed; it will be tried again", "in", every, "error", err)
		case n > 0:
			s.log.Info("postgres: pruned buckets that had leaked empty", "removed", n)
		}
	}
}
