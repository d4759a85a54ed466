package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// asks is how often statements ask for a key before the filler locks its row and decides in Go.
// A statement leaves a key open where its snapshot let an amount through and the locked row
// refused it. Others fill the bucket meanwhile, so the next snapshot mostly refuses.
const asks = 3

// cautious is how many statements for TryFillups look before they lock, counted from the last
// statement after which refusals and buckets without a row were frequent. try_fast.sql costs less
// where it answers nearly all amounts; try_many.sql answers all at once, and writes nothing where
// one is refused.
const cautious = 32

// Refusals and buckets without a row are frequent if there is more than one among this many of the
// last answers. A fast statement leaves such answers to a second statement, which costs as much as
// some dozens of keys, most of it for its commit.
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
	settle  []*fillRequest // those whose refusal settles the bucket, which package store does under a lock
	careful int            // statements for TryFillups that are still to look before they lock
	// The last answers, and those among them that were refusals or found no row.
	answers, refusals int
}

func newFiller(s *Store, l *pgrun.Lane) *filler { return &filler{s: s, lane: l, careful: cautious} }

// decide answers requests of any kinds, and returns those whose statement stalled on a row lock.
// Where the server refuses a statement as a whole, decide asks for each request by itself, so
// that one bad request fails alone.
func (f *filler) decide(ctx context.Context, reqs []*fillRequest) (stalled []*fillRequest) {
	open := f.answerAsks(ctx, reqs)
	if len(open) == 0 {
		return nil
	}
	f.settle = nil
	for n := range asks {
		f.sort(open)
		again := n > 0 // the first statement left these open
		tried, err := f.send(ctx, f.tries, f.tryStatement(f.tries, again || f.careful > 0), answerTries)
		if err != nil {
			stalled = append(stalled, f.fail(ctx, f.tries, err)...)
		}
		if !again {
			f.countRefusals(len(tried))
		}
		put, err := f.send(ctx, f.put, f.putStatement(f.put), answerPuts)
		if err != nil {
			stalled = append(stalled, f.fail(ctx, f.put, err)...)
		}
		if open = append(tried, put...); len(open) == 0 {
			break
		}
	}
	if open = append(open, f.settle...); len(open) > 0 {
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
	found, clock, err := f.look(ctx, asks)
	if pgrun.Refused(err) && len(asks) > 1 {
		for i := range asks {
			f.ask(ctx, asks[i:i+1])
		}
		return
	}
	for _, r := range asks {
		if r.Err = err; err == nil {
			rec := found.of(r.In.Key, clock)
			r.Out, _, r.Err = rec.Fill(&r.In, clock, f.s.maxSkew)
		}
	}
}

// look reads the rows of requests, and the clock. It locks nothing.
func (f *filler) look(ctx context.Context, reqs []*fillRequest) (found records, clock int64, err error) {
	keys := make([]string, len(reqs))
	for i, r := range reqs {
		keys[i] = r.In.Key
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	err = f.lane.Attempt(ctx, func(conn *pgxpool.Conn) (err error) {
		found, clock, err = f.s.records(ctx, conn, keys)
		return err
	})
	return found, clock, err
}

// countRefusals counts the groups that the last statement for TryFillups refused. A fast statement
// left the groups in open unanswered.
func (f *filler) countRefusals(open int) {
	refusals := open
	for _, g := range f.tries {
		if r := g.reqs[0]; r.Err == nil && !r.Out.Accepted {
			refusals++
		}
	}
	f.caution(refusals, len(f.tries))
}

// caution decides from the refusals among the last answers whether the next statements look before
// they lock. They do if more than one in rare answers was a refusal.
func (f *filler) caution(refusals, answers int) {
	f.refusals, f.answers = f.refusals+refusals, f.answers+answers
	switch {
	case rare*f.refusals > f.answers:
		f.careful = cautious
	case f.careful > 0:
		f.careful--
	}
	if f.answers > recent {
		f.refusals, f.answers = f.refusals/2, f.answers/2
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
		for i := range reqs {
			single := filler{s: f.s, lane: f.lane}
			stalled = append(stalled, single.decide(ctx, reqs[i:i+1])...)
		}
	default:
		for _, r := range reqs {
			r.Err = err
		}
	}
	return stalled
}

// statement is the SQL for some groups with its arguments.
type statement struct {
	sql  string
	args []any
	form form
	// keys says that the statement looks up several keys, which must not read the whole table.
	keys bool
	// ordered says that the statement locks rows in the order in which it finds them, which must be
	// that of the index.
	ordered bool
}

// form says with which columns the rows of a statement begin, before those that all rows have.
type form uint8

const (
	single   form = iota // whether the row was written; there is no level before
	numbered             // the key's number, and whether the row was written
	keyed                // the key; only rows that were written are returned, in the order of the keys
	updated              // none; the row of the one key is returned only if it was written
)

// send sends one statement for the groups and answers their requests. It returns the requests
// to ask again.
func (f *filler) send(
	ctx context.Context, groups []group, st statement, answer func(*Store, group, row) []*fillRequest,
) (again []*fillRequest, err error) {
	if len(groups) == 0 {
		return nil, nil
	}
	var rows []row
	err = f.lane.Attempt(ctx, func(conn *pgxpool.Conn) (err error) {
		rows, err = f.s.decisions(ctx, conn, st, groups)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, g := range groups {
		open := g.reqs
		if rows[i].answered {
			open = answer(f.s, g, rows[i])
		}
		if rows[i].settles(g.op()) {
			f.settle = append(f.settle, open...)
		} else {
			again = append(again, open...)
		}
	}
	return again, nil
}

// decisions sends a statement and returns a row for each group.
func (s *Store) decisions(ctx context.Context, q pgrun.Queryer, st statement, groups []group) ([]row, error) {
	rows := make([]row, len(groups))
	next := 0 // the group after that of the last keyed row
	query := s.run.Query
	if st.ordered || st.keys && s.run.Small() {
		query = s.run.QueryByIndex
	}
	_, err := query(ctx, q, st.sql, st.args, func(r pgx.Rows) (err error) {
		var c columns
		written := true
		number := int64(1)
		switch st.form {
		case single:
			err = r.Scan(&written, &c.level, &c.atime, &c.held, &c.capacity, &c.leakRate, &c.blocked, &c.now)
		case numbered:
			err = r.Scan(&number, &written, &c.pre, &c.now,
				&c.level, &c.atime, &c.held, &c.capacity, &c.leakRate, &c.blocked)
		case keyed:
			key := r.RawValues()[0]
			for next < len(groups) && groups[next].op().Key != string(key) {
				next++ // refused, so it is not returned
			}
			next++
			number = int64(next)
			err = c.keyed(r)
		case updated:
			err = r.Scan(&c.level, &c.atime, &c.pre, &c.held, &c.now)
		}
		switch {
		case err != nil:
			return err
		case number < 1 || number > int64(len(groups)):
			return errNoAnswer
		}
		rows[number-1] = c.decided(written)
		return nil
	})
	for i := range rows {
		if err == nil && !rows[i].answered && st.form < keyed {
			err = errNoAnswer
		}
	}
	return rows, err
}

// tryStatement returns the statement for TryFillups. careful says that it must answer all of them.
func (f *filler) tryStatement(groups []group, careful bool) statement {
	switch {
	case len(groups) == 0:
		return statement{}
	case len(groups) == 1 && !careful:
		return f.tryUpdate(groups[0])
	case len(groups) == 1 && len(groups[0].reqs) == 1:
		return f.tryOne(groups[0].op())
	case careful || !f.s.run.Whole():
		return f.tryMany(groups)
	}
	return f.tryFast(groups)
}

func (f *filler) tryMany(groups []group) statement {
	return statement{sql: f.s.sql.Load().tryMany, args: f.tryArgs(groups), form: numbered, keys: true}
}

func (f *filler) tryFast(groups []group) statement {
	return statement{sql: f.s.sql.Load().tryFast, args: f.fastArgs(groups), form: keyed, ordered: true}
}

func (f *filler) tryOne(op *store.Op) statement {
	args := []any{op.Key, op.Amount, op.Capacity, op.LeakRate, f.s.run.Now(), f.s.maxSkew, f.lane.LockTimeout()}
	return statement{sql: f.s.sql.Load().tryOne, args: args, form: single}
}

func (f *filler) tryUpdate(g group) statement {
	op := g.op()
	args := []any{op.Key, g.sum(), op.Capacity, op.LeakRate, f.s.run.Now(), f.s.maxSkew, f.lane.LockTimeout(), len(g.reqs) > 1}
	return statement{sql: f.s.sql.Load().tryUpdate, args: args, form: updated}
}

func (f *filler) fastArgs(groups []group) []any {
	keys := make([]string, len(groups))
	sum, capacity, rate := groups[0].sum(), groups[0].op().Capacity, groups[0].op().LeakRate
	several, sums, capacities, rates := false, false, false, false // false: all are as the first
	for i := range groups {
		g := &groups[i]
		op := g.op()
		keys[i] = op.Key
		several = several || len(g.reqs) > 1
		sums = sums || g.sum() != sum
		capacities = capacities || op.Capacity != capacity
		rates = rates || op.LeakRate != rate
	}
	args := append(make([]any, 0, 11), keys)
	args = append(args, ofKeys(groups, sums, (*group).sum)...)
	args = append(args, ofKeys(groups, capacities, func(g *group) float64 { return g.op().Capacity })...)
	args = append(args, ofKeys(groups, rates, func(g *group) float64 { return g.op().LeakRate })...)
	return append(args, several, f.s.run.Now(), f.s.maxSkew, f.lane.LockTimeout())
}

// ofKeys returns the two arguments of the fragment of_key(): the value of the first group and nil
// where all groups have that value, or nil and the value of each.
func ofKeys(groups []group, differ bool, value func(*group) float64) []any {
	if !differ {
		return []any{value(&groups[0]), nil}
	}
	each := make([]float64, len(groups))
	for i := range groups {
		each[i] = value(&groups[i])
	}
	return []any{nil, each}
}

func (f *filler) tryArgs(groups []group) []any {
	p := newParams(len(groups))
	least, fresh := make([]float64, len(groups)), make([]float64, len(groups))
	numbers := make([]int32, len(groups))
	var offsets []int32
	var sums []float64
	for i, g := range groups {
		op := g.op()
		p.set(i, op)
		least[i], fresh[i] = op.Amount, op.Amount
		if len(g.reqs) == 1 {
			continue
		}
		offsets = append(offsets, int32(len(sums)+1))
		numbers[i] = int32(len(offsets))
		sum := 0.0
		for _, r := range g.reqs {
			sum += r.In.Amount
			sums = append(sums, sum)
			if sum <= op.Capacity {
				fresh[i] = sum
			}
		}
	}
	offsets = append(offsets, int32(len(sums)+1))
	return []any{p.keys, p.capacities, p.leakRates, least, fresh, numbers, offsets, sums, f.s.run.Now(), f.s.maxSkew, f.lane.LockTimeout()}
}

// putStatement returns the statement for amounts that go in whether they fit or not.
func (f *filler) putStatement(groups []group) statement {
	if len(groups) == 0 {
		return statement{}
	}
	p := newParams(len(groups))
	drained, added, clamped := make([]float64, len(groups)), make([]float64, len(groups)), make([]float64, len(groups))
	fresh := make([]pgtype.Float8, len(groups))
	for i, g := range groups {
		op := g.op()
		p.set(i, op)
		for _, r := range g.reqs {
			switch kindOf(&r.In) {
			case drains:
				drained[i] -= r.In.Amount
			case adds:
				added[i] += r.In.Amount
			default:
				clamped[i] += r.In.Amount
			}
		}
		fresh[i] = pgtype.Float8{
			Float64: clamp(added[i], 0, clamped[i], op.Capacity), Valid: added[i] > 0 || clamped[i] > 0,
		}
	}
	args := []any{p.keys, p.capacities, p.leakRates, drained, added, clamped, fresh, f.s.run.Now(), f.s.maxSkew, f.lane.LockTimeout()}
	return statement{sql: f.s.sql.Load().putMany, args: args, form: numbered, keys: true}
}

// params are the arrays with which both statements begin.
type params struct {
	keys                  []string
	capacities, leakRates []float64
}

func newParams(n int) params {
	return params{keys: make([]string, n), capacities: make([]float64, n), leakRates: make([]float64, n)}
}

func (p *params) set(i int, op *store.Op) {
	p.keys[i], p.capacities[i], p.leakRates[i] = op.Key, op.Capacity, op.LeakRate
}
