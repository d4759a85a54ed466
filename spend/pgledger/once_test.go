package pgledger_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestExactlyOnceOverCutConnections sends each request three times, over connections that are cut
// at random. A caller without an answer sends again. Each request has one effect.
func TestExactlyOnceOverCutConnections(t *testing.T) {
	t.Parallel()
	direct := pgtest.Pool(t)
	schema := migrated(t)
	var cuts atomic.Int64
	var stop atomic.Bool
	var drawing sync.Mutex
	r := rand.New(rand.NewPCG(spendload.Seed(t), 2))
	proxy, err := wire.New(pgtest.URL(t), func(_ *wire.Link, _ wire.Direction, piece []byte) wire.Fate {
		drawing.Lock()
		defer drawing.Unlock()
		if stop.Load() || r.IntN(15) != 0 {
			return wire.Pass(piece)
		}
		cuts.Add(1)
		return wire.Fate{Pass: r.IntN(len(piece) + 1), End: wire.Close} // within a message, mostly
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	pool := pgtest.PoolAt(t, proxy.URL(), func(c *pgxpool.Config) { c.MaxConns = 4 })
	l := over(t, pool, &postgres.Options{Schema: schema})
	once := spendload.NewOnce()
	b, err := once.Budgets(t.Context(), l)
	for errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
		b, err = once.Budgets(t.Context(), l)
	}
	if err != nil {
		t.Fatal(err)
	}
	answers := make(map[int]string)
	var mu sync.Mutex
	var next, unknown, unsent atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < once.Sends(); n = int(next.Add(1)) - 1 {
				for {
					answer, err := once.Send(context.Background(), b, n)
					if err == nil {
						mu.Lock()
						answers[n] = answer
						mu.Unlock()
						break
					}
					switch {
					case errors.Is(err, store.ErrUnknownOutcome):
						unknown.Add(1)
					case errors.Is(err, store.ErrUnavailable):
						unsent.Add(1)
					default:
						t.Errorf("send %d: %v", n, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d connections were cut; %d calls ended with an unknown outcome, %d with none", cuts.Load(), unknown.Load(), unsent.Load())
	if cuts.Load() < 20 || unknown.Load() == 0 {
		t.Error("too few connections were cut: the test has not tested much")
	}
	stop.Store(true)
	once.Check(t, over(t, direct, &postgres.Options{Schema: schema}), answers)
}

// TestRaces has 64 goroutines that spend 1.00 each against 100.00, by their own ledgers and by
// shared ones.
func TestRaces(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	var ledgers []ledger.Ledger
	for range 3 {
		ledgers = append(ledgers, over(t, pool, &postgres.Options{Schema: schema}))
	}
	spendload.Races(t, ledgers)
}

func TestManyExpired(t *testing.T) {
	t.Parallel()
	h := harness(t, "")
	spendload.Expired(t, func(clock func() time.Time) ledger.Ledger { return h.New(t, clock) })
}
