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
func (s *Store) decideBatch(ctx context.Context, l *pgrun.Lane, conn *pgxpool.Conn, batch []*txnRequest) error {
	calls := make([][]store.Txn, len(batch))
	for i, r := range batch {
		calls[i] = r.In
	}
	results, err := s.decideIn(ctx, conn, calls, l)
	if err != nil {
		return err
	}
	for _, r := range batch {
		r.Out, results = results[:len(r.In):len(r.In)], results[len(r.In):]
	}
	return nil
}

// decideLocked decides single operations under row locks: those that the combined statements
// left open. It returns the operations if a row lock stalled them.
func (f *filler) decideLocked(ctx context.Context, reqs []*fillRequest) (stalled []*fillRequest) {
	calls := make([][]store.Txn, len(reqs))
	for i, r := range reqs {
		calls[i] = []store.Txn{{r.In}}
	}
	var results []store.Result
	err := f.lane.Attempt(ctx, func(conn *pgxpool.Conn) (err error) {
		results, err = f.s.decideIn(ctx, conn, calls, f.lane)
		return err
	})
	switch {
	case pgrun.Stalled(err):
		return reqs
	case pgrun.Refused(err) && len(reqs) > 1: // one bad request fails alone
		for i := range reqs {
			stalled = append(stalled, f.decideLocked(ctx, reqs[i:i+1])...)
		}
		return stalled
	}
	for i, r := range reqs {
		if err == nil {
			r.Out, r.Err = one(results[i:i+1], nil)
		} else {
			r.Err = err
		}
	}
	return nil
}

// decideIn locks the rows of all keys that transactions may change, decides, and stores the rows
// that changed: two round trips. Where all transactions are refused, it locks and stores
// nothing. It begins and commits a transaction of the lane; where lane is nil, q is the caller's
// transaction. It returns the results of all calls, one after the other.
func (s *Store) decideIn(
	ctx context.Context, q pgrun.Queryer, calls [][]store.Txn, lane *pgrun.Lane,
) ([]store.Result, error) {
	txns := slices.Concat(calls...)
	for asked := newAsked(txns); ; asked.needs = make([]pgtype.Float8, len(asked.keys)) {
		w := newWorking(txns)
		refused, err := s.lock(ctx, q, w, asked, lane)
		if err != nil {
			return nil, err
		}
		results, again := s.decideAll(w, calls, refused)
		if again {
			if lane != nil {
				if _, err := q.Exec(ctx, "ROLLBACK"); err != nil {
					return nil, err
				}
			}
			continue
		}
		if w.skewed > 0 {
			s.skewed(w.skewed)
		}
		if err := s.store(ctx, q, w, lane != nil); err != nil {
			return nil, err
		}
		return results, nil
	}
}

// onlyAsks reports whether all of the transactions ask.
func onlyAsks(txns []store.Txn) bool {
	return !slices.ContainsFunc(txns, func(txn store.Txn) bool { return !txn.Asks() })
}

// askIn decides transactions that ask, from the rows that one statement reads. It locks nothing.
func (s *Store) askIn(ctx context.Context, q pgrun.Queryer, txns []store.Txn) ([]store.Result, error) {
	w := newWorking(txns)
	found, clock, err := s.records(ctx, q, w.keys)
	if err != nil {
		return nil, err
	}
	w.clock = clock
	for key, b := range w.buckets {
		b.rec = found.of(key, clock)
	}
	results, _ := s.decideAll(w, [][]store.Txn{txns}, nil)
	return results, nil
}

// decideAll decides the transactions of calls. It stops and reports again where the rows of a
// refused transaction, which are not locked, do not suffice to decide it.
//
// decideAll decides the refused transactions first, so they see the rows as one statement has read
// them. The others take effect at the commit. Between the two, somebody else may fill a row that is
// not locked. An answer with that row as it was read, and with another row as the commit will leave
// it, would describe a state that never existed.
func (s *Store) decideAll(
	w *working, calls [][]store.Txn, refused map[int32]bool,
) (results []store.Result, again bool) {
	txns := slices.Concat(calls...)
	results = make([]store.Result, len(txns))
	first := 0 // of the call at hand
	for _, call := range calls {
		for i := first; i < first+len(call); i++ {
			if !refused[int32(i)] {
				continue
			}
			var wrote bool
			results[i], wrote = w.decide(txns[i], s.maxSkew)
			for j := first; j < i; j++ { // a call's transactions are decided in order
				wrote = wrote || !refused[int32(j)] && overlap(txns[i], txns[j])
			}
			if wrote || accepted(results[i]) {
				return nil, true
			}
		}
		first += len(call)
	}
	for i, txn := range txns {
		if !refused[int32(i)] {
			results[i], _ = w.decide(txn, s.maxSkew)
		}
	}
	return results, false
}

// overlap reports whether two transactions have a key in common.
func overlap(a, b store.Txn) bool {
	return slices.ContainsFunc(a, func(x store.Op) bool {
		return slices.ContainsFunc(b, func(y store.Op) bool { return x.Key == y.Key })
	})
}

