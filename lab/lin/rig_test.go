package lin

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

// rig is a store, and perhaps a ledger, over one connection through a tap, and sound ones that look
// past the tap. It is for one goroutine.
type rig struct {
	tap                   *tap
	store, sound          store.Store
	pool, direct          *pgxpool.Pool // of PostgreSQL
	ledger, soundLedger   joiner        // nil if the server has no ledger
	pruning, soundPruning store.Store   // believe no time that is far ahead, and so prune at once
	hangUp                func()        // closes the connections through the tap
	clear                 func(context.Context)
	ended                 func() error // hangs up, and waits until nothing is applied any more
	calls                 int          // so far
}

// Timeouts. A call whose data is lost ends by one of them, and no other call, also on a slow
// machine.
const (
	statementTimeout = 3 * time.Second
	callTimeout      = 2 * statementTimeout
	maxSkew          = 2 * time.Millisecond
)

// attempt returns the next attempt. Keys and IDs have the same length in all attempts, so that all
// exchanges of a kind have the same length.
func (r *rig) attempt() *attempt {
	r.calls++
	prefix := fmt.Sprintf("%08d-", r.calls)
	var limits [keys]store.Limit
	for k := range limits {
		limits[k] = store.Limit{Capacity: 20}
	}
	bucket := bucketsOf(limits, prefix)
	m := &storeModel{bucket: bucket, rounding: rounding, began: time.Now()}
	return &attempt{
		rig: r, number: r.calls, m: m,
		through: callee{stores: []store.Store{r.store}, bucket: bucket, pool: r.pool},
		past:    callee{stores: []store.Store{r.sound}, bucket: bucket, pool: r.direct},
	}
}

// hundreds are rules of 100 units each.
var hundreds = Rules{Single: 100, Lifetime: 100, Window: 100, Length: time.Hour}

// spends has the attempt call ledgers.
func (a *attempt) spends(ctx context.Context) (err error) {
	b := &budget{Prefix: fmt.Sprintf("%08d-", a.number), First: hundreds, TTL: time.Hour}
	a.m = newSpendModel(b)
	if a.through.spends, err = b.joinable(ctx, a.ledger, a.pool); err == nil {
		a.past.spends, err = b.joinable(ctx, a.soundLedger, a.direct)
	}
	return err
}

