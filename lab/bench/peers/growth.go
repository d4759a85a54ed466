package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/lab/bench/internal/redises"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
)

// grown is the figures of a store with a number of buckets.
type grown struct {
	Backend string    `json:"backend"`
	Buckets int       `json:"buckets"`
	Bytes   float64   `json:"bytes_per_bucket"`  // of the file, of table and index, or of memory without the keys
	Open    float64   `json:"open_ms,omitempty"` // time until the first answer
	Scan    float64   `json:"scan_ms"`           // time in which every bucket is visited
	Prune   float64   `json:"prune_ms"`          // time of a pass that finds no expired bucket
	Rates   []float64 `json:"decisions_per_second"`

	store store.Store
	names []string
	close func() error
}

// Growth is judged by the figures at these two numbers of buckets.
const growthFrom, growthTo = 10_000, 1_000_000

// grower opens a backend with n buckets, and measures the space of the buckets.
type grower struct {
	backend string
	// memory is about the number of bytes that a bucket takes while it is measured: in the server,
	// in the store and in this process, which keeps its name.
	memory uint64
	grow   func(ctx context.Context, e *env, n int) (*grown, error)
}

var growers = []grower{
	{memoryName, 250, growMemory},
	{boltName, 400, growBolt},
	{postgresName, 100, growPostgres}, // the table stands on the disk
	{redisEverysecName, 350, growRedis},
}

// runGrowth measures each backend with numbers of buckets that are ten times apart, in turn. It
// returns the figures that it has, also with an error, and the sizes that it had to leave out.
func (e *env) runGrowth(ctx context.Context, p plan, wanted func(name string) bool,
) (all []*grown, left []string, err error) {
	for _, g := range growers {
		if !wanted(g.backend) {
			continue
		}
		sizes, why, err := e.growBackend(ctx, p, g)
		all = append(all, sizes...)
		if err != nil {
			return all, left, fmt.Errorf("growth: %s: %w", g.backend, err)
		}
		if why != "" {
			left = append(left, why)
		}
	}
	return all, left, nil
}

// growBackend measures a backend with each number of buckets for which the memory suffices. left
// says why it left out the others, and is "" otherwise.
func (e *env) growBackend(ctx context.Context, p plan, g grower) (sizes []*grown, left string, err error) {
	defer func() {
		for _, s := range sizes {
			err = errors.Join(err, s.close())
			s.store, s.names, s.close = nil, nil, nil
		}
	}()
	for n := 1000; n <= p.Largest; n *= 10 {
		if left = short(g.backend, n, uint64(n)*g.memory, e.available); left != "" {
			e.say("growth: SKIPPED: %s", left)
			break
		}
		e.say("growth: %s, creating %d buckets", g.backend, n)
		s, err := g.grow(ctx, e, n)
		if err != nil {
			return sizes, "", err
		}
		s.Backend, s.Buckets = g.backend, n
		if err := s.passes(ctx); err != nil {
			return sizes, "", errors.Join(err, s.close())
		}
		sizes = append(sizes, s)
		e.say("growth: %s, %d buckets: %.0f bytes each, scan %.1f ms, prune %.1f ms", g.backend, n, s.Bytes, s.Scan, s.Prune)
	}
	e.say("growth: %s, decisions", g.backend)
	return sizes, left, grownInTurn(ctx, p, sizes)
}

// short returns "" if the memory that is available suffices for n buckets, or if nobody can tell.
// Otherwise it returns the reason to leave them out.
func short(backend string, n int, needed uint64, available func() (uint64, bool)) string {
	free, known := available()
	if !known || needed <= free {
		return ""
	}
	const gigabyte = 1e9
	return fmt.Sprintf("%s with %d buckets needs about %.1f GB of memory, and %.1f GB are available",
		backend, n, float64(needed)/gigabyte, float64(free)/gigabyte)
}