// accepted reports that every operation of a transaction went in.
func accepted(res store.Result) bool {
	return res.Err == nil && !slices.ContainsFunc(res.States, func(st store.State) bool { return !st.Accepted })
}

// asked are the operations of transactions as lock.sql takes them.
type asked struct {
	keys              []string
	txns              []int32
	needs             []pgtype.Float8
	capacities, rates []float64
}

// newAsked lets the snapshot refuse an operation only where the answer depends on the row alone:
// no other operation of the batch makes room, and a refusal sets no penalty. It leaves out the
// transactions that ask in mode Ask: they lock no row.
func newAsked(txns []store.Txn) asked {
	var a asked
	plain := true
	for i, txn := range txns {
		if txn.Asks() {
			continue
		}
		for j := range txn {
			op := &txn[j]
			plain = plain && (op.Mode == store.IfFits || op.Mode == store.Ask) && op.Amount >= 0 && op.Hold >= 0
			need := pgtype.Float8{Float64: op.Amount + op.Hold, Valid: op.BlockFor == 0 && op.Amount+op.Hold > 0}
			capacity := op.Capacity
			if op.Ceiling != 0 { // one that sinks refuses more than this, but never less
				capacity = min(capacity, op.Ceiling)
			}
			a.keys, a.txns, a.needs = append(a.keys, op.Key), append(a.txns, int32(i)), append(a.needs, need)
			a.capacities, a.rates = append(a.capacities, capacity), append(a.rates, op.LeakRate)
		}
	}
	if !plain {
		a.needs = make([]pgtype.Float8, len(a.keys))
	}
	return a
}

// lock locks the rows, creates the missing ones, and reads them at a time at which all locks
// are held. It returns the transactions that the snapshot refused, whose rows are not locked.
func (s *Store) lock(
	ctx context.Context, q pgrun.Queryer, w *working, a asked, lane *pgrun.Lane,
) (map[int32]bool, error) {
	b := &pgx.Batch{}
	if lane != nil {
		pgrun.QueueBegin(b)
		if s.run.Small() {
			pgrun.QueueByIndex(b)
		}
	}
	refused, found := make(map[int32]bool), make(map[string]bool)
	s.queueLock(b, w, a, lane, refused, found)
	if lane == nil && s.run.Small() {
		b = pgrun.WrapByIndex(b)
	}
	if err := q.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	for i, key := range a.keys {
		if !found[key] && !refused[a.txns[i]] {
			return nil, errors.New("a row that was locked is missing")
		}
	}
	for key, k := range w.buckets {
		if k.created || !found[key] {
			k.rec = store.NewRecord(w.clock)
		}
	}
	return refused, nil
}

// queueLock queues lock.sql and read.sql. refused and found get their results.
func (s *Store) queueLock(
	b *pgx.Batch, w *working, a asked, lane *pgrun.Lane, refused map[int32]bool, found map[string]bool,
) {
	now, sql := s.run.Now(), s.sql.Load()
	b.Queue(sql.lock, a.keys, a.txns, a.needs, a.capacities, a.rates, now, s.maxSkew, lane.LockTimeout(),
		lane.IdleTimeout()).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var key pgtype.Text
			var txn pgtype.Int4
			if err := rows.Scan(&key, &txn); err != nil {
				return err
			}
			if txn.Valid {
				refused[txn.Int32] = true
			} else {
				w.buckets[key.String].created = true
			}
		}
		return rows.Err()
	})
	b.Queue(sql.read, w.keys, now).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			key, rec, clock, err := scanStored(rows)
			if err != nil {
				return err
			}
			if k := w.buckets[key]; k != nil {
				k.rec = rec
				found[key] = true
			}
			w.clock = clock
		}
		return rows.Err()
	})
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
		b.Queue(s.sql.Load().write, changed.keys, changed.levels, changed.times, changed.held,
			changed.capacities, changed.leakRates, changed.blocks)
	}
	if len(unused) > 0 {
		b.Queue(s.sql.Load().remove, unused, nil) // the rows are locked
	}
	switch {
	case own:
		pgrun.QueueCommit(b)
	case b.Len() == 0:
		return nil
	case s.run.Small():
		b = pgrun.WrapByIndex(b)
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
// wrote reports that a row changed.
func (w *working) decide(txn store.Txn, maxSkew time.Duration) (res store.Result, wrote bool) {
	recs := make([]*store.Record, len(txn))
	for i := range txn {
		recs[i] = &w.buckets[txn[i].Key].rec
	}
	res, effects := store.Decide(txn, recs, w.clock, maxSkew)
	for i, effect := range effects {
		if effect&store.Write != 0 {
			wrote = true
			w.buckets[txn[i].Key].write = true
		}
		if effect&store.Skewed != 0 {
			w.skewed++
		}
	}
	return res, wrote
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
