package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/lab/internal/child"
	"github.com/brimgo/brim/lab/internal/windows"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
)

const leaseProcesses, leaseCallers = 2, 64 // callers in each process

// leaseRuns are the buckets under leases. All callers of all processes ask one for one unit after
// the other.
var leaseRuns = []struct {
	name   string
	limit  brim.Limit
	direct bool // without leases, for comparison
}{
	{"room for all, leases", brim.Limit{Capacity: 1e9, LeakRate: 1e8}, false},
	{"room for all, direct", brim.Limit{Capacity: 1e9, LeakRate: 1e8}, true},
	// The bucket leaks less than the callers ask for, and more than they get by single fills.
	// Single fills and leases mix here. The bound must hold while both processes press against it.
	{"leaks 200,000/s, leases", brim.Limit{Capacity: 1e5, LeakRate: 2e5}, false},
	{"leaks 20,000/s, leases", brim.Limit{Capacity: 1e5, LeakRate: 2e4}, false}, // the store refuses most calls
}

// Order is the task of a process that fills a bucket. The slots count from Begin. All processes and
// the servers read the clock of this machine.
type Order struct {
	Key    string
	Limit  brim.Limit
	Direct bool
	Begin  time.Time
	For    time.Duration
}

// Outcome is the figures of a process.
type Outcome struct {
	Admitted  windows.Admitted
	Refused   uint64
	Estimates uint64        // admitted or refused units that were decided from a lease
	Elapsed   time.Duration // from Begin to the last answer
}

// leases has processes fill a bucket through local.Leases, and checks that no window admits more
// than the bucket does.
func (b *bench) leases(ctx context.Context) error {
	for _, server := range []string{postgresServer, redisEverysec} {
		if err := b.start(ctx, server); err != nil {
			return err
		}
		var url string
		if server == postgresServer {
			url = b.pg.URL()
		} else {
			url = "redis://" + b.redis[server].each[0].Options().Addr
		}
		if err := b.leasesOver(ctx, server, url); err != nil {
			return fmt.Errorf("%s: %w", server, err)
		}
	}
	return nil
}

func (b *bench) leasesOver(ctx context.Context, server, url string) (err error) {
	var all []*child.Process
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.Close())
		}
	}()
	for range leaseProcesses {
		c, err := child.Start("leases", url)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	workload := fmt.Sprintf("one bucket, %d processes of %d callers, %s", leaseProcesses, leaseCallers, server)
	b.say("leases: %s", workload)
	var trials []contestant
	buckets := 0
	for _, l := range leaseRuns {
		trials = append(trials, contestant{b.new(workload, l.name, ours, ""), func(_ context.Context, d time.Duration, to *row) error {
			buckets++
			o := Order{fmt.Sprint("hot ", buckets), l.limit, l.direct, time.Now().Add(200 * time.Millisecond), d}
			return b.leaseTrial(o, all, to)
		}})
	}
	return b.contest(ctx, trials)
}

// leaseTrial has processes carry out an order.
func (b *bench) leaseTrial(o Order, all []*child.Process, to *row) error {
	found := make([]Outcome, len(all))
	if err := forEach(len(all), len(all), func(i int) error { return all[i].Call("Fill", &o, &found[i]) }); err != nil {
		return err
	}
	sum := Outcome{Admitted: windows.Admitted{}}
	for _, one := range found {
		sum.Admitted.Add(one.Admitted)
		sum.Refused += one.Refused
		sum.Estimates += one.Estimates
		sum.Elapsed = max(sum.Elapsed, one.Elapsed)
	}
	closest, err := sum.Admitted.Within(o.Limit)
	if err != nil {
		return err
	}
	let := sum.Admitted.Total()
	calls := float64(max(1, let+sum.Refused))
	to.add(rateFigure, calls/sum.Elapsed.Seconds())
	to.add("accepted %", 100*float64(let)/calls)
	to.add("from leases %", 100*float64(sum.Estimates)/calls)
	b.bound(to, "admitted / bound, in the window that comes closest", closest, 1)
	return nil
}

// bound adds a figure that must not be above a bound, which a slow machine keeps, too.
func (b *bench) bound(r *row, name string, v, most float64) {
	r.add(name, v)
	if v > most {
		b.Broken = append(b.Broken, fmt.Sprintf("%s: %s: %s is %v, and must be at most %v", r.Workload, r.Subject, name, v, most))
	}
}

// leaseWork fills a bucket in a store, and through leases.
type leaseWork struct {
	s, leased store.Store
	end       func() error
}

// Open connects to the server at a URL.
func (w *leaseWork) Open(url string, _ *struct{}) (err error) {
	if addr, ok := strings.CutPrefix(url, "redis://"); ok {
		client := connectRedis(addr)
		w.end = client.Close
		w.s, err = redisstore.New(client, nil)
	} else {
		var pool *pgxpool.Pool
		if pool, err = pgxpool.New(context.Background(), url); err == nil {
			w.end = func() error { pool.Close(); return nil }
			w.s, err = postgres.New(pool, nil)
		}
	}
	if err == nil {
		w.leased, err = local.Leases(w.s, nil)
	}
	return err
}

func (w *leaseWork) Close() error { return errors.Join(w.leased.Close(), w.end()) }

