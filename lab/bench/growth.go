package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
)

// place is where the buckets of a store are.
type place struct {
	open func(ctx context.Context) (s store.Store, end func() error, err error)
	// size returns the bytes that the place takes. They are those of the buckets, and of as much
	// else before the buckets are created as afterwards.
	size  func(ctx context.Context) (float64, error)
	stays bool         // cannot be opened anew
	close func() error // nil if nothing is to be closed
}

// places return an empty place for n buckets. Each has connections and a server, a schema or a file
// of its own.
var places = []struct {
	name string
	new  func(ctx context.Context, e *env, n int) (*place, error)
}{
	{memoryName, memoryPlace}, {boltName, boltPlace}, {"brim postgres", postgresPlace}, {"brim redis, AOF everysec", redisPlace},
}

// growing is the limit of the buckets. They expire, but not during the run.
var growing = brim.Limit{Capacity: roomy, LeakRate: 1e-6}

// growth measures each backend with numbers of buckets that are ten times apart.
func (b *bench) growth(ctx context.Context) error {
	largest := 1_000_000
	if b.Quick {
		largest = 100_000
	}
	if b.large {
		largest = 10_000_000
	}
	for _, p := range places {
		if slices.ContainsFunc(b.chosen, func(s *subject) bool { return s.name == p.name }) {
			if err := b.grow(ctx, p.name, p.new, largest); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

// grow measures one backend.
func (b *bench) grow(ctx context.Context, name string, newPlace func(context.Context, *env, int) (*place, error), largest int) (err error) {
	var trials []contestant
	for n := 1000; n <= largest; n *= 10 {
		b.say("growth: %s, creating %d buckets", name, n)
		p, err := newPlace(ctx, b.env, n)
		if err != nil {
			return err
		}
		if p.close != nil {
			defer func() { err = errors.Join(err, p.close()) }()
		}
		to := b.new(name, fmt.Sprintf("%d buckets", n), ours, "10000 buckets")
		s, keys, closeStore, err := p.create(ctx, to, n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeStore()) }()
		order, err := load.Draw("uniform", n, 1, 0, 3)
		if err != nil {
			return err
		}
		w := work{strict: true, Options: load.Options{
			Callers: 64, Order: order,
			Decide: func(ctx context.Context, key int, _ bool) (bool, error) {
				st, err := s.Fill(ctx, store.Op{Bucket: growing.For(keys[key]), Amount: 1})
				return st.Accepted, err
			},
		}}
		if name == memoryName {
			w.Callers, w.Burst = runtime.GOMAXPROCS(0), inMemoryBurst
		}
		trials = append(trials, contestant{to, w.trial})
	}
	return b.contest(ctx, trials)
}

// create fills n buckets, and measures their bytes, the time until the first answer of a store
// that is opened anew, a pass that visits every bucket, and one that looks for expired ones and
// finds none.
func (p *place) create(ctx context.Context, to *row, n int) (s store.Store, keys []string, closeStore func() error, err error) {
	timed := func(name string, do func() error) error {
		start := time.Now()
		err := do()
		to.add(name, time.Since(start).Seconds()*1e3)
		return err
	}
	keys = names("tenant%07d", n)
	// Buckets are seldom created in the order of their keys.
	rand.New(rand.NewPCG(4, 4)).Shuffle(n, func(i, k int) { keys[i], keys[k] = keys[k], keys[i] })
	if s, closeStore, err = p.open(ctx); err != nil {
		return nil, nil, nil, err
	}
	before, err := p.size(ctx)
	if err == nil {
		err = forEach(256, n, func(i int) error {
			_, err := s.Fill(ctx, store.Op{Bucket: growing.For(keys[i]), Amount: 1})
			return err
		})
	}
	if !p.stays && err == nil {
		if err = closeStore(); err == nil {
			err = timed("open ms", func() error {
				if s, closeStore, err = p.open(ctx); err != nil {
					return err
				}
				_, err := s.Read(ctx, growing.For(keys[0]))
				return err
			})
		}
	}
	if err != nil {
		return nil, nil, nil, err
	}
	after, err := p.size(ctx)
	if err != nil {
		return nil, nil, nil, errors.Join(err, closeStore())
	}
	to.add("bytes per bucket", (after-before)/float64(n))
	visited, pruned := 0, int64(0)
	err = errors.Join(
		timed("scan ms", func() error { return s.Visit(ctx, "", func(store.Entry) bool { visited++; return true }) }),
		timed("prune ms", func() (err error) { pruned, err = s.Prune(ctx); return err }))
	if err == nil && (visited != n || pruned != 0) {
		err = fmt.Errorf("%d of %d buckets were visited, and %d pruned; none has expired", visited, n, pruned)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, closeStore())
	}
	return s, keys, closeStore, nil
}

func memoryPlace(context.Context, *env, int) (*place, error) {
	return &place{
		open: func(context.Context) (store.Store, func() error, error) {
			s := memory.New(nil)
			return s, s.Close, nil
		},
		size: func(context.Context) (float64, error) { // of the heap that is in use
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return float64(m.HeapAlloc), nil
		},
		stays: true,
	}, nil
}

func boltPlace(_ context.Context, e *env, n int) (*place, error) {
	path := filepath.Join(e.dir, fmt.Sprintf("grown-%d.db", n))
	return &place{
		open: func(context.Context) (store.Store, func() error, error) {
			s, err := bolt.Open(path, nil)
			if err != nil {
				return nil, nil, err
			}
			return s, s.Close, nil
		},
		size: func(context.Context) (float64, error) {
			info, err := os.Stat(path)
			if err != nil {
				return 0, err
			}
			return float64(info.Size()), nil
		},
	}, nil
}

func postgresPlace(ctx context.Context, e *env, n int) (*place, error) {
	if err := e.start(ctx, postgresServer); err != nil {
		return nil, err
	}
	schema := fmt.Sprintf("grown_%d", n)
	return &place{
		open: func(ctx context.Context) (store.Store, func() error, error) {
			pool, err := e.connect(ctx, connections, "on")
			if err != nil {
				return nil, nil, err
			}
			s, err := postgres.New(pool, &postgres.Options{Schema: schema})
			return s, func() error {
				defer pool.Close()
				return errors.Join(s.Close(), execute(context.WithoutCancel(ctx), e.pool, `VACUUM ANALYZE `+schema+`.buckets`))
			}, err
		},
		size: func(ctx context.Context) (n float64, err error) {
			err = e.pool.QueryRow(ctx, `SELECT pg_total_relation_size('`+schema+`.buckets')::float8`).Scan(&n)
			return n, err
		},
	}, migrations.Up(ctx, e.pool, &migrations.Options{Schema: schema})
}

func redisPlace(ctx context.Context, _ *env, _ int) (*place, error) {
	r, err := startRedis(ctx, false, redisConf[redisEverysec]...)
	if err != nil {
		return nil, err
	}
	return &place{
		open: func(context.Context) (store.Store, func() error, error) {
			client := connectRedis(r.each[0].Options().Addr)
			s, err := redisstore.New(client, &redisstore.Options{Prefix: "b:"})
			return s, func() error { return errors.Join(s.Close(), client.Close()) }, err
		},
		size: func(ctx context.Context) (float64, error) {
			used, err := r.sum(usedMemory)(ctx)
			if err != nil {
				return 0, err
			}
			buffers, err := r.sum(clientMemory, aofMemory)(ctx)
			return used - buffers, err
		},
		close: r.close,
	}, nil
}
