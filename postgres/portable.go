package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// This file has the portable forms of the store's calls, for tables that a sharding engine keeps
// on several servers. Such an engine takes statements that name one row by its key, and plain
// SELECTs over many rows. It refuses row locks over many rows, INSERT and UPDATE from other rows,
// and functions that read a clock. So each row is locked, written and removed by a statement of
// its own, and package store decides in between.

// portable reports whether statements must be portable. bounded says that lock_timeout reaches
// the rows: a setting stays on the server that got the statement.
func (s *Store) portable(ctx context.Context, q pgrun.Queryer) (portable, bounded bool, err error) {
	distributed, err := s.placement.Distributed(ctx, q)
	return s.byHand || distributed != "", distributed == "", err
}

// readPortable reads the clock, then the rows of a statement, and calls each for each row.
func (s *Store) readPortable(
	ctx context.Context, q pgrun.Queryer, sql string, args []any, each func(key string, rec store.Record),
) (clock int64, err error) {
	b := &pgx.Batch{}
	s.queueClock(b, &clock)
	queueRows(b, sql, args, each)
	return clock, s.run.LookByIndex(ctx, q, b)
}

func (s *Store) queueClock(b *pgx.Batch, clock *int64) {
	b.Queue(s.sql.Load().portableClock, s.run.Now()).QueryRow(func(row pgx.Row) error {
		var now pgtype.Timestamptz
		err := row.Scan(&now)
		*clock = micros(now)
		return err
	})
}

func queueRows(b *pgx.Batch, sql string, args []any, each func(key string, rec store.Record)) {
	b.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			key, rec, _, err := scanStored(rows)
			if err != nil {
				return err
			}
			each(key, rec)
		}
		return rows.Err()
	})
}

// queueKeys queues a statement for each of the keys. first is called for a key whose statement
// returns a row.
func queueKeys(b *pgx.Batch, sql string, keys []string, first func(key string), more ...any) {
	for _, key := range keys {
		b.Queue(sql, append([]any{key}, more...)...).Query(func(rows pgx.Rows) error {
			if rows.Next() {
				first(key)
			}
			rows.Close()
			return rows.Err()
		})
	}
}

// queueLocks queues the portable form of lock.sql and read.sql. It asks no snapshot, so it refuses
// nothing. lane is nil in the caller's transaction.
func (s *Store) queueLocks(b *pgx.Batch, w *working, a asked, lane *pgrun.Lane, bounded bool, found map[string]bool) {
	sql := s.sql.Load()
	if lane != nil {
		wait := lane.LockTimeout()
		if !bounded {
			wait = nil
		}
		b.Queue(sql.portableBegin, wait, lane.IdleTimeout())
	}
	keys := slices.Clone(a.keys)
	slices.Sort(keys)
	queueKeys(b, sql.portableLock, slices.Compact(keys), func(key string) { w.buckets[key].created = true })
	s.queueClock(b, &w.clock)
	queueRows(b, sql.portableRead, []any{w.keys}, func(key string, rec store.Record) {
		if k := w.buckets[key]; k != nil {
			k.rec = rec
			found[key] = true
		}
	})
}

// queueChanges queues the portable form of write.sql and delete.sql.
func (s *Store) queueChanges(b *pgx.Batch, changed stored, unused []string) {
	sql := s.sql.Load()
	for i, key := range changed.keys {
		b.Queue(sql.portableWrite, key, changed.levels[i], changed.times[i], changed.held[i], changed.capacities[i],
			changed.leakRates[i], changed.blocks[i])
	}
	queueKeys(b, sql.portableDelete, unused, func(string) {})
}

// decidePortable answers requests by the locked rows. It asks the rows first, without a lock, where
// the last requests met refusals: a refusal then writes nothing and waits for nobody.
func (f *filler) decidePortable(ctx context.Context, reqs []*fillRequest) (stalled []*fillRequest) {
	open, refused := reqs, 0
	if f.careful > 0 {
		open = f.refuse(ctx, reqs)
	}
	if len(open) > 0 {
		stalled = f.decideLocked(ctx, open)
	}
	for _, r := range reqs {
		if r.Err == nil && !r.Out.Accepted {
			refused++
		}
	}
	f.caution(refused, len(reqs), rarePortable)
	return stalled
}

