package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/store"
)

// asks is how often a statement is sent again for keys that its snapshot let through and their locked rows refused, before
// they are decided under locks of our own. Others have filled those buckets meanwhile, so the next snapshot mostly refuses.
const asks = 3

// fill answers a batch of the combiner.
func (l *lane) fill(batch []*fillRequest) {
	l.decide(l.flushing(), batch)
}

// The share of refusals decides which statement the TryFillups of a lane take: try_fast.sql costs less where hardly any is
// refused, and try_many.sql writes nothing where one is. One fast statement with refusals among its keys is followed by so many
// cautious ones, and those must then see next to none before the next fast one.
const cautious = 32

// decide answers requests of any kinds. What the server refused as a whole is asked one by one, so that a request that it
// chokes on fails alone.
func (l *lane) decide(ctx context.Context, reqs []*fillRequest) {
	open := reqs
	for range asks {
		l.sort(open)
		tried, err := l.send(ctx, l.tries, l.tryStatement(l.tries), answerTries)
		if err != nil {
			l.fail(ctx, l.tries, err)
		}
		l.caution(len(tried))
		put, err := l.send(ctx, l.put, l.s.putStatement(l.put), answerPuts)
		if err != nil {
			l.fail(ctx, l.put, err)
		}
		open = append(tried, put...)
		if len(open) == 0 {
			return
		}
	}
	l.decideLocked(ctx, open)
}

// caution counts what the last statement for TryFillups has refused: groups, of which open were refused by a fast statement.
func (l *lane) caution(open int) {
	refusals := open
	for _, g := range l.tries {
		if r := g.reqs[0]; r.Err == nil && !r.Out.Accepted {
			refusals++
		}
	}
	switch {
	case 16*refusals > len(l.tries):
		l.careful = cautious
	case l.careful > 0:
		l.careful--
	}
}

// fail answers groups whose statement failed with err.
func (l *lane) fail(ctx context.Context, groups []group, err error) {
	if len(groups) == 0 {
		return
	}
	alone := judge(err) == refused && (len(groups) > 1 || len(groups[0].reqs) > 1)
	var reqs []*fillRequest
	for _, g := range groups {
		reqs = append(reqs, g.reqs...)
	}
	for i, r := range reqs {
		if alone {
			single := lane{s: l.s, conn: l.conn, watchdog: l.watchdog}
			single.decide(ctx, reqs[i:i+1])
			l.conn = single.conn
		} else {
			r.Err = err
		}
	}
}

// statement is what is sent for some groups.
type statement struct {
	sql  string
	args []any
	form form
}

// form is what a statement's rows start with, before what they all have.
type form uint8

const (
	single   form = iota // whether it was written; and no level before
	numbered             // the key's number, and whether it was written
	keyed                // the key: only what was written is returned, in the order of the keys
	updated              // nothing: one key, returned only if it was written
)

