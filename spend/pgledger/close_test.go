package pgledger_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

// idle is a job that decides nothing.
func idle(account string) *ledger.Job {
	return &ledger.Job{
		Accounts: []string{account},
		Run:      func(ledger.Snapshot) (*ledger.Changes, error) { return nil, nil },
	}
}

func heapObjects() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapObjects
}

// TestFlushesLeaveNothingBehind counts the objects that stay in memory over 3,000 flushes. A
// timer or a lane for each flush would stay until the timeout, which is long here.
func TestFlushesLeaveNothingBehind(t *testing.T) {
	const flushes = 3_000
	pool := pgtest.Pool(t)
	l := over(t, pool, &postgres.Options{Schema: migrated(t), StatementTimeout: time.Hour})
	decide := func() {
		if err := l.Decide(context.Background(), idle("account")); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 { // so that connections, plans and buffers are there
		decide()
	}
	before := heapObjects()
	for range flushes {
		decide()
	}
	if after := heapObjects(); after > before+flushes/10 {
		t.Errorf("%d objects are left by %d flushes", after-before, flushes)
	}
}

// calls are all calls of a ledger.
func calls(l ledger.Ledger) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"decide": func(ctx context.Context) error { return l.Decide(ctx, idle("account")) },
		"view":   func(ctx context.Context) error { return l.View(ctx, idle("account")) },
		"history": func(ctx context.Context) error {
			_, err := l.History(ctx, "account", ledger.Position{}, 1)
			return err
		},
		"accounts":  func(ctx context.Context) error { _, _, err := l.Accounts(ctx, "", "", 0, 1); return err },
		"revisions": func(ctx context.Context) error { _, err := l.Revisions(ctx, "budget", 0, 1); return err },
		"prune":     func(ctx context.Context) error { _, err := l.PruneRequests(ctx, "", 0); return err },
	}
}

func wantError(t *testing.T, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Errorf("error is %v; want %v", err, sentinel)
	}
	if e := (*store.Error)(nil); !errors.As(err, &e) || e.Backend != "pgledger" {
		t.Errorf("%v does not name the ledger", err)
	}
}

// TestClose closes a ledger, and then the store of another one.
func TestClose(t *testing.T) {
	pool := pgtest.Pool(t)
	s, err := postgres.New(pool, &postgres.Options{Schema: migrated(t)})
	if err != nil {
		t.Fatal(err)
	}
	open := func() *pgledger.Ledger {
		l, err := pgledger.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	closed := func(l ledger.Ledger) {
		t.Helper()
		for name, call := range calls(l) {
			t.Run(name, func(t *testing.T) { wantError(t, call(t.Context()), store.ErrClosed) })
		}
	}
	l, other := open(), open()
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	closed(l)
	if err := other.Decide(t.Context(), idle("account")); err != nil {
		t.Errorf("another ledger over the same store: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	closed(other)
	closed(other.With(tx))
	closed(open())
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

func TestNew(t *testing.T) {
	pool := &pgxpool.Pool{} // New sends nothing
	s, err := postgres.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		name string
		s    *postgres.Store
		o    *pgledger.Options
		good bool
	}{
		{"defaults", s, nil, true},
		{"options", s, &pgledger.Options{Lanes: 1, BatchSize: 1}, true},
		{"no store", nil, nil, false},
		{"negative lanes", s, &pgledger.Options{Lanes: -1}, false},
		{"negative batch size", s, &pgledger.Options{BatchSize: -1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := pgledger.New(c.s, c.o)
			switch e := (*store.Error)(nil); {
			case c.good && err != nil:
				t.Error(err)
			case c.good:
				_ = l.Close()
			case l != nil || !errors.As(err, &e) || e.Backend != "pgledger" || e.Op != "new":
				t.Errorf("%v, %v; want an error of pgledger's new", l, err)
			}
		})
	}
}