// refuse answers the requests that would change nothing, and returns the others.
func (f *filler) refuse(ctx context.Context, reqs []*fillRequest) (open []*fillRequest) {
	found, clock, err := f.look(ctx, reqs)
	if err != nil {
		return reqs // the statements that follow report the error
	}
	for _, r := range reqs {
		rec := found.of(r.In.Key, clock)
		st, effect, err := rec.Fill(&r.In, clock, f.s.maxSkew)
		if err != nil || effect != 0 {
			open = append(open, r)
			continue
		}
		r.Out = st
	}
	return open
}

// scanPortable is the portable form of scan.
func (s *Store) scanPortable(
	ctx context.Context, q pgrun.Queryer, prefix, after string, limit int,
) (page []store.Entry, err error) {
	var keys []string
	var recs []store.Record
	clock, err := s.readPortable(ctx, q, s.sql.Load().portableScan, []any{prefix, after, limit, pgrun.PrefixEnd(prefix)},
		func(key string, rec store.Record) { keys, recs = append(keys, key), append(recs, rec) })
	for i := range recs {
		page = append(page, store.Entry{Key: keys[i], State: recs[i].State(store.Limit{}, clock, s.maxSkew)})
	}
	return page, err
}

// removePortable removes the rows of keys, which are locked in byte order, in one transaction.
func (s *Store) removePortable(ctx context.Context, q pgrun.Queryer, keys []string, lockTimeout *string) error {
	sorted := slices.Clone(keys)
	slices.Sort(sorted)
	b := &pgx.Batch{}
	application := pgrun.OfApplication(q)
	if !application {
		pgrun.QueueBegin(b)
		b.Queue(s.sql.Load().portableBegin, lockTimeout, s.run.IdleTimeout())
	}
	queueKeys(b, s.sql.Load().portableDelete, slices.Compact(sorted), func(string) {})
	if !application {
		pgrun.QueueCommit(b)
	}
	return q.SendBatch(ctx, b).Close()
}

// Sizes of the steps of prunePortable.
const (
	expiredKeys = 10_000 // that one statement finds
	doomedKeys  = 500    // that one transaction removes
)

// prunePortable is Prune for a table whose rows are not all in one file. It finds the keys of
// expired buckets without a lock, locks the rows of some at a time in byte order of key, and
// removes those that are still expired.
func (s *Store) prunePortable(ctx context.Context) (removed int64, err error) {
	var clock int64
	err = s.run.Look(ctx, "prune", func(ctx context.Context, conn *pgxpool.Conn) error {
		b := &pgx.Batch{}
		s.queueClock(b, &clock)
		return conn.SendBatch(ctx, b).Close()
	})
	past := pgrun.Timestamp(clock).Add(-s.maxSkew)
	for after, more := "", true; err == nil && more; {
		var keys []string
		err = s.run.Look(ctx, "prune", func(ctx context.Context, conn *pgxpool.Conn) error {
			keys = keys[:0]
			args := []any{after, past, expiredKeys}
			_, err := s.run.QueryByIndex(ctx, conn, s.sql.Load().portableExpired, args, func(rows pgx.Rows) error {
				keys = append(keys, string(rows.RawValues()[0]))
				return nil
			})
			return err
		})
		if more = len(keys) == expiredKeys; more {
			after = keys[len(keys)-1]
		}
		for some := range slices.Chunk(keys, doomedKeys) {
			var n int64
			if err == nil {
				err = s.run.Change(ctx, "prune", func(ctx context.Context, conn *pgxpool.Conn) (err error) {
					n, err = s.removeExpired(ctx, conn, some, past)
					return err
				})
				removed += n
			}
		}
	}
	return removed, err
}

// removeExpired removes the rows of those keys whose buckets had leaked empty at the time past.
func (s *Store) removeExpired(ctx context.Context, conn *pgxpool.Conn, keys []string, past time.Time) (int64, error) {
	sql := s.sql.Load()
	var doomed []string
	b := &pgx.Batch{}
	pgrun.QueueBegin(b)
	b.Queue(sql.portableBegin, nil, s.run.IdleTimeout())
	queueKeys(b, sql.portableDoom, keys, func(key string) { doomed = append(doomed, key) }, past)
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return 0, err
	}
	b = &pgx.Batch{}
	queueKeys(b, sql.portableDelete, doomed, func(string) {})
	pgrun.QueueCommit(b)
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return 0, err
	}
	return int64(len(doomed)), nil
}
