package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/store"
)

// backend is the name of the backend in errors, log lines and traces.
const backend = "redisstore"

// Store is a [store.Store] in Redis, Valkey or a cluster of them. Any number of goroutines and
// processes may use it at once.
type Store struct {
	o       Options
	seed    maphash.Seed
	single  *node // nil with a cluster
	cluster *cluster
	closed  atomic.Bool
	// patience is how long the client waits for an answer: CallTimeout, or its own ReadTimeout if
	// that is shorter.
	patience time.Duration
}

// Fill decides one operation on one bucket. See [store.Store].
func (s *Store) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := s.ready(ctx); err != nil {
		return store.State{}, wrap("fill", err)
	}
	if op.Mode > store.Unblock {
		return store.State{}, wrap("fill", errors.ErrUnsupported)
	}
	if !op.CeilingAt.IsZero() {
		op.CeilingAt = clampTime(op.CeilingAt)
	}
	got, err := s.do(ctx, op.Key, request{op: op})
	if op.Mode == store.Ask || op.Amount == 0 && op.Hold == 0 && op.Mode < store.Ask {
		err = onlyRead(ctx, err)
	}
	if err != nil {
		return store.State{}, wrap("fill", err)
	}
	return got.state, nil
}

// Apply decides transactions. Each of them is decided by one script, so it goes in wholly or not at
// all. In a cluster, the buckets of a transaction must be in one hash slot, which braces in their
// keys choose; else the transaction's error is [errors.ErrUnsupported]. A call of many transactions
// takes several scripts. If some of those fail, the errors stand in the results of their
// transactions. See [store.Store].
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if err := s.ready(ctx); err != nil {
		return nil, wrap("apply", err)
	}
	results := make([]store.Result, len(txns))
	asks := true
	p := parts{s: s, size: s.o.BatchSize}
	for i, txn := range txns {
		switch err := s.takes(txn); {
		case err != nil:
			results[i].Err = wrap("apply", err)
		case len(txn) == 0:
			results[i].Accepted = true
		default:
			p.add(txn[0].Key, i, len(txn))
			asks = asks && txn.Asks()
		}
	}
	err := p.do(ctx, func(numbers []int) request {
		own := make([]store.Txn, len(numbers)) // a caller who gives up may use its slices again before the flush reads them
		for j, i := range numbers {
			own[j] = slices.Clone(txns[i])
			for k := range own[j] {
				if at := own[j][k].CeilingAt; !at.IsZero() {
					own[j][k].CeilingAt = clampTime(at)
				}
			}
		}
		return request{txns: own}
	}, func(numbers []int, got answer, err error) {
		if asks {
			err = onlyRead(ctx, err)
		}
		for j, i := range numbers {
			if err == nil {
				results[i] = got.results[j]
			} else {
				results[i].Err = err
			}
			results[i].Err = wrap("apply", results[i].Err)
		}
	})
	if err != nil {
		if asks {
			err = onlyRead(ctx, err)
		}
		return nil, wrap("apply", err)
	}
	if len(results) == 0 {
		return nil, nil
	}
	return results, nil
}

// takes returns the reason why the store cannot decide a transaction, or nil.
func (s *Store) takes(txn store.Txn) error {
	if len(txn) > math.MaxUint16 {
		return fmt.Errorf("%w: a transaction has %d operations; the most for one script is %d",
			errors.ErrUnsupported, len(txn), math.MaxUint16)
	}
	if s.cluster == nil || len(txn) < 2 {
		return nil
	}
	first := slotOf(s.o.Prefix, txn[0].Key)
	for i := range txn {
		if slotOf(s.o.Prefix, txn[i].Key) != first {
			return fmt.Errorf("%w: the buckets of a transaction are in several hash slots of the cluster; give their keys "+
				"one hash tag, as in {order}:user and {order}:card", errors.ErrUnsupported)
		}
	}
	return nil
}

// Read reports states. Those of one script are of one time of the server's clock; see
// Options.BatchSize. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	states, _, damage, err := s.read(ctx, buckets)
	if err = cmp.Or(err, damage); err != nil {
		return nil, wrap("read", err)
	}
	return states, nil
}

// read is Read, and reports which of the buckets exist and are whole. The error damage is that of a
// bucket that is not whole.
func (s *Store) read(ctx context.Context, buckets []store.Bucket) (states []store.State, found []bool, damage, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, nil, nil, err
	}
	states, found = make([]store.State, len(buckets)), make([]bool, len(buckets))
	p := parts{s: s, size: s.o.BatchSize}
	for i := range buckets {
		p.add(buckets[i].Key, i, 1)
	}
	var failed error
	err = p.do(ctx, func(numbers []int) request {
		reads := make([]store.Bucket, len(numbers))
		for j, i := range numbers {
			reads[j] = buckets[i]
		}
		return request{reads: reads}
	}, func(numbers []int, got answer, err error) {
		if err != nil {
			failed = cmp.Or(failed, err)
			return
		}
		damage = cmp.Or(damage, got.damage)
		for j, i := range numbers {
			states[i], found[i] = got.states[j], got.found[j]
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, nil, nil, onlyRead(ctx, err)
	}
	return states, found, damage, nil
}

// Delete removes buckets, those that are damaged among them. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	_, err := s.sweep(ctx, keys, func(keys []string) request { return request{deletes: keys} })
	return wrap("delete", err)
}

