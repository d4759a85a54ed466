package lin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/proxy"
	"github.com/brimgo/brim/lab/internal/serverload"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
)

// keyspace is a Redis. Histories use it at the same time, each with a prefix of its own.
type keyspace struct {
	direct *redis.Client // whose connections nothing cuts
	used   atomic.Int64  // names so far
}

// reached is a store in Redis, reached through a proxy that cuts connections.
type reached struct {
	*keyspace
	name   string // of the connections, and a prefix of keys
	m      model
	clk    *clock // nil if the server's clock decides
	proxy  *proxy.Proxy
	dialed *serverload.Dialed
	own    []*redis.Client
	below  []store.Store // on own
	stores []store.Store // clients take turns
	after  store.Store   // on direct, for the end
	bucket history.Bucket
}

// newReached returns a world with the history's clock, or that of the server.
func newReached(at *keyspace, clocked bool) (w *reached, err error) {
	w = &reached{keyspace: at, name: fmt.Sprintf("lin-%d", at.used.Add(1))}
	o := redisstore.Options{Prefix: w.name + ":", CallTimeout: time.Minute}
	if clocked {
		var now atomic.Int64
		o.Clock = func() time.Time { return time.UnixMicro(now.Load()) }
		if w.clk, err = newClock(time.Second, func(us int64) error { now.Store(us); return nil }); err != nil {
			return nil, err
		}
	}
	if w.proxy, err = proxy.Start(at.direct.Options().Addr); err != nil {
		return nil, err
	}
	w.dialed = serverload.NewDialed(w.proxy.Addr)
	for range 2 { // as two processes
		c := redis.NewClient(&redis.Options{ClientName: w.name, Dialer: w.dialed.Dial, DialerRetries: 1, ReadTimeout: time.Minute})
		s, err := redisstore.New(c, &o)
		if err != nil {
			return nil, err
		}
		w.own, w.below = append(w.own, c), append(w.below, s)
	}
	w.after, err = redisstore.New(at.direct, &o)
	return w, err
}

func (w *reached) model() model { return w.m }
func (w *reached) time() *clock { return w.clk }

func (w *reached) do(ctx context.Context, client int, in request) response {
	q, _ := in.(storeRequest)
	return storeResponse{history.CallOn(ctx, w.stores[client%len(w.stores)], w.bucket, q.Op)}
}

// strike cuts a connection at a random byte, closes all of them, or has the server forget its
// scripts. Each breaks connections at one moment: a second one would meet calls that nobody has
// counted.
func (w *reached) strike(r *rand.Rand, now func()) (request, error) {
	now()
	const soon = 5 * time.Millisecond
	switch r.IntN(4) {
	case 0:
		w.proxy.Cut(proxy.Requests, r.IntN(2000), soon)
	case 1:
		w.proxy.Cut(proxy.Answers, r.IntN(500), soon)
	case 2:
		w.dialed.HangUp()
	case 3:
		return nil, w.direct.ScriptFlush(context.Background()).Err()
	}
	return nil, nil
}

// settle closes the stores, and waits for the end of their connections. Until then, the server can
// still carry out a call whose caller has gone.
func (w *reached) settle() error {
	var err error
	for i, s := range w.below {
		err = errors.Join(err, s.Close(), w.own[i].Close())
	}
	w.stores = []store.Store{w.after}
	return errors.Join(err, serverload.EndedRedis(context.Background(), w.direct, w.name, w.dialed.HangUp))
}

func (w *reached) finals() []request { return allKeys() }

func (w *reached) close() error { return errors.Join(w.after.Close(), w.proxy.Close()) }

// inRedis returns stores over one prefix. In some histories the clock belongs to the history, so
// that buckets leak and answers are exact under cuts, too. In the others it is that of the server;
// see planServer.
func inRedis(at *keyspace, join joining) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		clocked := join == nil && r.IntN(2) == 0
		w, err := newReached(at, clocked)
		if err != nil {
			return nil, plan{}, err
		}
		if clocked {
			limits := limitsOf(r, 0, 1, 2)
			w.m, w.bucket, w.stores = &storeModel{limits: limits}, bucketsOf(limits, ""), w.below
			return w, planStore(r, style{
				clock: true, back: true, single: r.IntN(2) == 0, asks: true, impatient: 4, strikes: cuts,
			}), nil
		}
		var p serverPlan
		if p, err = planServer(r, w.below, join); err != nil {
			return nil, plan{}, err
		}
		w.m, w.bucket, w.stores = p.model, bucketsOf(p.limits, ""), p.stores
		return w, p.plan, nil
	}
}