// newPostgresRig returns a rig with a schema of its own.
func newPostgresRig(t *testing.T, setting string, d defect) *rig {
	t.Helper()
	schema := pgtest.Schema(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	connect := func(url, settings string) *pgxpool.Pool {
		// No server crashes here, so commits need not wait for the disk.
		return pgtest.PoolAt(t, url+"&synchronous_commit=off"+settings)
	}
	r := newRig(t, pgtest.URL(t))
	name, mode := "cut_"+schema, ""
	if setting == "exec" {
		mode = "&default_query_exec_mode=exec"
	}
	r.pool, r.direct = connect(r.tap.URL(), "&pool_max_conns=1&application_name="+name+mode), connect(pgtest.URL(t), "")
	must(migrations.Up(t.Context(), r.direct, &migrations.Options{Schema: schema}))
	open := func(pool *pgxpool.Pool, skew time.Duration) *postgres.Store {
		s, err := postgres.New(pool, &postgres.Options{Schema: schema, StatementTimeout: statementTimeout, MaxSkew: skew})
		must(err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	tapped, sound := open(r.pool, 0), open(r.direct, 0)
	r.store, r.sound = spoiled{tapped, d}, sound
	r.pruning, r.soundPruning = open(r.pool, maxSkew), open(r.direct, maxSkew)
	books := func(s *postgres.Store) joiner {
		l, err := pgledger.New(s, nil)
		must(err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	r.ledger, r.soundLedger = spoiledLedger{books(tapped), d}, books(sound)
	r.hangUp = r.pool.Reset
	r.ended = func() error {
		return eventually("all connections have ended", func() (bool, error) {
			r.pool.Reset()
			r.tap.Drop() // also a connection that the pool is still making
			n := 0
			const sql = "SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE application_name = $1"
			err := r.direct.QueryRow(context.Background(), sql, name).Scan(&n)
			return n == 0, err
		})
	}
	return r
}

func newRig(t *testing.T, url string) *rig {
	t.Helper()
	tap, err := newTap(url, false, new(atomic.Bool))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tap.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{tap: tap, clear: func(context.Context) {}}
}

// The settings of connections to Redis.
const (
	resp3 = "RESP3"
	resp2 = "RESP2"
	waits = "WAIT" // for a replica, behind each script
)

// newRedisRig returns a rig with a server of its own, so that each exchange has the same length
// every time.
func newRedisRig(t *testing.T, setting string, d defect) *rig {
	t.Helper()
	server := redistest.NewServer(t, "repl-diskless-sync-delay 0")
	shared := redisstore.Options{}
	if setting == waits {
		redistest.NewReplica(t, server)
		shared.Replicas = 1
	}
	r := newRig(t, server.URL())
	own := &dialed{addr: r.tap.addr}
	client := func(o *redis.Options) *redis.Client {
		o.ReadTimeout, o.DialerRetries = statementTimeout, 1
		if setting == resp2 {
			o.Protocol = 2
		}
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	const name = "cut" // of the connections through the tap
	tapped := client(&redis.Options{Addr: r.tap.addr(), ClientName: name, PoolSize: 1, Dialer: own.dial})
	direct := client(&redis.Options{Addr: server.Addr()})
	open := func(c *redis.Client, skew time.Duration) *redisstore.Store {
		o := shared
		if skew > 0 { // without a Clock, the server removes buckets itself, and Prune has nothing to do
			o.MaxSkew, o.Clock, o.Prefix = skew, time.Now, "pruned:"
		}
		s, err := redisstore.New(c, &o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	r.store, r.sound = spoiled{open(tapped, 0), d}, open(direct, 0)
	r.pruning, r.soundPruning = open(tapped, maxSkew), open(direct, maxSkew)
	r.clear = func(ctx context.Context) { direct.FlushDB(ctx) } // a prune passes over all keys
	r.hangUp = own.hangUp
	in := &keyspace{servers: []*redis.Client{direct}}
	r.ended = func() error { return in.ended(name, func() { own.hangUp(); r.tap.Drop() }) }
	return r
}

// moment is the lifetime of holds and IDs in the budget that pruneSpends prunes.
const moment = time.Millisecond

// brief returns a budget of a ledger whose holds and IDs hardly live.
func brief(ctx context.Context, l joiner) (*spend.Budgets, error) {
	rule := spend.Rolling("moment", eur(1_000_000), moment)
	return spend.New(ctx, l, spend.Budget{Name: "brief", Currency: "EUR", Rules: []spend.Rule{rule}}, &spend.Options{
		HoldTTL: moment, KeepIDs: moment,
	})
}

// pruneSpends ends an expired hold and removes its ID, in two transactions.
var pruneSpends = &special{
	spends: true,
	before: func(ctx context.Context, a *attempt) error {
		b, err := brief(ctx, a.soundLedger)
		if err != nil {
			return err
		}
		if _, err := b.Prune(ctx); err != nil {
			return err
		}
		_, err = b.Authorize(ctx, spend.Request{ID: fmt.Sprintf("%08d", a.number), Account: "brief", Amount: eur(3)})
		time.Sleep(3 * moment) // on the server's clock
		return err
	},
	call: func(ctx context.Context, a *attempt) []error {
		b, err := brief(ctx, a.ledger)
		if err != nil {
			return []error{err, err}
		}
		done, err := b.Prune(ctx)
		// The error of a Prune leaves the parts that its result counts.
		part := func(n int64) error {
			switch {
			case n == 1:
				return nil
			case n != 0 || err == nil:
				return fmt.Errorf("pruned %d, want 1: %w", n, err)
			}
			return err
		}
		return []error{part(done.Expired), part(done.Requests)}
	},
	look: func(ctx context.Context, a *attempt) ([]int, error) {
		b, err := brief(ctx, a.soundLedger)
		if err != nil {
			return nil, err
		}
		rest, err := b.Prune(ctx)
		return []int{1 - int(rest.Expired), 1 - int(rest.Requests)}, err
	},
}

// chargeAll sends charges by one call.
func (s *budgets) chargeAll(ctx context.Context, in []request) (all []response) {
	var list []spend.Request
	for _, q := range in {
		r, _ := q.(spendRequest)
		list = append(list, spend.Request{ID: s.b.id(r.Number), Account: s.b.account(r.Account), Amount: eur(r.Amount)})
	}
	for _, a := range s.main.ChargeAll(ctx, list) {
		all = append(all, answerOf(a.Decision, a.Err))
	}
	return all
}
