package lin

import (
	"context"
	"database/sql"
	"encoding/gob"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/lab/internal/child"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/spend/sqliteledger"
	"github.com/brimgo/brim/sqlite"
	"github.com/brimgo/brim/store"
)

// Setting is the store that a child opens.
type Setting struct {
	Path      string
	Now       int64 // of the history's clock
	Segment   int64 // of a store's journal; 0 if it has none
	SyncEvery time.Duration
	Defect    history.Defect
	Buckets   []store.Bucket
	Budget    *budget // of a ledger, in the place of buckets
	SQLite    bool    // the file is a database of SQLite

	// Of a store in PostgreSQL, in the place of a file:
	URL, Schema string
	Timeout     time.Duration
	Lease       bool // the client spends from leases
	Lazy        bool // the clock of the leases stops with the process: a defect
}

// Order is a call for the child to carry out.
type Order struct {
	In       request
	Patience time.Duration
}

// Reply is the child's answer to a call.
type Reply struct{ Out response }

// server is the work of a child.
type server struct {
	Setting
	callee
	now atomic.Int64
}

// works are the works of this package's children.
func works() map[string]io.Closer {
	for _, sent := range []any{storeRequest{}, storeResponse{}, spendRequest{}, spendAnswer{}} {
		gob.Register(sent)
	}
	return map[string]io.Closer{"lin": &server{}}
}

// Open opens the store.
func (v *server) Open(setting Setting, _ *struct{}) error {
	v.Setting = setting
	v.bucket = func(k int) store.Bucket { return v.Buckets[k] }
	v.now.Store(v.Now)
	clock := func() time.Time { return time.UnixMicro(v.now.Load()) }
	o := &bolt.Options{Clock: clock, SyncEvery: v.SyncEvery, NoJournal: v.Segment == 0}
	v.Defect.Install()
	if v.Segment > 0 {
		kv.DefaultSegment = v.Segment
	}
	switch {
	case v.URL != "":
		return v.connect()
	case v.SQLite:
		return v.database(clock)
	}
	s, err := bolt.Open(v.Path, o)
	if err != nil {
		return err
	}
	v.stores = []store.Store{v.Defect.Wrap(s)}
	if v.Budget == nil {
		return nil
	}
	l, err := boltledger.New(s, &boltledger.Options{Clock: clock})
	if err != nil {
		return err
	}
	v.spends, err = v.Budget.over(context.Background(), l)
	return err
}

func (v *server) Close() error { return v.stores[0].Close() }

// Tick sets the clock.
func (v *server) Tick(now int64, _ *struct{}) error {
	v.now.Store(now)
	return nil
}

// Do carries out a call.
func (v *server) Do(o Order, r *Reply) error {
	ctx := context.Background()
	if o.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Patience)
		defer cancel()
	}
	r.Out = v.do(ctx, 0, o.In)
	return nil
}

// connect opens a store or a ledger in PostgreSQL. Its connections end with the process.
func (v *server) connect() error {
	pool, err := pgxpool.New(context.Background(), v.URL)
	if err != nil {
		return err
	}
	s, err := postgres.New(pool, &postgres.Options{Schema: v.Schema, StatementTimeout: v.Timeout})
	if err != nil {
		return err
	}
	v.stores = []store.Store{s}
	if v.Lease {
		o := &local.LeasesOptions{Share: 0.9, Ahead: 500 * time.Millisecond}
		if v.Lazy {
			o.Clock = lazyClock()
		}
		v.stores[0], err = local.Leases(s, o)
		return err
	}
	if v.Budget == nil {
		return nil
	}
	l, err := pgledger.New(s, nil)
	if err != nil {
		return err
	}
	v.spends, err = v.Budget.over(context.Background(), l)
	return err
}

// database opens a store or a ledger in a database of SQLite.
func (v *server) database(clock func() time.Time) error {
	db, err := sql.Open("sqlite", "file:"+v.Path+"?_pragma=journal_mode(WAL)")
	if err != nil {
		return err
	}
	s, err := sqlite.New(context.Background(), db, &sqlite.Options{Clock: clock})
	if err != nil {
		return err
	}
	v.stores = []store.Store{s}
	if v.Budget == nil {
		return nil
	}
	l, err := sqliteledger.New(context.Background(), s, &sqliteledger.Options{Clock: clock})
	if err != nil {
		return err
	}
	v.spends, err = v.Budget.over(context.Background(), l)
	return err
}

// lazyClock returns a clock that stops with the process.
func lazyClock() func() time.Time {
	var mu sync.Mutex
	last := time.Now()
	shown := last
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		shown = shown.Add(min(now.Sub(last), 20*time.Millisecond))
		last = now
		return shown
	}
}

// ask has a child carry out a call. The outcome is unknown if the process ends without a reply.
func ask(p *child.Process, in request, patience time.Duration) response {
	var r Reply
	if err := p.Call("Do", &Order{In: in, Patience: patience}, &r); err != nil {
		return done(history.Unknown)
	}
	return r.Out
}
