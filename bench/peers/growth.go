package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// grown is the figures of a store with a number of buckets.
type grown struct {
	Backend string    `json:"backend"`
	Buckets int       `json:"buckets"`
	Bytes   float64   `json:"bytes_per_bucket"`  // of the file, of table and index, or of memory without the keys
	Open    float64   `json:"open_ms,omitempty"` // time until the first answer
	Prune   float64   `json:"prune_ms"`          // time of a pass that finds no expired bucket
	Rates   []float64 `json:"decisions_per_second"`

	store store.Store
	names []string
	close func() error
}

// Growth is judged by the figures at these two numbers of buckets.
const growthFrom, growthTo = 10_000, 1_000_000

// growers open a backend with n buckets, and measure the space of the buckets.
var growers = []struct {
	backend string
	grow    func(ctx context.Context, e *env, n int) (*grown, error)
}{
	{"brim memory", growMemory}, {"brim bolt", growBolt}, {"brim postgres", growPostgres},
}

// runGrowth measures each backend with numbers of buckets that are ten times apart, in turn.
func (e *env) runGrowth(ctx context.Context, p plan, wanted func(name string) bool) ([]*grown, error) {
	var all []*grown
	for _, g := range growers {
		if !wanted(g.backend) {
			continue
		}
		var sizes []*grown
		var err error
		for n := 1000; n <= p.Largest && err == nil; n *= 10 {
			var s *grown
			if s, err = g.grow(ctx, e, n); err == nil {
				s.Backend, s.Buckets = g.backend, n
				sizes = append(sizes, s)
				e.say("growth: %s with %d buckets, %.0f bytes each", g.backend, n, s.Bytes)
			}
		}
		if err == nil {
			err = grownInTurn(ctx, p, sizes)
		}
		for _, s := range sizes {
			err = errors.Join(err, s.close())
			s.store, s.names, s.close = nil, nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("growth: %s: %w", g.backend, err)
		}
		all = append(all, sizes...)
	}
	return all, nil
}

func grownInTurn(ctx context.Context, p plan, sizes []*grown) error {
	orders := make([]load.Order, len(sizes))
	for i, s := range sizes {
		var err error
		if orders[i], err = load.Draw("uniform", s.Buckets, 1, 0, 3); err != nil {
			return err
		}
	}
	for round := range p.Rounds + 1 {
		for i, s := range sizes {
			o := load.Options{Callers: 64, For: p.Slice, Order: orders[i]}
			if s.Backend == "brim memory" {
				o.Callers, o.Burst = runtime.GOMAXPROCS(0), p.memoryWork
			}
			o.Decide = func(ctx context.Context, key int, _ bool) (bool, error) {
				st, err := s.store.Fill(ctx, store.Op{Bucket: roomyNever.For(s.names[key]), Amount: 1})
				return st.Accepted, err
			}
			res, err := load.Run(ctx, o)
			if err != nil {
				return err
			}
			if round > 0 { // the first round warms up
				s.Rates = append(s.Rates, res.PerSecond())
			}
		}
	}
	return nil
}

// pruned measures the time of a pass over buckets of which none has expired.
func (g *grown) pruned(ctx context.Context) error {
	start := time.Now()
	n, err := g.store.Prune(ctx)
	g.Prune = time.Since(start).Seconds() * 1e3
	if err == nil && n != 0 {
		err = fmt.Errorf("%d buckets were pruned; none has expired", n)
	}
	return err
}

// shuffled returns n names in random order, because buckets are seldom created in the order of
// their keys.
func shuffled(n int) []string {
	all := names("tenant:%d", n)
	rand.New(rand.NewPCG(4, 4)).Shuffle(n, func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

func growMemory(ctx context.Context, _ *env, n int) (*grown, error) {
	bytes, err := memoryPerBucket(ctx, n)
	if err != nil {
		return nil, err
	}
	s, err := memory.New(nil)
	if err != nil {
		return nil, err
	}
	g := &grown{Bytes: bytes, store: s, names: shuffled(n), close: s.Close}
	if err := prefill(ctx, s, roomyNever, g.names); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return g, g.pruned(ctx)
}

// memoryPerBucket returns the bytes that a bucket takes in memory, without its key. The keys are
// too long to stand within the entry of a bucket, so their bytes can be subtracted.
func memoryPerBucket(ctx context.Context, n int) (bytes float64, err error) {
	s, err := memory.New(nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	before := inUse()
	keyBytes := 0
	for i := range n {
		key := fmt.Sprintf("account:%032d", i) // the store alone refers to it
		keyBytes += len(key)
		if _, err := s.Fill(ctx, store.Op{Bucket: roomyNever.For(key), Amount: 1}); err != nil {
			return 0, err
		}
	}
	return float64(inUse()-before-int64(keyBytes)) / float64(n), nil
}

// roomyNever is a limit under which nothing expires.
var roomyNever = store.Limit{Capacity: roomy}

// inUse returns the bytes of the heap that are in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func growBolt(ctx context.Context, e *env, n int) (*grown, error) {
	const commit = 4096 // buckets per transaction
	path := filepath.Join(e.dir, fmt.Sprintf("grown-%d.db", n))
	s, err := bolt.Open(path, nil)
	if err != nil {
		return nil, err
	}
	g := &grown{names: shuffled(n)}
	for first := 0; first < n && err == nil; first += commit {
		txns := make([]store.Txn, 0, commit)
		for _, name := range g.names[first:min(n, first+commit)] {
			txns = append(txns, store.Txn{{Bucket: roomyNever.For(name), Amount: 1}})
		}
		_, err = s.Apply(ctx, txns...)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	g.Bytes = float64(info.Size()) / float64(n)
	start := time.Now()
	if s, err = bolt.Open(path, nil); err != nil {
		return nil, err
	}
	g.store, g.close = s, s.Close
	if _, err := s.Read(ctx, roomyNever.For(g.names[0])); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	g.Open = time.Since(start).Seconds() * 1e3
	return g, g.pruned(ctx)
}

func growPostgres(ctx context.Context, e *env, n int) (*grown, error) {
	schema := fmt.Sprintf("grown_%d", n)
	if err := e.migrate(ctx, schema); err != nil {
		return nil, err
	}
	g := &grown{names: shuffled(n)}
	filler, err := postgres.New(e.pool, &postgres.Options{Schema: schema})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(prefill(ctx, filler, roomyNever, g.names), filler.Close()); err != nil {
		return nil, err
	}
	var size int64
	if err := e.pool.QueryRow(ctx, `SELECT pg_total_relation_size('`+schema+`.buckets')`).Scan(&size); err != nil {
		return nil, err
	}
	if _, err := e.pool.Exec(ctx, `VACUUM ANALYZE `+schema+`.buckets`); err != nil {
		return nil, err
	}
	g.Bytes = float64(size) / float64(n)
	start := time.Now()
	pool, err := e.connect(ctx, connections, "")
	if err != nil {
		return nil, err
	}
	s, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		pool.Close()
		return nil, err
	}
	g.store, g.close = s, func() error {
		defer pool.Close()
		return s.Close()
	}
	if _, err := s.Read(ctx, roomyNever.For(g.names[0])); err != nil {
		return nil, errors.Join(err, g.close())
	}
	g.Open = time.Since(start).Seconds() * 1e3
	return g, g.pruned(ctx)
}