// availableMemory returns the number of bytes that programs can still take without swapping. ok is
// false if the system does not tell.
func availableMemory() (bytes uint64, ok bool) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	return parseAvailable(string(b))
}

// parseAvailable reads the available memory from the text of Linux's /proc/meminfo.
func parseAvailable(meminfo string) (bytes uint64, ok bool) {
	for line := range strings.Lines(meminfo) {
		var kilobytes uint64
		if n, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kilobytes); err == nil && n == 1 {
			return kilobytes << 10, true
		}
	}
	return 0, false
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
			if s.Backend == memoryName {
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

// passes measures the passes over all buckets: one that visits each of them, and one that looks for
// expired ones and finds none.
func (g *grown) passes(ctx context.Context) error {
	start := time.Now()
	visited := 0
	err := g.store.Visit(ctx, "", func(store.Entry) bool { visited++; return true })
	g.Scan = time.Since(start).Seconds() * 1e3
	if err != nil {
		return err
	}
	if visited != g.Buckets {
		return fmt.Errorf("%d buckets were visited; there are %d", visited, g.Buckets)
	}
	start = time.Now()
	n, err := g.store.Prune(ctx)
	g.Prune = time.Since(start).Seconds() * 1e3
	if err == nil && n != 0 {
		err = fmt.Errorf("%d buckets were pruned; none has expired", n)
	}
	return err
}

// create fills the buckets of a store, and reports progress.
func (e *env) create(ctx context.Context, s store.Store, limit store.Limit, names []string) error {
	const part = 1_000_000
	for first := 0; first < len(names); first += part {
		if first > 0 {
			e.say("growth: %d of %d buckets", first, len(names))
		}
		if err := prefill(ctx, s, limit, names[first:min(len(names), first+part)]); err != nil {
			return err
		}
	}
	return nil
}

// shuffled returns n names in random order, because buckets are seldom created in the order of
// their keys.
func shuffled(n int) []string {
	all := names("tenant:%d", n)
	rand.New(rand.NewPCG(4, 4)).Shuffle(n, func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

func growMemory(ctx context.Context, e *env, n int) (*grown, error) {
	bytes, err := memoryPerBucket(ctx, n)
	if err != nil {
		return nil, err
	}
	s, err := memory.New(nil)
	if err != nil {
		return nil, err
	}
	g := &grown{Bytes: bytes, store: s, names: shuffled(n), close: s.Close}
	if err := e.create(ctx, s, roomyNever, g.names); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return g, nil
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
	return g, nil
}

// growRedis starts a server for the buckets alone, so that a pass meets no other keys. It names the
// buckets so that the keys of the server have 15 bytes. The buckets expire, but not during the run.
func growRedis(ctx context.Context, e *env, n int) (_ *grown, err error) {
	r, err := redises.Start(ctx, false, connections, redisConf[redisEverysec]...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	g := &grown{names: names("tenant%07d", n)}
	options := redisstore.Options{Prefix: "b:"}
	filler, err := redisstore.New(r.Client, &options)
	if err != nil {
		return nil, err
	}
	before, err := r.Memory(ctx)
	if err == nil {
		err = e.create(ctx, filler, store.Limit{Capacity: roomy, LeakRate: 1e-6}, g.names)
	}
	if err := errors.Join(err, filler.Close()); err != nil {
		return nil, err
	}
	after, err := r.Memory(ctx)
	if err != nil {
		return nil, err
	}
	g.Bytes = (after - before) / float64(n)
	start := time.Now()
	client := redises.Connect(r.Each[0].Options().Addr, connections)
	if g.store, err = redisstore.New(client, &options); err == nil {
		_, err = g.store.Read(ctx, roomyNever.For(g.names[0]))
	}
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	g.close = func() error { return errors.Join(g.store.Close(), client.Close(), r.Close()) }
	g.Open = time.Since(start).Seconds() * 1e3
	return g, nil
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
	if err := errors.Join(e.create(ctx, filler, roomyNever, g.names), filler.Close()); err != nil {
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
	return g, nil
}
