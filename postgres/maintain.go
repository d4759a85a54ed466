package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/store"
)

// Read reports states, all at one time of the server's clock. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := s.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "read", err)
	}
	states, err := s.readFrom(ctx, s.pool, buckets)
	return states, store.Wrap(backend, "read", s.looked(ctx, err))
}

func (s *Store) readFrom(ctx context.Context, q queryer, buckets []store.Bucket) ([]store.State, error) {
	if len(buckets) == 0 {
		return nil, nil
	}
	keys := make([]string, len(buckets))
	for i, b := range buckets {
		keys[i] = b.Key
	}
	found := make(map[string]store.Record, len(keys))
	var clock int64
	rows, err := q.Query(ctx, s.sql.read, keys, s.now())
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
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Entry, error) {
	if err := s.ready(ctx); err != nil || limit <= 0 {
		return nil, store.Wrap(backend, "scan", err)
	}
	page, err := s.scanFrom(ctx, s.pool, prefix, after, limit)
	return page, store.Wrap(backend, "scan", s.looked(ctx, err))
}

func (s *Store) scanFrom(ctx context.Context, q queryer, prefix, after string, limit int) ([]store.Entry, error) {
	if !utf8.ValidString(prefix) || strings.Contains(prefix, "\x00") {
		return nil, nil // no key starts with what cannot be in one, and the server would refuse the question
	}
	rows, err := q.Query(ctx, s.sql.scan, prefix, after, limit, s.now(), end(prefix))
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

// end returns the first text after all those that start with prefix, or null where there is none. UTF-8 sorts by code point,
// so it is the prefix with its last character replaced by the next.
func end(prefix string) pgtype.Text {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
			continue
		case last == 0xD7FF: // what follows is not a character: the surrogates
			last = 0xDFFF
		}
		return pgtype.Text{String: prefix + string(last+1), Valid: true}
	}
	return pgtype.Text{}
}

// Delete removes buckets. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.ready(ctx); err != nil || len(keys) == 0 {
		return store.Wrap(backend, "delete", err)
	}
	remove := func(conn *pgxpool.Conn) error {
		return s.query(ctx, conn, s.sql.remove, []any{keys}, func(pgx.Rows) error { return nil })
	}
	err := s.onConn(ctx, remove)
	for n := 0; err != nil && n < retries; n++ {
		v := judge(err)
		if v == serialized {
			s.explicit.Store(true)
		}
		if v != serialized && v != retry || ctx.Err() != nil {
			break
		}
		if backoff(ctx, n) == nil {
			err = s.onConn(ctx, remove)
		}
	}
	return store.Wrap(backend, "delete", s.changed(ctx, err))
}

// prunePages is how many pages of the table one statement of Prune looks at: some milliseconds.
const prunePages = 1000

// Prune removes buckets that have leaked empty, a slice of the table at a time. Rows that somebody is filling are left for the
// next time. See [store.Store].
func (s *Store) Prune(ctx context.Context) (int64, error) {
	var removed, pages int64
	if err := s.ready(ctx); err != nil {
		return 0, store.Wrap(backend, "prune", err)
	}
	if err := s.pool.QueryRow(ctx, s.sql.pages).Scan(&pages); err != nil {
		return 0, store.Wrap(backend, "prune", s.looked(ctx, err))
	}
	for from := int64(0); from < pages; from += prunePages {
		if err := s.ready(ctx); err != nil {
			return removed, store.Wrap(backend, "prune", err)
		}
		n, err := s.pruneSlice(ctx, from, from+prunePages)
		if err != nil {
			return removed, store.Wrap(backend, "prune", s.changed(ctx, err))
		}
		removed += n
	}
	return removed, nil
}

func (s *Store) pruneSlice(ctx context.Context, from, to int64) (removed int64, err error) {
	for n := 0; ; n++ {
		var tag pgconn.CommandTag
		tag, err = s.exec(ctx, s.sql.prune, from, to, s.now(), s.maxSkew)
		if err == nil || judge(err) != serialized || n == retries {
			return tag.RowsAffected(), err
		}
		s.explicit.Store(true)
		if err := backoff(ctx, n); err != nil {
			return 0, err
		}
	}
}

// exec sends one statement, at READ COMMITTED where the session's default is another.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = s.onConn(ctx, func(conn *pgxpool.Conn) (err error) {
		if !s.explicit.Load() {
			tag, err = conn.Exec(ctx, sql, args...)
			return err
		}
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
			tag, err = tx.Exec(ctx, sql, args...)
			return err
		})
	})
	return tag, err
}

// onConn runs f, which writes, on a connection of the pool. One to a server that only reads is not given back.
func (s *Store) onConn(ctx context.Context, f func(*pgxpool.Conn) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return unsent{err}
	}
	defer conn.Release()
	err = f(conn)
	if err != nil && judge(err) == readOnly {
		_ = conn.Conn().Close(ctx)
	}
	return err
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

// looked explains the error of a call that changes nothing: whatever became of it, nothing was applied.
func (s *Store) looked(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	err = s.explain(err)
	if errors.Is(err, store.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: the connection failed before the answer came", store.ErrUnavailable)
	}
	return err
}

// changed explains the error of a call that runs under the caller's own context.
func (s *Store) changed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() == nil {
		return s.explain(err)
	}
	if judge(err) == unknown {
		return fmt.Errorf("%w: %w while the call was in flight", store.ErrUnknownOutcome, ctx.Err())
	}
	return ctx.Err()
}
