package postgres

import (
	"context"
	"fmt"
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

// outcome is the answer to the transactions of one call. err, if set, is an ErrHeld.
type outcome struct {
	results []store.Result
	err     error
}

// decideBatch decides a batch of the combiner: the transactions of all its callers in one of
// the server's.
func (s *Store) decideBatch(ctx context.Context, l *pgrun.Lane, conn *pgxpool.Conn, batch []*txnRequest) error {
	calls := make([][]store.Txn, len(batch))
	for i, r := range batch {
		calls[i] = r.In
	}
	outcomes, err := s.decideIn(ctx, conn, calls, l)
	for i, o := range outcomes {
		batch[i].Out, batch[i].Err = o.results, o.err
	}
	return err
}

// decideLocked decides single operations under row locks: those that the plain statements left
// open, and those of a flush that leaves out rows. It returns the operations if a row lock stalled
// them.
func (f *filler) decideLocked(ctx context.Context, reqs []*fillRequest) (stalled []*fillRequest) {
	decide := func(ctx context.Context, l *pgrun.Lane, conn *pgxpool.Conn, reqs []*fillRequest) error {
		calls := make([][]store.Txn, len(reqs))
		for i, r := range reqs {
			calls[i] = []store.Txn{{r.In}}
		}
		outcomes, err := f.s.decideIn(ctx, conn, calls, l)
		for i, o := range outcomes {
			reqs[i].Out, reqs[i].Err = one(o.results, o.err)
		}
		return err
	}
	return pgrun.Transactions(f.lane, decide)(ctx, reqs)
}

// mostRepeats is the number of tries to lock the rows of a batch. A try is in vain if another
// transaction has made or removed a row since the snapshot, which happens a few times at most.
const mostRepeats = 100

// decideIn locks the rows of all keys that transactions may change, decides, and stores the rows
// that changed: two round trips. Where all transactions are refused, it locks and stores
// nothing. It begins and commits a transaction of the lane; where lane is nil, q is the caller's
// transaction. It returns an outcome for each call.
func (s *Store) decideIn(
	ctx context.Context, q pgrun.Queryer, calls [][]store.Txn, lane *pgrun.Lane,
) ([]outcome, error) {
	txns := slices.Concat(calls...)
	asked := newAsked(txns)
	for range mostRepeats {
		w := newWorking(txns)
		refused, err := s.lock(ctx, q, w, asked, lane)
		if err != nil {
			return nil, err
		}
		// Another transaction holds these rows, or has made or removed them since the snapshot.
		missed := make(map[int32]bool)
		for i, key := range asked.keys {
			if txn := asked.txns[i]; !w.buckets[key].locked && !refused[txn] {
				missed[txn] = true
			}
		}
		again := len(missed) > 0 && !lane.Skips()
		var outcomes []outcome
		if !again {
			outcomes, again = s.decideAll(w, calls, refused, missed)
		}
		if again {
			if lane != nil {
				if _, err := q.Exec(ctx, "ROLLBACK"); err != nil {
					return nil, err
				}
			}
			asked.needs = make([]pgtype.Float8, len(asked.keys))
			continue
		}
		if w.skewed > 0 {
			s.skewed(w.skewed)
		}
		return outcomes, s.store(ctx, q, w, lane != nil)
	}
	return nil, fmt.Errorf("%w: a row can be neither locked nor made; see whether policies of row security or a trigger hide it",
		store.ErrMisconfigured)
}

// onlyAsks reports whether all of the transactions ask.
func onlyAsks(txns []store.Txn) bool {
	return !slices.ContainsFunc(txns, func(txn store.Txn) bool { return !txn.Asks() })
}

// askIn decides transactions that ask, from the rows that one statement reads. It locks nothing.
func (s *Store) askIn(ctx context.Context, q pgrun.Queryer, txns []store.Txn) ([]store.Result, error) {
	w := newWorking(txns)
	found, err := s.records(ctx, q, w.keys)
	if err != nil {
		return nil, err
	}
	w.clock = found.clock
	for key, b := range w.buckets {
		b.rec, b.damage = found.of(key)
	}
	outcomes, _ := s.decideAll(w, [][]store.Txn{txns}, nil, nil)
	return outcomes[0].results, nil
}

// decideAll decides the transactions of calls. It leaves out the calls of which a row is missed. It
// stops and reports again where the rows of a refused transaction, which are not locked, do not
// suffice to decide it. A drain that finds its bucket empty is among the refused ones.
//
// decideAll decides the refused transactions first, so they see the rows as one statement has read
// them. The others take effect at the commit. Between the two, somebody else may fill a row that is
// not locked. An answer with that row as it was read, and with another row as the commit will leave
// it, would describe a state that never existed.
func (s *Store) decideAll(
	w *working, calls [][]store.Txn, refused, missed map[int32]bool,
) (outcomes []outcome, again bool) {
	outcomes = make([]outcome, len(calls))
	number := int32(0) // of the transaction at hand
	var locked []func()
	for c, call := range calls {
		o := &outcomes[c]
		o.results = make([]store.Result, len(call))
		first := number
		for range call {
			if missed[number] {
				o.err = pgrun.ErrHeld
			}
			number++
		}
		if o.err != nil {
			continue
		}
		for i, txn := range call {
			if !refused[first+int32(i)] {
				locked = append(locked, func() { o.results[i], _ = w.decide(txn, s.maxSkew) })
				continue
			}
			var wrote bool
			o.results[i], wrote = w.decide(txn, s.maxSkew)
			for j := range i { // a call's transactions are decided in order
				wrote = wrote || !refused[first+int32(j)] && overlap(txn, call[j])
			}
			if wrote || accepted(o.results[i]) && !drains(txn) {
				return nil, true
			}
		}
	}
	for _, decide := range locked {
		decide()
	}
	return outcomes, false
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
	keys         []string
	txns         []int32
	needs, rates []pgtype.Float8
	capacities   []float64
}

// newAsked lets the snapshot refuse an operation only where the answer depends on the row alone:
// no other operation of the batch makes room in it. It lets the snapshot leave alone a drain only
// if all operations on the row are drains. It leaves out the transactions that ask in mode Ask:
// they lock no row.
func newAsked(txns []store.Txn) asked {
	var a asked
	mixed := make(map[string]bool) // keys with an operation that makes room, and with one that does not
	drained := make(map[string]bool)
	for i, txn := range txns {
		if txn.Asks() {
			continue
		}
		for j := range txn {
			op := &txn[j]
			drain := drains(txn)
			plain := (op.Mode == store.IfFits || op.Mode == store.Ask || op.Mode == store.UpTo) && op.Amount >= 0 && op.Hold >= 0
			least := op.Amount + op.Hold
			if op.Mode == store.UpTo {
				least = op.Least
			}
			before, again := drained[op.Key]
			mixed[op.Key] = mixed[op.Key] || !plain && !drain || again && before != drain
			drained[op.Key] = drain
			need := pgtype.Float8{Float64: least, Valid: least != 0}
			rate := pgtype.Float8{Float64: op.LeakRate, Valid: op.BlockFor == 0}
			capacity := op.Capacity
			if op.Ceiling != 0 { // one that sinks refuses more than this, but never less
				capacity = op.Ceiling
			}
			a.keys, a.txns, a.needs = append(a.keys, op.Key), append(a.txns, int32(i)), append(a.needs, need)
			a.capacities, a.rates = append(a.capacities, capacity), append(a.rates, rate)
		}
	}
	for i, key := range a.keys {
		a.needs[i].Valid = a.needs[i].Valid && !mixed[key]
	}
	return a
}

// drains reports whether a transaction is a drain of one bucket.
func drains(txn store.Txn) bool {
	return len(txn) == 1 && txn[0].Mode == store.Always && txn[0].Amount < 0 && txn[0].Hold == 0
}

// lockArguments returns the arguments of lock.sql.
func (s *Store) lockArguments(a asked, lane *pgrun.Lane) []any {
	return []any{
		a.keys, a.txns, a.needs, a.capacities, a.rates, s.run.Now(), s.maxSkew, lane.LockTimeout(), lane.IdleTimeout(),
	}
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
	refused, lock := make(map[int32]bool), s.sql.Load().lock
	if lane.Skips() {
		lock = s.sql.Load().lockSkip
	}
	pgrun.Queue(ctx, b, lock, s.lockArguments(a, lane), func(rows pgx.Rows) error {
		var key pgtype.Text
		var created pgtype.Bool
		var txn pgtype.Int4
		err := rows.Scan(&key, &created, &txn)
		if k := w.buckets[key.String]; err == nil && !txn.Valid && k != nil {
			k.locked, k.created = true, created.Bool
		} else {
			refused[txn.Int32] = true
		}
		return err
	})
	found := newReading()
	pgrun.Queue(ctx, b, s.sql.Load().read, []any{w.keys, s.run.Now()}, found.each)
	if lane == nil && s.run.Small() {
		b = pgrun.WrapByIndex(b)
	}
	if err := q.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	w.clock = found.clock
	for key, k := range w.buckets {
		if k.rec, k.damage = found.of(key); k.created {
			k.rec = store.NewRecord(w.clock)
		}
	}
	return refused, nil
}

// store writes the rows that changed, removes rows that were created for nothing, and commits.
func (s *Store) store(ctx context.Context, q pgrun.Queryer, w *working, own bool) error {
	changed, recs, unused := w.changes()
	if own && len(changed) == 0 {
		_, err := q.Exec(ctx, "ROLLBACK")
		return err
	}
	b := &pgx.Batch{}
	if len(changed) > 0 {
		b.Queue(s.sql.Load().write, arguments(changed, recs)...)
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
	damage  error // of the row, in the place of rec
	locked  bool  // by lock
	created bool  // by lock: the row was missing
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
		b := w.buckets[txn[i].Key]
		if b.damage != nil {
			return store.Result{Err: b.damage}, false
		}
		recs[i] = &b.rec
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

// changes returns the rows to store, and the keys of rows that were created and not used.
func (w *working) changes() (changed []string, recs []store.Record, unused []string) {
	for _, key := range w.keys {
		switch k := w.buckets[key]; {
		case k.write:
			changed, recs = append(changed, key), append(recs, k.rec)
		case k.created:
			unused = append(unused, key)
		}
	}
	return changed, recs, unused
}
