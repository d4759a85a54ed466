package outage

import (
	"context"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
)

// places are the stores, with the faults of each.
var places = []struct {
	name   string
	faults []string
}{
	{"memory", []string{"none", "hung", "refusing"}},
	{"memory+2ms", []string{"none", "hung", "refusing"}},
	{"postgres", []string{"none", "hung", "refusing", "locked"}},
	{"redis", []string{"none", "hung", "refusing"}},
}

// weather is the state of a store, or of the connections to its server.
type weather struct {
	refusing bool
	clears   chan struct{} // nil if nothing hangs
}

// gate is a store over another one. It does not close it.
type gate struct {
	store.Store
	delay   time.Duration
	weather atomic.Pointer[weather]

	first   atomic.Pointer[store.Bucket] // that a call was about
	answers atomic.Int64
	some    chan struct{} // closed when half a bucket of calls has been answered
}

func newGate(s store.Store, delay time.Duration) *gate {
	g := &gate{Store: s, delay: delay, some: make(chan struct{})}
	g.weather.Store(&weather{})
	return g
}

// mark is the key of a context's value that tells whether a call has come to a gate.
type mark struct{}

// enter holds a call up, or refuses it.
func (g *gate) enter(ctx context.Context) error {
	if came, ok := ctx.Value(mark{}).(*atomic.Bool); ok {
		came.Store(true)
	}
	w := g.weather.Load()
	if w.refusing {
		return store.ErrUnavailable
	}
	if w.clears != nil {
		select {
		case <-w.clears:
		case <-ctx.Done():
		}
	}
	if g.delay > 0 {
		select {
		case <-time.After(g.delay):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (g *gate) leave() {
	if g.answers.Add(1) == int64(limit.Capacity/2) {
		close(g.some)
	}
}

func (g *gate) Fill(ctx context.Context, op store.Op) (store.State, error) {
	g.first.CompareAndSwap(nil, &op.Bucket)
	if err := g.enter(ctx); err != nil {
		return store.State{}, err
	}
	defer g.leave()
	return g.Store.Fill(ctx, op)
}

func (g *gate) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if err := g.enter(ctx); err != nil {
		return nil, err
	}
	defer g.leave()
	return g.Store.Apply(ctx, txns...)
}

func (g *gate) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := g.enter(ctx); err != nil {
		return nil, err
	}
	return g.Store.Read(ctx, buckets...)
}

func (g *gate) Close() error { return nil }

// servers are the places of stores. The zero value has only memory.
type servers struct {
	pool   *pgxpool.Pool // connections that nothing disturbs
	schema string
	prefix string // in Redis
}

// open starts the servers, unless -short leaves them out.
func open(t *testing.T) *servers {
	t.Helper()
	if testing.Short() {
		return &servers{}
	}
	at := &servers{pool: pgtest.Pool(t), schema: pgtest.Schema(t), prefix: redistest.Prefix(t, redistest.Client(t))}
	if err := migrations.Up(t.Context(), at.pool, &migrations.Options{Schema: at.schema}); err != nil {
		t.Fatal(err)
	}
	return at
}

// place is a store behind a gate, for one row.
type place struct {
	*servers
	gate  *gate
	proxy *wire.Proxy // to the server; nil in memory
	wires atomic.Pointer[weather]
}

// place opens a store, which is closed at the end of t.
func (at *servers) place(t *testing.T, name string) *place {
	t.Helper()
	p := &place{servers: at}
	p.wires.Store(&weather{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	connect := func(server string) (through string) {
		var err error
		p.proxy, err = wire.New(server, p.decide)
		must(err)
		t.Cleanup(func() { must(p.proxy.Close()) })
		return p.proxy.URL()
	}
	var s store.Store
	var err error
	delay := time.Duration(0)
	if name == "memory" || name == "memory+2ms" {
		if name == "memory+2ms" {
			delay = 2 * time.Millisecond
		}
		s = memory.New(nil)
	} else if at.pool == nil {
		t.Skip("-short leaves out the rows that need a server")
	}
	switch name {
	case "postgres":
		s, err = postgres.New(pgtest.PoolAt(t, connect(pgtest.URL(t))), &postgres.Options{Schema: at.schema})
		must(err)
	case "redis":
		u, err := url.Parse(connect(redistest.URL(t)))
		must(err)
		client := redis.NewClient(&redis.Options{Addr: u.Host, DialerRetries: 1})
		t.Cleanup(func() { must(client.Close()) })
		s, err = redisstore.New(client, &redisstore.Options{Prefix: at.prefix})
		must(err)
	}
	t.Cleanup(func() { must(s.Close()) })
	p.gate = newGate(s, delay)
	return p
}

// decide is the policy of the proxy.
func (p *place) decide(_ *wire.Link, _ wire.Direction, piece []byte) wire.Fate {
	switch w := p.wires.Load(); {
	case w.refusing:
		return wire.Fate{End: wire.Close}
	case w.clears != nil:
		return wire.Fate{Hold: func() { <-w.clears }}
	}
	return wire.Pass(piece)
}

// strike begins a fault, and returns a function that ends it.
func (p *place) strike(ctx context.Context, t *testing.T, fault string) (lift func()) {
	t.Helper()
	where := &p.wires
	if p.proxy == nil {
		where = &p.gate.weather
	}
	w := &weather{}
	switch fault {
	case "locked":
		return p.lock(ctx, t)
	case "hung":
		w.clears = make(chan struct{})
	case "refusing":
		w.refusing = true
	}
	where.Store(w)
	if w.refusing && p.proxy != nil {
		p.proxy.Drop()
	}
	lift = sync.OnceFunc(func() {
		where.Store(&weather{})
		if w.clears != nil {
			close(w.clears)
		}
	})
	t.Cleanup(lift) // a test that fails must not hang
	return lift
}

// lock has a stranger lock the row of the first bucket.
func (p *place) lock(ctx context.Context, t *testing.T) (release func()) {
	t.Helper()
	b := p.gate.first.Load()
	if b == nil {
		t.Fatal("no client has come to the store")
	}
	// The row may not exist yet.
	if _, err := p.gate.Store.Fill(ctx, store.Op{Bucket: *b, Amount: 1}); err != nil {
		t.Fatal(err)
	}
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = tx.Rollback(context.Background()) } // a second one does nothing
	t.Cleanup(release)
	tag, err := tx.Exec(ctx, "SELECT FROM "+pgx.Identifier{p.schema, "buckets"}.Sanitize()+" WHERE key = $1 FOR UPDATE", b.Key)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("locking a row: %v, %v", tag, err)
	}
	return release
}
