package lin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

// place is a migrated schema on a server. Histories use it at the same time, unless a fault ends
// all connections of the server.
type place struct {
	url      string
	schema   string
	direct   *pgxpool.Pool  // connections that nothing cuts
	server   *pgtest.Server // for faults of the whole server; or nil
	settings string         // of the connections, such as "&a=b"
	timeout  time.Duration  // the stores' StatementTimeout; 0 is the default, and none bounds transactions of callers
	faults   []fault        // of the server
	slow     bool           // every line is slow
	clocked  bool           // every history has its own clock, so none may prune the table
	down     atomic.Bool    // from a crash to the recovery
	used     atomic.Int64   // names so far

	mu    sync.Mutex
	lines []*line          // all
	free  map[kind][]*line // those without a history
}

// kind is the kind of a line.
type kind struct {
	slow bool // see tap
	exec bool // the driver sends other messages and words its errors differently
}

// name returns the beginning of names that nothing else has.
func (p *place) name() string { return fmt.Sprintf("%d-", p.used.Add(1)) }

// take returns a line for a history. The history gives it back with give.
func (p *place) take(k kind) (*line, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if free := p.free[k]; len(free) > 0 {
		l := free[len(free)-1]
		p.free[k] = free[:len(free)-1]
		return l, nil
	}
	l, err := p.connect(k)
	if err == nil {
		p.lines = append(p.lines, l)
	}
	return l, err
}

func (p *place) give(l *line) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		// A fault has ended connections, and the next history opens a ledger over the line at once.
		l.pool.Reset()
	}
	p.free[l.kind] = append(p.free[l.kind], l)
	return nil
}

// close ends the connections of all lines.
func (p *place) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		l.pool.Close()
		_ = l.tap.Close() // no history is left to fail
	}
}

// line is a pool of connections through a tap. A new backend of PostgreSQL costs more than all
// statements of a history, so histories that follow each other share those connections that
// survive.
type line struct {
	kind
	name string // of the connections
	tap  *tap
	pool *pgxpool.Pool
}

// connections is the size of a line's pool.
const connections = 6

