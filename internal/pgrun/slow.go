package pgrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/store"
)

// doSlow waits for the rows of a request and decides it.
func (c *Combiner[Q, A]) doSlow(ctx context.Context, hash uint64, in Q) (out A, err error) {
	limit, cancel := context.WithTimeout(ctx, c.r.Timeout)
	defer cancel()
	defer context.AfterFunc(c.stuck.closed, cancel)()
	w := c.stuck.enter(slices.Collect(c.rows.Names(in)))
	defer c.stuck.leave(w)
	for {
		out, err = c.slow.Do(limit, hash, in)
		if err != errStuck {
			break
		}
	}
	switch {
	case err == nil || limit.Err() == nil || !errors.Is(err, limit.Err()):
		return out, err
	case errors.Is(err, store.ErrUnknownOutcome):
		return out, fmt.Errorf("%w: %w while the call was in flight", store.ErrUnknownOutcome, cmp.Or(ctx.Err(), errLate))
	case ctx.Err() != nil:
		return out, fmt.Errorf("%w: %w while another transaction held the row", store.ErrUnavailable, ctx.Err())
	case c.stuck.closed.Err() != nil:
		return out, store.ErrClosed
	}
	return out, fmt.Errorf("%w: another transaction has held the row for %v; keep transactions that fill buckets short",
		store.ErrUnavailable, c.r.Timeout)
}

var errLate = errors.New("Options.StatementTimeout passed")

// awaitRows waits until a request for stuck rows can be sent. It then has a connection.
func (c *Combiner[Q, A]) awaitRows() error {
	l := c.lanes[len(c.lanes)-1]
	for last := time.Now(); ; {
		c.stuck.sweep()
		names, pause, ready := c.stuck.next()
		switch {
		case ready: // or nobody waits any more
			return l.acquire()
		case c.stuck.wait(time.Until(last.Add(pause))):
			continue
		}
		last = time.Now()
		if err := l.acquire(); err != nil {
			return err
		}
		held, _, err := c.probe(l.ctx, l, names, true)
		l.release()
		if err != nil {
			return err
		}
		c.stuck.looked(names, held)
	}
}

// probe asks which of the rows other transactions hold, and which are missing. Where missing rows
// can be told apart, those that another transaction is inserting count as held, and the others are
// left out. That takes longer, so without all it is done only if no other row is held.
func (c *Combiner[Q, A]) probe(
	ctx context.Context, l *Lane, names []string, all bool,
) (held, missing map[string]bool, err error) {
	err = l.Attempt(ctx, func(conn *pgxpool.Conn) error {
		held, missing = make(map[string]bool), make(map[string]bool)
		_, err := c.r.QueryByIndex(ctx, conn, c.rows.Probe, []any{names}, func(rows pgx.Rows) error {
			var name string
			var exists bool
			if err := rows.Scan(&name, &exists); err != nil {
				return err
			}
			if exists {
				held[name] = true
			} else {
				missing[name] = true
			}
			return nil
		})
		return err
	})
	if err != nil || c.rows.Insert == nil {
		return held, missing, err
	}
	if len(missing) > 0 && (all || len(held) == 0) {
		var inserted map[string]bool
		inserted, err = c.inserting(ctx, l, missing)
		maps.Copy(held, inserted)
	}
	return held, nil, err
}

// names returns the names of the rows of requests.
func (c *Combiner[Q, A]) names(batch Batch[Q, A]) (names []string) {
	for _, r := range batch {
		names = slices.AppendSeq(names, c.rows.Names(r.In))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// moves is how often a flush that stalls is sent again although no row is held, before its
// requests move to the queue for stuck rows.
const moves = 2

// setAside answers the requests whose rows are held, so that their callers wait elsewhere, and
// returns the others.
func (c *Combiner[Q, A]) setAside(ctx context.Context, l *Lane, open Batch[Q, A], tries int) (again Batch[Q, A]) {
	names := c.names(open)
	held, missing, err := c.probe(ctx, l, names, false)
	switch {
	case err != nil:
		for _, r := range open {
			r.Err = err
		}
		return nil
	case len(held) > 0:
		c.stuck.add(held, true)
	case len(missing) > 0:
		// Another transaction may be inserting one of them. The slow lane finds it.
		held = missing
		c.stuck.add(held, false)
	case tries >= moves:
		held = make(map[string]bool)
		for _, name := range names {
			held[name] = true
		}
		c.stuck.add(held, false)
	}
	return c.split(open, held)
}

// split answers the requests of which a row is in held, and returns the others.
func (c *Combiner[Q, A]) split(open Batch[Q, A], held map[string]bool) (others Batch[Q, A]) {
	for _, r := range open {
		r.Err = nil
		for name := range c.rows.Names(r.In) {
			if held[name] {
				r.Err = errStuck
				break
			}
		}
		if r.Err == nil {
			others = append(others, r)
		}
	}
	return others
}

// flushSlow answers requests for stuck rows that a probe found free.
func (c *Combiner[Q, A]) flushSlow(flush Flush[Q, A], batch Batch[Q, A]) {
	l := c.lanes[len(c.lanes)-1]
	l.wait = leastWait
	stalls := 0
	c.sendApart(l.ctx, l, flush, batch, &stalls)
}

// mostStalls is how many statements of one flush of the slow lane may stall. They then take half of
// the time for which callers stay beyond their deadlines, so these learn that nothing was applied.
const mostStalls = int(grace / leastWait / 2)

// sendApart sends requests. Where their flush stalls although a probe finds no row held, it
// sends the halves apart, down to the one request that stalls by itself.
func (c *Combiner[Q, A]) sendApart(
	ctx context.Context, l *Lane, flush Flush[Q, A], batch Batch[Q, A], stalls *int,
) {
	if *stalls >= mostStalls { // the others go out with the next flush
		for _, r := range batch {
			r.Err = errStuck
		}
		return
	}
	open := flush(ctx, batch)
	for _, r := range batch {
		if !slices.Contains(open, r) {
			c.stuck.served(c.rows.Names(r.In))
		}
	}
	if len(open) == 0 {
		return
	}
	*stalls++
	held, _, err := c.probe(ctx, l, c.names(open), false)
	if err != nil {
		for _, r := range open {
			r.Err = err
		}
		return
	}
	c.stuck.add(held, true)
	others := c.split(open, held)
	switch half := len(others) / 2; {
	case len(others) == 0:
	case len(others) < len(open):
		c.sendApart(ctx, l, flush, others, stalls)
	case len(others) == 1:
		c.stuck.stalled(c.rows.Names(others[0].In))
		others[0].Err = errStuck
	default:
		c.sendApart(ctx, l, flush, others[:half], stalls)
		c.sendApart(ctx, l, flush, others[half:], stalls)
	}
}
