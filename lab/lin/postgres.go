package lin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/proxy"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

// linked is a store or a ledger in PostgreSQL, reached through a proxy that cuts connections.
type linked struct {
	*place
	*line
	m         model
	processes []*postgres.Store // on line
	below     []store.Store     // the same
	stores    []store.Store     // clients take turns
	bucket    history.Bucket
	ends      []request
	budget    *budget // of a ledger
	spends    *budgets
	ledger    *pgledger.Ledger
	after     *postgres.Store // on direct, for the end
}

// abreast is the number of histories at a time on one server.
const abreast = 8

func newLinked(at *place) (w *linked, err error) {
	w = &linked{place: at}
	if w.line, err = at.take(); err != nil {
		return nil, err
	}
	for range 2 { // as two processes
		s, err := postgres.New(w.pool, &postgres.Options{Schema: at.schema})
		if err != nil {
			return nil, err
		}
		w.processes, w.below = append(w.processes, s), append(w.below, s)
	}
	w.after, err = postgres.New(at.direct, &postgres.Options{Schema: at.schema})
	return w, err
}

func (w *linked) model() model { return w.m }

// time returns nil: the server's clock decides.
func (w *linked) time() *clock { return nil }

func (w *linked) do(ctx context.Context, client int, in request) response {
	if q, ok := in.(spendRequest); ok {
		return w.spends.call(ctx, q)
	}
	q, _ := in.(storeRequest)
	return storeResponse{history.CallOn(ctx, w.stores[client%len(w.stores)], w.bucket, q.Op)}
}

// strike cuts a connection at a random byte, or ends backends or their statements.
func (w *linked) strike(r *rand.Rand, now func()) (request, error) {
	now()
	const soon = 20 * time.Millisecond
	switch r.IntN(4) {
	case 0:
		w.proxy.Cut(proxy.Requests, r.IntN(2000), soon)
	case 1:
		w.proxy.Cut(proxy.Answers, r.IntN(2000), soon)
	case 2:
		// A later call must not find a connection of a backend that has ended: it may have an
		// unknown outcome, and nobody has counted it.
		defer w.pool.Reset()
		return nil, w.signal("pg_terminate_backend", 1+r.IntN(connections))
	case 3:
		return nil, w.signal("pg_cancel_backend", 1+r.IntN(connections))
	}
	return nil, nil
}

// signal calls a function of the server for so many backends, first of all for those at work.
func (w *linked) signal(function string, backends int) error {
	_, err := w.direct.Exec(context.Background(), fmt.Sprintf(`SELECT %s(pid) FROM (
		SELECT pid FROM pg_stat_activity WHERE application_name = $1 ORDER BY state, random() LIMIT $2) p`,
		function), w.name, backends)
	return err
}

// settle closes the stores, and waits for the backends. Until then, a backend can still commit a
// call whose caller has gone.
func (w *linked) settle() error {
	var err error
	if w.ledger != nil {
		err = w.ledger.Close()
	}
	for _, s := range w.below {
		err = errors.Join(err, s.Close())
	}
	if err == nil {
		err = w.quiet(w.direct)
	}
	if err != nil || w.budget == nil {
		w.stores = []store.Store{w.after}
		return err
	}
	if w.ledger, err = pgledger.New(w.after, nil); err == nil {
		w.spends, err = w.budget.over(w.ledger)
	}
	return err
}

func (w *linked) finals() []request { return w.ends }

func (w *linked) close() error {
	w.give(w.line)
	if w.budget != nil {
		if err := w.ledger.Close(); err != nil {
			return err
		}
	}
	return w.after.Close()
}

// inPostgres returns stores over one table. See planServer.
func inPostgres(at *place, join joining) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		w, err := newLinked(at)
		if err != nil {
			return nil, plan{}, err
		}
		p, err := planServer(r, w.below, join)
		if err != nil {
			return nil, plan{}, err
		}
		w.m, w.stores, w.ends = p.model, p.stores, allKeys()
		w.bucket = bucketsOf(p.limits, w.prefix())
		return w, p.plan, nil
	}
}

// inPgledger returns a ledger. No hold expires and no window ends, because nobody knows the time of
// a call of unknown outcome.
func inPgledger(at *place) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		w, err := newLinked(at)
		if err != nil {
			return nil, plan{}, err
		}
		w.budget = newBudget(r)
		w.budget.Prefix, w.budget.Length, w.budget.TTL = w.prefix(), time.Hour, time.Hour
		w.ends, w.m = allAccounts(), &spendModel{w.budget}
		if w.ledger, err = pgledger.New(w.processes[0], nil); err != nil {
			return nil, plan{}, err
		}
		w.spends, err = w.budget.over(w.ledger)
		return w, planSpend(r, false, 4, cuts), err
	}
}
