package postgres

import (
	"context"

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

// cautious is how many statements for TryFillups look before they lock, after one that met
// refusals. try_fast.sql costs less where hardly any amount is refused; try_many.sql writes
// nothing where one is. The cautious statements must meet next to no refusals before the next
// fast one.
const cautious = 32

// filler answers the batches of one lane.
type filler struct {
	s    *Store
	lane *pgrun.Lane
	groups
	careful int // statements for TryFillups that are still to look before they lock
}

func newFiller(s *Store, l *pgrun.Lane) *filler { return &filler{s: s, lane: l, careful: cautious} }

// decide answers requests of any kinds. Where the server refuses a statement as a whole, decide
// asks for each request by itself, so that one bad request fails alone.
func (f *filler) decide(ctx context.Context, reqs []*fillRequest) {
	open := reqs
	for range asks {
		f.sort(open)
		tried, err := f.send(ctx, f.tries, f.tryStatement(f.tries), answerTries)
		if err != nil {
			f.fail(ctx, f.tries, err)
		}
		f.caution(len(tried))
		put, err := f.send(ctx, f.put, f.s.putStatement(f.put), answerPuts)
		if err != nil {
			f.fail(ctx, f.put, err)
		}
		open = append(tried, put...)
		if len(open) == 0 {
			return
		}
	}
	f.decideLocked(ctx, open)
}

// caution counts the groups that the last statement for TryFillups refused. A fast statement
// left the groups in open unanswered.
func (f *filler) caution(open int) {
	refusals := open
	for _, g := range f.tries {
		if r := g.reqs[0]; r.Err == nil && !r.Out.Accepted {
			refusals++
		}
	}
	switch {
	case 16*refusals > len(f.tries):
		f.careful = cautious
	case f.careful > 0:
		f.careful--
	}
}

// fail answers groups whose statement failed with err.
func (f *filler) fail(ctx context.Context, groups []group, err error) {
	if len(groups) == 0 {
		return
	}
	alone := pgrun.Refused(err) && (len(groups) > 1 || len(groups[0].reqs) > 1)
	var reqs []*fillRequest
	for _, g := range groups {
		reqs = append(reqs, g.reqs...)
	}
	for i, r := range reqs {
		if alone {
			single := filler{s: f.s, lane: f.lane}
			single.decide(ctx, reqs[i:i+1])
		} else {
			r.Err = err
		}
	}
}

// statement is the SQL for some groups with its arguments.
type statement struct {
	sql  string
	args []any
	form form
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
		again = append(again, open...)
	}
	return again, nil
}

// decisions sends a statement and returns a row for each group.
func (s *Store) decisions(ctx context.Context, q pgrun.Queryer, st statement, groups []group) ([]row, error) {
	rows := make([]row, len(groups))
	next := 0 // the group after that of the last keyed row
	_, err := s.run.Query(ctx, q, st.sql, st.args, func(r pgx.Rows) (err error) {
		var c columns
		written := true
		number := int64(1)
		switch st.form {
		case single:
			err = r.Scan(&written, &c.level, &c.atime, &c.held, &c.blocked, &c.now)
		case numbered:
			err = r.Scan(&number, &written, &c.level, &c.atime, &c.pre, &c.held, &c.blocked, &c.now)
		case keyed:
			key := r.RawValues()[0]
			for next < len(groups) && groups[next].op().Key != string(key) {
				next++ // refused, so it is not returned
			}
			next++
			number = int64(next)
			err = r.Scan(nil, &c.level, &c.atime, &c.pre, &c.held, &c.now)
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

// tryStatement returns the statement for TryFillups.
func (f *filler) tryStatement(groups []group) statement {
	switch {
	case len(groups) == 0:
		return statement{}
	case len(groups) == 1 && f.careful == 0:
		return f.s.tryUpdate(groups[0])
	case len(groups) == 1 && len(groups[0].reqs) == 1:
		return f.s.tryOne(groups[0].op())
	case f.careful > 0:
		return statement{sql: f.s.sql.tryMany, args: f.s.tryArgs(groups), form: numbered}
	}
	return statement{sql: f.s.sql.tryFast, args: f.s.tryArgs(groups), form: keyed}
}

func (s *Store) tryOne(op *store.Op) statement {
	args := []any{op.Key, op.Amount, op.Capacity, op.LeakRate, s.run.Now(), s.maxSkew}
	return statement{sql: s.sql.tryOne, args: args, form: single}
}

func (s *Store) tryUpdate(g group) statement {
	op := g.op()
	sum := 0.0
	for _, r := range g.reqs {
		sum += r.In.Amount
	}
	args := []any{op.Key, sum, op.Capacity, op.LeakRate, s.run.Now(), s.maxSkew, len(g.reqs) > 1}
	return statement{sql: s.sql.tryUpdate, args: args, form: updated}
}

func (s *Store) tryArgs(groups []group) []any {
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
	return []any{p.keys, p.capacities, p.leakRates, least, fresh, numbers, offsets, sums, s.run.Now(), s.maxSkew}
}

// putStatement returns the statement for amounts that go in whether they fit or not.
func (s *Store) putStatement(groups []group) statement {
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
	args := []any{p.keys, p.capacities, p.leakRates, drained, added, clamped, fresh, s.run.Now(), s.maxSkew}
	return statement{sql: s.sql.putMany, args: args, form: numbered}
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
