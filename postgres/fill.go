package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// Refusals and new buckets are frequent if there is more than one among this many of the last
// answers. update_one.sql and update_many.sql leave such answers to further statements, in a round
// trip of their own. Where refusals are frequent, read.sql goes out together with the UPDATE; where
// new buckets are, insert.sql as well.
const (
	rare = 64
	// recent is the number of answers after which the older ones count for half.
	recent = 1024
)

// filler answers the batches of one lane.
type filler struct {
	s    *Store
	lane *pgrun.Lane
	groups
	// The last groups that were answered, those among them that the first UPDATE left alone, and
	// those that the INSERT made.
	answers, others, made int
}

func newFiller(s *Store, l *pgrun.Lane) *filler { return &filler{s: s, lane: l} }

// reach tells which of the plain statements go out together.
type reach uint8

const (
	alone  reach = iota // the UPDATE
	asking              // the UPDATE and the SELECT
	whole               // the UPDATE, the INSERT and the SELECT
)

// reach returns the reach of the next flush. Refusals and new buckets are taken to be frequent for
// the first flush of a lane.
func (f *filler) reach() reach {
	switch {
	case rare*f.others < f.answers:
		return alone
	case rare*f.made < f.answers:
		return asking
	}
	return whole
}

// count counts the groups of a flush. again says that an UPDATE before has left them alone.
func (f *filler) count(rows []row, again bool) {
	for i := range rows {
		if r := &rows[i]; r.written && !r.updated {
			f.made++
		}
		if !again && !rows[i].updated {
			f.others++
		}
	}
	if !again {
		f.answers += len(rows)
	}
	if f.answers > recent {
		f.others, f.made, f.answers = f.others/2, f.made/2, f.answers/2
	}
}

// decide answers requests of any kinds, and returns those whose statement stalled on a row lock.
// Where the server refuses a statement as a whole, decide sends its halves, so that one bad request
// fails alone.
func (f *filler) decide(ctx context.Context, reqs []*fillRequest) (stalled []*fillRequest) {
	open := f.answerAsks(ctx, reqs)
	if len(open) > 0 && !f.lane.Skips() {
		open, stalled = f.try(ctx, f.sort(open))
	}
	if len(open) > 0 {
		stalled = append(stalled, f.decideLocked(ctx, open)...)
	}
	return stalled
}

// answerAsks answers the questions among the requests, and returns the others. It comes before the
// statements that lock rows, so that a question does not wait for the row of a fill.
func (f *filler) answerAsks(ctx context.Context, reqs []*fillRequest) (others []*fillRequest) {
	isAsk := func(r *fillRequest) bool { return r.In.Mode == store.Ask }
	if !slices.ContainsFunc(reqs, isAsk) {
		return reqs
	}
	var asks []*fillRequest
	for _, r := range reqs {
		if isAsk(r) {
			asks = append(asks, r)
		} else {
			others = append(others, r)
		}
	}
	f.ask(ctx, asks)
	return others
}

// ask answers questions from the rows that one statement reads. It locks nothing.
func (f *filler) ask(ctx context.Context, asks []*fillRequest) {
	found, err := f.look(ctx, asks)
	if half := len(asks) / 2; half > 0 && pgrun.Refused(err) {
		f.ask(ctx, asks[:half])
		f.ask(ctx, asks[half:])
		return
	}
	for _, r := range asks {
		if r.Err = err; err == nil {
			var rec store.Record
			if rec, r.Err = found.of(r.In.Key); r.Err == nil {
				r.Out, _, r.Err = rec.Fill(&r.In, found.clock, f.s.maxSkew)
			}
		}
	}
}

