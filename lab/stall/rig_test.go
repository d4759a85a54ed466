//go:build linux

package stall

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/lab/internal/serverload"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/pgledger"
)

// rig is a server of its own, which may be stopped, and sound stores on it.
type rig struct {
	t      *testing.T
	server *pgtest.Server
	direct *pgxpool.Pool
	sound  *postgres.Store
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, server: pgtest.NewServer(t)}
	r.direct = r.server.Pool(t)
	if err := migrations.Up(t.Context(), r.direct, nil); err != nil {
		t.Fatal(err)
	}
	r.sound = r.store(t, r.direct, 0)
	return r
}

// statementTimeout is that of the stores that meet a stall.
const statementTimeout = 300 * time.Millisecond

// Timeouts of the client that is stopped. The server ends its transaction by them.
const (
	longer  = time.Minute // than the test stops it
	shorter = 500 * time.Millisecond
)

func (r *rig) store(t *testing.T, pool *pgxpool.Pool, timeout time.Duration) *postgres.Store {
	t.Helper()
	s, err := postgres.New(pool, &postgres.Options{StatementTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// client is a store or a ledger over a pool of its own.
type client struct {
	serverload.Subject
	pool *pgxpool.Pool
	name string // of the pool's connections
}

// newClient returns a client with a StatementTimeout; 0 is the default. Transactions of the
// caller's own, which the store does not bound, get the same bound as the server's lock_timeout.
func (r *rig) newClient(t *testing.T, kind string, timeout time.Duration, d serverload.Defect) *client {
	t.Helper()
	c := &client{name: fmt.Sprintf("stall_%d", time.Now().UnixNano())}
	var err error
	c.pool, err = pgxpool.New(t.Context(),
		fmt.Sprintf("%s&application_name=%s&lock_timeout=%d", r.server.URL(), c.name, timeout.Milliseconds()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	if c.Subject, err = subjectOf(kind, r.store(t, c.pool, timeout), c.pool, r.sound, d); err != nil {
		t.Fatal(err)
	}
	return c
}

// subjectOf returns the subject "postgres" or "spend" over a store.
func subjectOf(kind string, s *postgres.Store, pool *pgxpool.Pool, sound *postgres.Store, d serverload.Defect) (serverload.Subject, error) {
	if kind == "postgres" {
		return serverload.NewTransactions(s, d, pool, sound), nil
	}
	l, err := pgledger.New(s, nil)
	if err != nil {
		return nil, err
	}
	looker, err := pgledger.New(sound, nil)
	if err != nil {
		return nil, err
	}
	return serverload.NewLedger(&serverload.SpoiledLedger{Joiner: l, Defect: d}, pool, looker) // they close with their stores
}

// ended waits until the server works for the client no more.
func (r *rig) ended(ctx context.Context, c *client) error {
	return serverload.EndedPostgres(ctx, r.direct, c.name, c.pool.Reset)
}

// flights keeps the steps of a client that have no answer yet.
type flights struct {
	serverload.Subject
	mu   sync.Mutex
	next int
	open map[int]bool
}

func (f *flights) Do(ctx context.Context, c serverload.Call, step int) error {
	f.mu.Lock()
	n := f.next
	f.next++
	f.open[n] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.open, n)
		f.mu.Unlock()
	}()
	return f.Subject.Do(ctx, c, step)
}

// landed waits until the steps that are under way have an answer. It returns how many there were
// and how long the last one took.
func (f *flights) landed() (n int, took time.Duration, err error) {
	began := time.Now()
	f.mu.Lock()
	before := f.next
	n = len(f.open)
	f.mu.Unlock()
	for {
		f.mu.Lock()
		left := 0
		for i := range f.open {
			if i < before {
				left++
			}
		}
		f.mu.Unlock()
		switch took = time.Since(began); {
		case left == 0:
			return n, took, nil
		case took > patience:
			return n, took, fmt.Errorf("%d of %d calls have no answer after %v", left, n, took)
		}
		time.Sleep(time.Millisecond)
	}
}

// patience is how long a call may wait for its answer while nothing goes on: in the queue of a
// flush, and for its own flush, each of which ends by its timeout; the rest is for a slow machine.
const patience = 2*statementTimeout + 10*time.Second