// send sends one statement for the groups and answers their requests; it returns those that have to be asked again.
func (l *lane) send(ctx context.Context, groups []group, st statement, answer func(*Store, group, row) []*fillRequest) (again []*fillRequest, err error) {
	if len(groups) == 0 {
		return nil, nil
	}
	var rows []row
	err = l.attempt(ctx, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		rows, err = l.s.decisions(ctx, conn, st, groups)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, g := range groups {
		open := g.reqs
		if rows[i].answered {
			open = answer(l.s, g, rows[i])
		}
		again = append(again, open...)
	}
	return again, nil
}

// decisions sends a statement and returns a row for each group.
func (s *Store) decisions(ctx context.Context, q queryer, st statement, groups []group) ([]row, error) {
	rows := make([]row, len(groups))
	next := 0 // the group after that of the last keyed row
	err := s.query(ctx, q, st.sql, st.args, func(r pgx.Rows) (err error) {
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
				next++ // refused, and so not returned
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

// tryStatement is the statement for TryFillups.
func (l *lane) tryStatement(groups []group) statement {
	switch {
	case len(groups) == 0:
		return statement{}
	case len(groups) == 1 && l.careful == 0:
		return l.s.tryUpdate(groups[0])
	case len(groups) == 1 && len(groups[0].reqs) == 1:
		return l.s.tryOne(groups[0].op())
	case l.careful > 0:
		return statement{sql: l.s.sql.tryMany, args: l.s.tryArgs(groups), form: numbered}
	}
	return statement{sql: l.s.sql.tryFast, args: l.s.tryArgs(groups), form: keyed}
}

func (s *Store) tryOne(op *store.Op) statement {
	return statement{sql: s.sql.tryOne, args: []any{op.Key, op.Amount, op.Capacity, op.LeakRate, s.now(), s.maxSkew}, form: single}
}

func (s *Store) tryUpdate(g group) statement {
	op := g.op()
	sum := 0.0
	for _, r := range g.reqs {
		sum += r.In.Amount
	}
	args := []any{op.Key, sum, op.Capacity, op.LeakRate, s.now(), s.maxSkew, len(g.reqs) > 1}
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
	return []any{p.keys, p.capacities, p.leakRates, least, fresh, numbers, offsets, sums, s.now(), s.maxSkew}
}

// answerTries answers the TryFillups of one key, in ascending order of amount: the longest prefix that fits has gone in. It
// returns those that have to be asked again.
func answerTries(s *Store, g group, r row) (open []*fillRequest) {
	if !r.written {
		return answerUnwritten(s, g, r)
	}
	op := g.op()
	r.rec.Limit = op.Limit
	accepted := store.State{
		Level: r.rec.Level, Held: r.rec.Held, Capacity: op.Capacity, LeakRate: op.LeakRate,
		At: timestamp(max(r.rec.Time, r.clock)).UTC(), Accepted: true, Full: r.rec.Level+r.rec.Held >= op.Capacity,
	}
	if len(g.reqs) == 1 { // nothing else went in
		g.reqs[0].Out = accepted
		return nil
	}
	sum := 0.0
	for _, req := range g.reqs {
		sum += req.In.Amount
		if r.pre+r.rec.Held+sum <= op.Capacity { // the statement's own test, on the same doubles
			req.Out = accepted
			req.Out.Level, req.Out.Full = r.pre+sum, r.pre+sum+r.rec.Held >= op.Capacity
			continue
		}
		// Sums round otherwise than one amount after the other: what the sum refused may fit by itself.
		if req.Out = r.rec.Refusal(&req.In, r.clock, s.maxSkew); req.Out.RetryAfter == 0 {
			open = append(open, req)
		}
	}
	return open
}

// putStatement is the statement for what goes in whether it fits or not.
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
		fresh[i] = pgtype.Float8{Float64: clamp(added[i], 0, clamped[i], op.Capacity), Valid: added[i] > 0 || clamped[i] > 0}
	}
	args := []any{p.keys, p.capacities, p.leakRates, drained, added, clamped, fresh, s.now(), s.maxSkew}
	return statement{sql: s.sql.putMany, args: args, form: numbered}
}

// clamp puts n units on top of x, up to the rim: the rule of Fillup.
func clamp(x, held, n, capacity float64) float64 {
	switch {
	case n == 0:
		return x
	case x+held+n <= capacity:
		return x + n
	}
	return max(x, capacity-held)
}

// answerPuts answers what went in anyway, in the order of kinds. It returns what has to be asked again.
func answerPuts(s *Store, g group, r row) []*fillRequest {
	if !r.written {
		return answerUnwritten(s, g, r)
	}
	op := g.op()
	r.rec.Limit = op.Limit
	held := r.rec.Held
	now := timestamp(max(r.rec.Time, r.clock)).UTC()
	drained, added, clamped := 0.0, 0.0, 0.0
	level := r.pre
	for _, req := range g.reqs {
		n := req.In.Amount
		before := level
		st := store.State{Held: held, Capacity: op.Capacity, LeakRate: op.LeakRate, At: now, Accepted: true}
		switch kindOf(&req.In) {
		case drains:
			drained -= n
			level = max(0, r.pre-drained)
		case adds:
			added += n
			level = max(0, r.pre-drained) + added
			st.Full = level+held >= op.Capacity
		default:
			x := max(0, r.pre-drained) + added
			clamped += n
			level = clamp(x, held, clamped, op.Capacity)
			if x+held+clamped <= op.Capacity {
				st.Full = level+held >= op.Capacity
			} else {
				st = r.rec.Refusal(&req.In, r.clock, s.maxSkew)
				st.Spilled, st.Full = before+n-level, true
			}
		}
		st.Level = level
		req.Out = st
	}
	return nil
}

// answerUnwritten answers requests whose statement wrote nothing, from its snapshot. It returns them where the snapshot would
// have let one through: then the locked row did not, or it is for another statement to decide.
func answerUnwritten(s *Store, g group, r row) []*fillRequest {
	for _, req := range g.reqs {
		rec := r.rec
		st, effect, err := rec.Fill(&req.In, r.clock, s.maxSkew)
		if err != nil || effect != 0 {
			return g.reqs
		}
		req.Out = st
	}
	return nil
}

// params are the arrays that both statements begin with.
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