// Fill lets all callers ask for one unit after the other until the time is up.
func (w *leaseWork) Fill(o Order, found *Outcome) error {
	lim := brim.New(w.leased, nil)
	if o.Direct {
		lim = brim.New(w.s, nil)
	}
	begin := time.Now().Add(time.Until(o.Begin)) // with a reading of the monotonic clock
	found.Admitted = windows.Admitted{}
	var mu sync.Mutex
	time.Sleep(time.Until(begin))
	err := forEach(leaseCallers, leaseCallers, func(int) error {
		// Each caller has counters of its own, because shared counters would slow the callers down.
		c := caller{lim: lim, bucket: o.Limit.For(o.Key), begin: begin, admitted: windows.Admitted{}}
		err := c.work(o.For)
		mu.Lock()
		defer mu.Unlock()
		found.Refused += c.refused
		found.Estimates += c.estimates
		found.Admitted.Add(c.admitted)
		return err
	})
	found.Elapsed = time.Since(begin)
	return err
}

// caller is one caller with its counters.
type caller struct {
	lim                *brim.Limiter
	bucket             brim.Bucket
	begin              time.Time
	admitted           windows.Admitted
	refused, estimates uint64
}

// burst is the largest number of calls between two readings of the clock. A reading takes a good
// part of the time of a call that is served from memory.
const burst = 16

func (c *caller) work(length time.Duration) error {
	ctx := context.Background()
	for before := time.Since(c.begin); before < length; {
		units := uint64(0)
		for range burst {
			st, err := c.lim.TryFillup(ctx, c.bucket, 1)
			if err != nil {
				return err
			}
			if st.Accepted {
				units++
			} else {
				c.refused++
			}
			if !st.Estimate {
				break // it has asked the store, and took longer than all calls from memory
			}
			c.estimates++
		}
		after := time.Since(c.begin)
		if units > 0 {
			c.admitted.Note(before, after, units)
		}
		before = after
	}
	return nil
}

const (
	arrivals = 20_000 // calls per second
	// openCallers is the largest number of calls under way in an open loop. It is so large that few
	// calls wait for a caller.
	openCallers = 1024
	refusalKeys = 1_000
	// mostAsked bounds the round trips per decision. A fill is two statements in one trip. Each
	// accepted call reaches the store, 0.05 of all, and few others do. On a fast machine each takes
	// a trip alone, and on a slow one calls share a trip.
	mostAsked = 0.06
)

// refusalLimit admits one in twenty of the calls that arrive at a key whose bucket is full.
var refusalLimit = brim.Limit{Capacity: 10, LeakRate: float64(arrivals) / refusalKeys / 20}

// trips counts the queries and batches that pgx sends to the server.
type trips struct{ n atomic.Int64 }

func (t *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.n.Add(1)
	return ctx
}
func (t *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (t *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	t.n.Add(1)
	return ctx
}

func (t *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (t *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// refusals lets calls arrive at a fixed rate at buckets that are full, through local.Refusals. It
// checks that few of them reach the server, and that no bucket admits more than its limit.
func (b *bench) refusals(ctx context.Context) (err error) {
	if err := b.start(ctx, postgresServer); err != nil {
		return err
	}
	cfg := b.pool.Config()
	var sent trips
	cfg.ConnConfig.Tracer = &sent
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	db, err := postgres.New(pool, nil)
	if err != nil {
		return err
	}
	s, err := local.Refusals(db, nil)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	lim := brim.New(s, nil)
	// Each bucket has room for a unit within the time in which a unit leaks, but not all of them at
	// the same moment.
	r := rand.New(rand.NewPCG(4, 5))
	buckets, room := make([]brim.Bucket, refusalKeys), make([]float64, refusalKeys)
	var fills []brim.Fill
	for i := range buckets {
		buckets[i], room[i] = refusalLimit.For(fmt.Sprintf("refused:%d", i)), r.Float64()
		fills = append(fills, brim.Fill{Bucket: buckets[i], Amount: refusalLimit.Capacity - room[i]})
	}
	since := time.Now()
	states, err := brim.New(db, nil).TryFillupAll(ctx, fills...)
	if err == nil && !states[0].Accepted {
		err = errors.New("the buckets existed already")
	}
	if err != nil {
		return err
	}
	order, err := load.Draw("uniform", refusalKeys, 1, 0, 4)
	if err != nil {
		return err
	}
	let := make([]atomic.Int64, refusalKeys)
	var estimates atomic.Int64
	// The first call on each bucket tells the wrapper its level.
	for _, bucket := range buckets {
		if _, err := lim.TryFillup(ctx, bucket, 1); err != nil {
			return err
		}
	}
	before := sent.n.Load()
	res, err := load.RunOpen(ctx, load.Options{
		Callers: openCallers, For: b.length, Order: order,
		Decide: func(ctx context.Context, key int, _ bool) (bool, error) {
			st, err := lim.TryFillup(ctx, buckets[key], 1)
			if st.Accepted {
				let[key].Add(1)
			}
			if st.Estimate {
				estimates.Add(1)
			}
			return st.Accepted, err
		},
	}, arrivals)
	if err != nil {
		return err
	}
	leaked := refusalLimit.LeakRate * time.Since(since).Seconds() // at most
	most := 0.0
	for i := range let {
		most = max(most, float64(let[i].Load())/(room[i]+leaked))
	}
	n := float64(res.Accepted + res.Refused)
	to := b.new(fmt.Sprintf("%d calls/s over %d keys", arrivals, refusalKeys), "brim refusals over postgres", ours, "")
	to.add(rateFigure, res.PerSecond())
	to.add("refused %", 100*float64(res.Refused)/n)
	to.add("from memory %", 100*float64(estimates.Load())/n)
	b.bound(to, "round trips / decisions", float64(sent.n.Load()-before)/n, mostAsked)
	b.bound(to, "admitted / room and leak, of the key that comes closest", most, 1)
	to.add("p50 ms", res.Took.Quantile(0.5))
	to.add(p99Figure, res.Took.Quantile(0.99))
	return nil
}