// look reads the rows of requests. It locks nothing.
func (f *filler) look(ctx context.Context, reqs []*fillRequest) (found *reading, err error) {
	keys := make([]string, len(reqs))
	for i, r := range reqs {
		keys[i] = r.In.Key
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	try := f.lane.Attempts()
	for try.Next(ctx) {
		found, try.Err = f.s.records(ctx, try.Conn, keys)
	}
	return found, try.Err
}

// try answers groups by the plain statements. It returns the requests to decide under a lock, and
// those whose statement stalled.
func (f *filler) try(ctx context.Context, groups []group) (open, stalled []*fillRequest) {
	for reach, again := f.reach(), false; len(groups) > 0; reach, again = whole, true {
		var rows []row
		try := f.lane.Attempts()
		for try.Next(ctx) {
			rows, try.Err = f.s.send(ctx, try.Conn, groups, reach, f.lane)
		}
		if try.Err != nil {
			return open, f.fail(ctx, groups, try.Err)
		}
		f.count(rows, again)
		rest := groups[:0]
		for i, g := range groups {
			if rows[i].answered {
				open = append(open, answerTries(f.s, g, rows[i])...)
			} else {
				rest = append(rest, g)
			}
		}
		groups = rest
	}
	return open, nil
}

// send sends plain statements in one round trip and one transaction, and returns a row for each
// group. The row is not answered where a further statement may fill the bucket: the UPDATE went
// alone and left it, or the bucket has no row, and the INSERT did not go.
func (s *Store) send(
	ctx context.Context, q pgrun.Queryer, groups []group, reach reach, lane *pgrun.Lane,
) ([]row, error) {
	rows := make([]row, len(groups))
	update := s.update(groups, rows, lane)
	if reach == alone && len(groups) == 1 {
		_, err := s.run.Query(ctx, q, update.sql, update.args, update.each)
		return rows, err
	}
	b := &pgx.Batch{}
	if s.run.Small() && len(groups) > 1 {
		pgrun.QueueByIndex(b)
	}
	pgrun.Queue(ctx, b, update.sql, update.args, update.each)
	if reach == alone {
		return rows, s.run.SendTogether(ctx, q, b)
	}
	if reach == whole {
		insert := s.insert(groups, rows, lane)
		pgrun.Queue(ctx, b, insert.sql, insert.args, insert.each)
	}
	found := s.queueRead(ctx, b, arrays(groups).keys)
	err := s.run.SendTogether(ctx, q, b)
	for i := range rows {
		if op := groups[i].op(); !rows[i].written {
			_, exists := found.rows[op.Key]
			rows[i] = row{answered: exists || reach == whole || op.Amount > groups[i].rim(), clock: found.clock}
			rows[i].rec, rows[i].damage = found.of(op.Key)
		}
	}
	return rows, err
}

// statement is a statement with its arguments and the function that reads a row of its answer.
type statement struct {
	sql  string
	args []any
	each func(pgx.Rows) error
}

// update returns the UPDATE for groups, whose answer goes into rows.
func (s *Store) update(groups []group, rows []row, lane *pgrun.Lane) statement {
	now, wait := s.run.Now(), lane.LockTimeout()
	several := slices.ContainsFunc(groups, func(g group) bool { return len(g.reqs) > 1 })
	each := into(groups, func(i int, r row) {
		rows[i] = r
		rows[i].updated = true
	})
	if len(groups) == 1 {
		op := groups[0].op()
		args := []any{op.Key, groups[0].sum(), op.Capacity, op.LeakRate, several, now, s.maxSkew, wait, groups[0].rim(), begins(op)}
		return statement{s.sql.Load().updateOne, args, each}
	}
	a := arrays(groups)
	sums := make([]float64, len(groups))
	for i := range groups {
		sums[i] = groups[i].sum()
	}
	args := []any{a.keys, sums, a.capacities, a.rates, several, now, s.maxSkew, wait, a.rims, a.begins}
	return statement{s.sql.Load().updateMany, args, each}
}

// insert returns the INSERT of the buckets of groups that have no row, whose answer goes into rows.
func (s *Store) insert(groups []group, rows []row, lane *pgrun.Lane) statement {
	a := arrays(groups)
	levels := make([]float64, len(groups))
	for i := range groups {
		levels[i] = groups[i].fresh()
	}
	sql := s.sql.Load().insert
	if len(groups) == 1 {
		sql = s.sql.Load().insertOne
	}
	args := []any{a.keys, levels, a.capacities, a.rates, s.run.Now(), lane.LockTimeout(), a.rims, a.begins}
	return statement{sql, args, into(groups, func(i int, r row) { rows[i] = r })}
}

// columnar are the keys, limits and rims of groups, as the statements take them. begins is nil
// where no group is under a quota.
type columnar struct {
	keys                            []string
	capacities, rates, rims, begins []float64
}

// begins returns the beginning of the period of an operation under a quota, else nil.
func begins(op *store.Op) any {
	if op.LeakRate < 0 {
		return float64(op.Begins)
	}
	return nil
}

func arrays(groups []group) columnar {
	a := columnar{
		keys: make([]string, len(groups)), capacities: make([]float64, len(groups)),
		rates: make([]float64, len(groups)), rims: make([]float64, len(groups)),
	}
	for i := range groups {
		op := groups[i].op()
		a.keys[i], a.capacities[i], a.rates[i], a.rims[i] = op.Key, op.Capacity, op.LeakRate, groups[i].rim()
		if op.LeakRate < 0 {
			if a.begins == nil {
				a.begins = make([]float64, len(groups))
			}
			a.begins[i] = float64(op.Begins)
		}
	}
	return a
}

// into returns the function that reads a row of a written bucket, and calls f with the number of
// its group. The rows come in the order of the groups.
func into(groups []group, f func(int, row)) func(pgx.Rows) error {
	next := 0
	return func(rows pgx.Rows) error {
		raw := rows.RawValues()
		for next < len(groups) && groups[next].op().Key != string(raw[0]) {
			next++ // the statement has not written it
		}
		if next == len(groups) {
			return errNoAnswer
		}
		r, err := readWritten(raw)
		f(next, r)
		next++
		return err
	}
}

// fail answers groups whose statement failed with err, and returns the requests that stalled.
func (f *filler) fail(ctx context.Context, groups []group, err error) (stalled []*fillRequest) {
	var reqs []*fillRequest
	for _, g := range groups {
		reqs = append(reqs, g.reqs...)
	}
	switch {
	case pgrun.Stalled(err):
		return reqs
	case pgrun.Refused(err) && len(reqs) > 1:
		for half := range slices.Chunk(reqs, (len(reqs)+1)/2) {
			part := filler{s: f.s, lane: f.lane}
			stalled = append(stalled, part.decide(ctx, half)...)
		}
	default:
		for _, r := range reqs {
			r.Err = err
		}
	}
	return stalled
}