func (p *place) connect(k kind) (*line, error) {
	l := &line{kind: k, name: "lin-" + p.name() + p.schema}
	var err error
	if l.tap, err = newTap(p.url, k.slow, &p.down); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(l.tap.URL() + p.settings)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["application_name"] = l.name
	if k.exec {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	l.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	return l, err
}

// quiet waits until nothing is under way: every backend of the line has ended, or its connection is
// idle in the pool. The pool keeps no connection whose last statement has not been answered.
func (l *line) quiet(direct *pgxpool.Pool) error {
	ctx := context.Background()
	return eventually("the stores' statements have ended", func() (bool, error) {
		idle := []uint32{}
		for _, c := range l.pool.AcquireAllIdle(ctx) {
			idle = append(idle, c.Conn().PgConn().PID())
			c.Release()
		}
		busy := 0
		err := direct.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = $1 AND pid <> ALL($2)`, l.name, idle).Scan(&busy)
		return busy == 0, err // a crash has broken connections of direct, too
	})
}

// open returns a store of the place over a pool.
func (p *place) open(pool *pgxpool.Pool, clock func() time.Time) (*postgres.Store, error) {
	return postgres.New(pool, &postgres.Options{Schema: p.schema, Clock: clock, StatementTimeout: p.timeout})
}

// newLinked returns a world in PostgreSQL, with the history's clock, or that of the server.
func newLinked(at *place, r *rand.Rand, clocked bool) (w *remote, err error) {
	w = &remote{place: at, prefix: at.name(), strikes: cuts, faults: []fault{cutRequest, cutAnswer, terminate, cancel}}
	k := kind{exec: r.IntN(4) == 0}
	if at.server != nil {
		k.slow = at.slow || r.IntN(2) == 0
		w.strikes, w.sure, w.faults = 1, true, at.faults
	}
	if w.line, err = at.take(k); err != nil {
		return nil, err
	}
	w.tap, w.pool = w.line.tap, w.line.pool
	w.quiet = func() error { return w.line.quiet(at.direct) }
	w.free = func() error { return at.give(w.line) }
	var read func() time.Time
	if clocked {
		if w.clk, read, err = newShared(); err != nil {
			return nil, err
		}
	}
	for range 2 { // as two processes
		s, err := at.open(w.line.pool, read)
		if err != nil {
			return nil, err
		}
		w.below = append(w.below, s)
	}
	w.after, err = at.open(at.direct, read)
	return w, err
}

// inPostgres returns stores over one table.
func inPostgres(in func() *place, join joining) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		at := in()
		w, err := newLinked(at, r, at.clocked)
		if err != nil {
			return nil, plan{}, err
		}
		p, err := w.plan(r, join, style{updates: join == nil && at.timeout == 0, keep: at.clocked})
		return w, p, err
	}
}

// inPgledger returns a ledger. No hold expires and no window ends, because a call of unknown
// outcome that made no entry has no time. alter may put another ledger in the place of the one
// under test.
func inPgledger(in func() *place, alter func(joiner) joiner) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		at := in()
		w, err := newLinked(at, r, false)
		if err != nil {
			return nil, plan{}, err
		}
		b := newBudget(r, false)
		b.Prefix = w.prefix
		w.ends, w.m = allAccounts(), newSpendModel(b)
		open := func(s store.Store, pool *pgxpool.Pool, alter func(joiner) joiner) (ledger.Ledger, *budgets, error) {
			own, err := pgledger.New(s.(*postgres.Store), nil)
			if err != nil {
				return nil, nil, err
			}
			l := joiner(own)
			if alter != nil {
				l = alter(l)
			}
			spends, err := b.joinable(context.Background(), l, pool)
			return own, spends, err
		}
		l, spends, err := open(w.below[0], w.line.pool, alter)
		if err != nil {
			return nil, plan{}, err
		}
		w.spends = spends
		w.ledgers = &ledgers{budget: b, open: []ledger.Ledger{l}, after: func() (ledger.Ledger, *budgets, error) {
			return open(w.after, at.direct, nil)
		}}
		return w, planSpend(r, b, spendStyle{joins: at.timeout == 0, impatient: 4, strikes: w.strikes, sure: w.sure}), nil
	}
}

// joiner is a ledger that can join a transaction.
type joiner interface {
	ledger.Ledger
	With(tx pgx.Tx) ledger.Ledger
}

// joinable returns the budgets of a ledger that also joins transactions of the caller's.
func (b *budget) joinable(ctx context.Context, l joiner, pool *pgxpool.Pool) (*budgets, error) {
	spends, err := b.over(ctx, l)
	if err != nil {
		return nil, err
	}
	spends.join = func(ctx context.Context, do func(*budgets) error) error {
		return within(ctx, pool, func(tx pgx.Tx) error {
			return do(spends.with(l.With(tx)))
		})
	}
	return spends, nil
}

// within runs fn in a transaction of the caller's. A commit without an answer has an unknown
// outcome; before it, nothing is applied.
func within(ctx context.Context, pool *pgxpool.Pool, fn func(pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback(ctx) // the transaction may have ended with its connection
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("%w: commit: %w", store.ErrUnknownOutcome, err)
	}
	return nil
}

// transact carries out fills in one transaction: of the store's, or of the caller's.
func transact(ctx context.Context, s store.Store, pool *pgxpool.Pool, b history.Bucket, q storeRequest) storeResponse {
	var a history.Answer
	each := func(s store.Store) error {
		a = history.Answer{} // Update may run it again
		for _, txn := range q.Txns {
			st, err := s.Fill(ctx, txn[0].Op(b))
			if err != nil {
				return err
			}
			a.Results = append(a.Results, history.Result{Accepted: st.Accepted, States: []store.State{st}})
		}
		return nil
	}
	t, ok := s.(transacting)
	var err error
	switch {
	case !ok:
		err = errors.ErrUnsupported
	case q.Kind == update:
		err = t.Update(ctx, each)
	default:
		err = within(ctx, pool, func(tx pgx.Tx) error { return each(t.With(tx)) })
	}
	if err != nil {
		a = history.Failed(err)
	}
	return storeResponse{a}
}

// transacting is a store with transactions of several calls.
type transacting interface {
	Update(ctx context.Context, fn func(store.Store) error) error
	With(tx pgx.Tx) store.Store
}

// soon is the time in which a cut must come, so that it meets the calls that are in flight.
const soon = 20 * time.Millisecond

func cutRequest(w *remote, b *blow) error {
	w.tap.cutSoon(b.r, wire.ToServer, 2000, soon)
	return nil
}

func cutAnswer(w *remote, b *blow) error {
	w.tap.cutSoon(b.r, wire.ToClient, 2000, soon)
	return nil
}

func terminate(w *remote, b *blow) error {
	// A later call must not find a connection of a backend that has ended: it may have an unknown
	// outcome, and nobody has counted it.
	defer w.line.pool.Reset()
	return w.line.signal(w.place.direct, "pg_terminate_backend", 1+b.r.IntN(connections))
}

func cancel(w *remote, b *blow) error {
	return w.line.signal(w.place.direct, "pg_cancel_backend", 1+b.r.IntN(connections))
}

// signal calls a function of the server for so many backends, first of all for those at work.
func (l *line) signal(direct *pgxpool.Pool, function string, backends int) error {
	_, err := direct.Exec(context.Background(), fmt.Sprintf(`SELECT %s(pid) FROM (
		SELECT pid FROM pg_stat_activity WHERE application_name = $1 ORDER BY state, random() LIMIT $2) p`,
		function), l.name, backends)
	return err
}

// crashes are the ways to crash a server and to have it back.
var crashes = []fault{
	killServer, killServer, killBackend, killBackend, killOwn,
	func(w *remote, b *blow) error { // an immediate stop
		return w.place.crash(b, func(s *pgtest.Server) error { return errors.Join(s.Stop(true), s.Start()) })
	},
}

func killServer(w *remote, b *blow) error {
	return w.place.crash(b, func(s *pgtest.Server) error { return errors.Join(s.Kill(), s.Start()) })
}

// clientTitle is a part of the titles of processes that serve a connection.
const clientTitle = "127.0.0.1("

func killBackend(w *remote, b *blow) error {
	return w.place.crash(b, func(s *pgtest.Server) error {
		// A crash before may have ended all connections, and slow lines refuse new ones by now.
		ctx, cancel := context.WithTimeout(context.Background(), recovery)
		defer cancel()
		conn, err := pgx.Connect(ctx, s.URL())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }() // the server may have ended it
		return killOne(s, b.r, clientTitle)
	})
}

// killOwn kills a process of the server's own.
func killOwn(w *remote, b *blow) error {
	title := [...]string{"walwriter", "checkpointer", "background writer"}[b.r.IntN(3)]
	return w.place.crash(b, func(s *pgtest.Server) error { return killOne(s, b.r, title) })
}

// crash crashes the server at a random moment, and has it back.
func (p *place) crash(b *blow, how func(*pgtest.Server) error) error {
	b.soon()
	p.down.Store(true)
	defer p.down.Store(false)
	return how(p.server)
}

// processes returns the processes whose titles contain a text. After a crash, the server has none
// of a connection until somebody connects.
func processes(s *pgtest.Server, title string) (fit []int, err error) {
	err = eventually("the server has a process "+title, func() (bool, error) {
		all, err := s.Processes()
		for _, p := range all[min(1, len(all)):] {
			if strings.Contains(p.Title, title) {
				fit = append(fit, p.PID)
			}
		}
		return len(fit) > 0, err
	})
	return fit, err
}

// killOne kills a process whose title contains a text. The server then ends all connections and
// recovers by itself.
func killOne(s *pgtest.Server, r *rand.Rand, title string) error {
	fit, err := processes(s, title)
	if err != nil {
		return err
	}
	pid := fit[r.IntN(len(fit))]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	// The first process sees the death and refuses connections from then on.
	gone := false
	return eventually("the server is back", func() (bool, error) {
		gone = gone || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		if !gone {
			return false, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), recovery)
		defer cancel()
		conn, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			_ = conn.Close(ctx) // it has answered
		}
		return true, err
	})
}
