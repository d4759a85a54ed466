package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

type txnRequest = combine.Request[[]store.Txn, []store.Result]

// decideBatch decides a batch of the combiner: the transactions of all its callers in one of
// the server's.
func (s *Store) decideBatch(ctx context.Context, conn *pgxpool.Conn, batch []*txnRequest) error {
	var txns []store.Txn
	for _, r := range batch {
		txns = append(txns, r.In...)
	}
	results, err := s.decideIn(ctx, conn, txns, true)
	if err != nil {
		return err
	}
	for _, r := range batch {
		r.Out, results = results[:len(r.In):len(r.In)], results[len(r.In):]
	}
	return nil
}

// decideLocked decides single operations under row locks: those that the combined statements
// left open.
func (f *filler) decideLocked(ctx context.Context, reqs []*fillRequest) {
	txns := make([]store.Txn, len(reqs))
	for i, r := range reqs {
		txns[i] = store.Txn{r.In}
	}
	var results []store.Result
	err := f.lane.Attempt(ctx, func(conn *pgxpool.Conn) (err error) {
		results, err = f.s.decideIn(ctx, conn, txns, true)
		return err
	})
	for i, r := range reqs {
		if err == nil {
			r.Out, r.Err = one(results[i:i+1], nil)
		} else {
			r.Err = err
		}
	}
}

// decideIn locks the rows of all keys, decides, and stores the rows that changed: two round
// trips. Where own is set, it begins and commits a transaction; else q is the caller's
// transaction.
func (s *Store) decideIn(ctx context.Context, q pgrun.Queryer, txns []store.Txn, own bool) ([]store.Result, error) {
	w := newWorking(txns)
	if err := s.lock(ctx, q, w, own); err != nil {
		return nil, err
	}
	results := make([]store.Result, len(txns))
	for i, txn := range txns {
		results[i] = w.decide(txn, s.maxSkew)
	}
	if w.skewed > 0 {
		s.skewed(w.skewed)
	}
	if err := s.store(ctx, q, w, own); err != nil {
		return nil, err
	}
	return results, nil
}

// lock locks the rows, creates the missing ones, and reads them at a time at which all locks
// are held.
func (s *Store) lock(ctx context.Context, q pgrun.Queryer, w *working, own bool) error {
	b := &pgx.Batch{}
	if own {
		pgrun.QueueBegin(b)
	}
	now := s.run.Now()
	b.Queue(s.sql.lock, w.keys, now).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var key string
			if err := rows.Scan(&key); err != nil {
				return err
			}
			w.buckets[key].created = true
		}
		return rows.Err()
	})
	found := 0
	b.Queue(s.sql.read, w.keys, now).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			key, rec, clock, err := scanStored(rows)
			if err != nil {
				return err
			}
			if k := w.buckets[key]; k != nil {
				k.rec = rec
				found++
			}
			w.clock = clock
		}
		return rows.Err()
	})
	err := q.SendBatch(ctx, b).Close()
	if err == nil && found != len(w.keys) {
		err = errors.New("a row that was locked is missing")
	}
	for _, k := range w.buckets {
		if k.created {
			k.rec = store.NewRecord(w.clock)
		}
	}
	return err
}

// store writes the rows that changed, removes rows that were created for nothing, and commits.
func (s *Store) store(ctx context.Context, q pgrun.Queryer, w *working, own bool) error {
	changed, unused := w.changes()
	if own && len(changed.keys) == 0 {
		_, err := q.Exec(ctx, "ROLLBACK")
		return err
	}
	b := &pgx.Batch{}
	if len(changed.keys) > 0 {
		b.Queue(s.sql.write, changed.keys, changed.levels, changed.times, changed.held,
			changed.capacities, changed.leakRates, changed.blocks)
	}
	if len(unused) > 0 {
		b.Queue(s.sql.remove, unused)
	}
	if own {
		pgrun.QueueCommit(b)
	}
	if b.Len() == 0 {
		return nil
	}
	return q.SendBatch(ctx, b).Close()
}

// working holds the buckets of some transactions while they are decided.
type working struct {
	keys    []string // in byte order
	buckets map[string]*bucket
	clock   int64
	skewed  int
}

type bucket struct {
	rec     store.Record
	created bool // by lock: the row was missing
	write   bool
}

func newWorking(txns []store.Txn) *working {
	w := &working{buckets: make(map[string]*bucket)}
	for _, txn := range txns {
		for i := range txn {
			if key := txn[i].Key; w.buckets[key] == nil {
				w.buckets[key] = &bucket{}
				w.keys = append(w.keys, key)
			}
		}
	}
	slices.Sort(w.keys)
	return w
}

// decide decides one transaction on the records as the transactions before it left them.
func (w *working) decide(txn store.Txn, maxSkew time.Duration) store.Result {
	recs := make([]*store.Record, len(txn))
	for i := range txn {
		recs[i] = &w.buckets[txn[i].Key].rec
	}
	res, effects := store.Decide(txn, recs, w.clock, maxSkew)
	for i, effect := range effects {
		if effect&store.Write != 0 {
			w.buckets[txn[i].Key].write = true
		}
		if effect&store.Skewed != 0 {
			w.skewed++
		}
	}
	return res
}

// stored holds the columns of the rows to store.
type stored struct {
	keys                                []string
	levels, held, capacities, leakRates []float64
	times                               []time.Time
	blocks                              []pgtype.Timestamptz
}

// changes returns the rows to store, and the keys of rows that were created and not used.
func (w *working) changes() (changed stored, unused []string) {
	for _, key := range w.keys {
		k := w.buckets[key]
		if !k.write {
			if k.created {
				unused = append(unused, key)
			}
			continue
		}
		r := &k.rec
		changed.keys = append(changed.keys, key)
		changed.levels = append(changed.levels, r.Level)
		changed.held = append(changed.held, r.Held)
		changed.capacities = append(changed.capacities, r.Capacity)
		changed.leakRates = append(changed.leakRates, r.LeakRate)
		changed.times = append(changed.times, pgrun.Timestamp(r.Time))
		block := pgtype.Timestamptz{Time: pgrun.Timestamp(r.BlockedUntil), Valid: r.BlockedUntil != 0}
		changed.blocks = append(changed.blocks, block)
	}
	return changed, unused
}