// sweep removes buckets, and returns the number that a prune has removed. If it fails in part, the
// error is ErrUnknownOutcome.
func (s *Store) sweep(ctx context.Context, keys []string, of func([]string) request) (removed int64, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	p := parts{s: s, size: s.o.BatchSize}
	for i, key := range keys {
		p.add(key, i, 1)
	}
	done := 0
	var failed error
	err = p.do(ctx, func(numbers []int) request {
		own := make([]string, len(numbers))
		for j, i := range numbers {
			own[j] = keys[i]
		}
		return of(own)
	}, func(_ []int, got answer, err error) {
		if err != nil {
			failed = cmp.Or(failed, err)
			return
		}
		done++
		removed += got.removed
	})
	if err == nil && failed != nil {
		err = failed
		if done > 0 && !errors.Is(err, store.ErrUnknownOutcome) {
			err = fmt.Errorf("%w: some buckets were removed and others not: %w", store.ErrUnknownOutcome, err)
		}
	}
	return removed, err
}

// Close refuses further calls, and those that wait for their turn, with [store.ErrClosed]. It waits
// for those in flight. The client stays open.
func (s *Store) Close() error {
	s.closed.Store(true)
	if s.single != nil {
		s.single.calls.Close()
	} else {
		s.cluster.close()
	}
	return nil
}

// ready returns ErrClosed after Close, or the error of a context that is done.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// do decides a request, by a script that it shares with those of other callers.
func (s *Store) do(ctx context.Context, key string, q request) (answer, error) {
	n := s.single
	if n == nil {
		var err error
		if n, err = s.cluster.nodeOf(s.o.Prefix + key); err != nil {
			return answer{}, err
		}
	}
	q.since = time.Now()
	return n.calls.Do(ctx, maphash.String(s.seed, key), q)
}

// parts are the parts of a call for several buckets, each for one script. Without a cluster they
// bound the size of the scripts. With one they are of one hash slot each.
type parts struct {
	s    *Store
	size int
	all  []part
	slot map[int]int // of each slot: the index of its last part
}

type part struct {
	key     string // one of its keys
	weight  int
	numbers []int
}

// add adds the number i, which stands for some operations on the bucket of key.
func (p *parts) add(key string, i, operations int) {
	last := len(p.all) - 1
	if p.s.cluster != nil {
		if p.slot == nil {
			p.slot = make(map[int]int)
		}
		slot := slotOf(p.s.o.Prefix, key)
		var there bool
		if last, there = p.slot[slot]; !there {
			last = -1
		}
		defer func() { p.slot[slot] = last }()
	}
	if last < 0 || p.all[last].weight+operations > p.size {
		last = len(p.all)
		p.all = append(p.all, part{key: key})
	}
	p.all[last].weight += operations
	p.all[last].numbers = append(p.all[last].numbers, i)
}

// do decides the parts: those of one slot, or without a cluster all, one after the other. It calls
// took for each, one at a time. If there is one part alone, its error is that of do. If the server
// fails to decide a part, those behind it are not sent.
func (p *parts) do(ctx context.Context, of func([]int) request, took func([]int, answer, error)) error {
	if len(p.all) == 1 {
		got, err := p.s.do(ctx, p.all[0].key, of(p.all[0].numbers))
		if err == nil {
			took(p.all[0].numbers, got, nil)
		}
		return err
	}
	if p.s.cluster == nil {
		p.chain(ctx, p.all, of, took)
		return nil
	}
	chains := make(map[int][]part)
	for _, one := range p.all {
		slot := slotOf(p.s.o.Prefix, one.key)
		chains[slot] = append(chains[slot], one)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, chain := range chains {
		wg.Go(func() {
			p.chain(ctx, chain, of, func(numbers []int, got answer, err error) {
				mu.Lock()
				defer mu.Unlock()
				took(numbers, got, err)
			})
		})
	}
	wg.Wait()
	return nil
}

// chain decides parts one after the other.
func (p *parts) chain(ctx context.Context, parts []part, of func([]int) request, took func([]int, answer, error)) {
	failed := false
	for _, one := range parts {
		if failed {
			took(one.numbers, answer{}, errLate)
			continue
		}
		got, err := p.s.do(ctx, one.key, of(one.numbers))
		took(one.numbers, got, err)
		failed = errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome)
	}
}

// wrap names the backend and the operation in err; see [store.Wrap].
func wrap(op string, err error) error { return store.Wrap(backend, op, err) }

// retrying reports a retry to the log and the trace. Attempts count from 1.
func (s *Store) retrying(attempt int, err error) {
	s.o.Logger.Info(backend+": retrying; nothing was applied", "attempt", attempt, "error", err)
	if s.o.Trace.Retry != nil {
		s.o.Trace.Retry(store.Retry{Backend: backend, Attempt: attempt, Err: err})
	}
}

// flushed returns the function that reports a flush to the trace, or nil where nobody listens.
func (s *Store) flushed() func(int, time.Duration, error) {
	tell := s.o.Trace.Flush
	if tell == nil {
		return nil
	}
	return func(requests int, took time.Duration, err error) {
		tell(store.Flush{Backend: backend, Requests: requests, Took: took, Err: err})
	}
}

// primaries calls f for the server, or for each primary of the cluster, one at a time.
func (s *Store) primaries(ctx context.Context, f func(*redis.Client) error) error {
	if s.single != nil {
		return f(s.single.client)
	}
	clients, err := s.cluster.primaries(ctx)
	for _, c := range clients {
		if err == nil {
			err = f(c)
		}
	}
	return err
}
