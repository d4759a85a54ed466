package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
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
	drops   sync.Map // from a *redis.Client whose idle connections are being closed to the end of that
	// patience is how long the client waits for an answer: CallTimeout, or its own ReadTimeout if
	// that is shorter.
	patience time.Duration
}

// Fill decides one operation on one bucket. See [store.Store].
func (s *Store) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := s.ready(ctx); err != nil {
		return store.State{}, wrap("fill", err)
	}
	if op.Mode > store.UpTo {
		return store.State{}, wrap("fill", errors.ErrUnsupported)
	}
	n, err := s.nodeOf(op.Key)
	if err != nil {
		return store.State{}, wrap("fill", err)
	}
	q := request{one: [1]store.Op{op}, since: time.Now()}
	got, err := n.calls.Do(ctx, maphash.String(s.seed, op.Key), q)
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
	var numbers []int
	var own []store.Txn // a caller who gives up may use its slices again before the flush reads them
	for i, txn := range txns {
		if results[i].Err = s.takes(txn); results[i].Err == nil && len(txn) > 0 {
			numbers, own = append(numbers, i), append(own, slices.Clone(txn))
		}
		results[i].Accepted = len(txn) == 0
	}
	got, errs := s.all(ctx, own)
	failed := 0
	for j, i := range numbers {
		results[i] = got[j].result
		if errs[j] != nil {
			failed++
			if results[i].Err = errs[j]; own[j].Asks() {
				results[i].Err = onlyRead(ctx, errs[j])
			}
		}
	}
	for i := range results {
		results[i].Err = wrap("apply", results[i].Err)
		if failed > 0 && failed == len(results) {
			return nil, results[i].Err
		}
	}
	return results, nil
}

// takes returns the reason why the store cannot decide a transaction, or nil.
func (s *Store) takes(txn store.Txn) error {
	for i := range txn {
		if txn[i].Mode > store.UpTo {
			return errors.ErrUnsupported
		}
		if s.cluster != nil && s.slotOf(txn[i].Key) != s.slotOf(txn[0].Key) {
			return fmt.Errorf("%w: the buckets of a transaction are in several hash slots of the cluster; give their keys "+
				"one hash tag, as in {order}:user and {order}:card", errors.ErrUnsupported)
		}
	}
	return nil
}

// Read reports states. Those of one script are of one time of the server's clock; see
// Options.BatchSize. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := s.ready(ctx); err != nil {
		return nil, wrap("read", err)
	}
	states := make([]store.State, len(buckets))
	got, errs := s.each(ctx, modeRead, buckets...)
	for i := range got {
		if err := cmp.Or(errs[i], got[i].result.Err); err != nil {
			return nil, wrap("read", onlyRead(ctx, err))
		}
		states[i] = got[i].state
	}
	return states, nil
}

// Delete removes buckets, those that are damaged among them. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.ready(ctx); err != nil {
		return wrap("delete", err)
	}
	_, err := s.remove(ctx, modeDelete, keys)
	return wrap("delete", err)
}

// remove removes buckets in a mode, and returns their number. If it fails in part, the error is
// ErrUnknownOutcome.
func (s *Store) remove(ctx context.Context, mode store.Mode, keys []string) (removed int64, err error) {
	buckets := make([]store.Bucket, len(keys))
	for i, key := range keys {
		buckets[i].Key = key
	}
	got, errs := s.each(ctx, mode, buckets...)
	done := false
	for i := range got {
		e := cmp.Or(errs[i], got[i].result.Err)
		err, done = cmp.Or(err, e), done || e == nil
		if e == nil && got[i].found {
			removed++
		}
	}
	if err != nil && done && !errors.Is(err, store.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: some buckets were removed and others not: %s", store.ErrUnknownOutcome, err.Error()) // one class
	}
	return removed, err
}

// Close refuses further calls, and those that are queued, with [store.ErrClosed]. It waits for
// those in flight. The client stays open.
func (s *Store) Close() error {
	s.closed.Store(true)
	if s.cluster != nil {
		s.cluster.close()
	} else {
		s.single.calls.Close()
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

// nodeOf returns the node that combines the requests for a bucket.
func (s *Store) nodeOf(key string) (*node, error) {
	if s.single != nil {
		return s.single, nil
	}
	return s.cluster.nodeOf(s.name(key))
}

// each decides a transaction of one operation in a mode of this package for each bucket.
func (s *Store) each(ctx context.Context, mode store.Mode, buckets ...store.Bucket) ([]answer, []error) {
	txns := make([]store.Txn, len(buckets))
	for i := range buckets {
		txns[i] = store.Txn{{Bucket: buckets[i], Mode: mode}}
	}
	return s.all(ctx, txns)
}

// all decides transactions, those of one server in their order. An answer or an error belongs to
// each of them. One script after the other takes as many operations as Options.BatchSize. If a
// server fails to decide some, those behind them are not sent.
func (s *Store) all(ctx context.Context, txns []store.Txn) ([]answer, []error) {
	got, errs := make([]answer, len(txns)), make([]error, len(txns))
	numbers, most := make(map[*node][]int), 1
	for i, txn := range txns {
		var n *node
		if n, errs[i] = s.nodeOf(txn[0].Key); errs[i] == nil {
			numbers[n], most = append(numbers[n], i), max(most, len(txn))
		}
	}
	var wg sync.WaitGroup
	for n, numbers := range numbers {
		wg.Go(func() {
			failed := false
			for part := range slices.Chunk(numbers, max(1, s.o.BatchSize/most)) {
				var requests []request
				for _, i := range part {
					requests, errs[i] = append(requests, request{txn: txns[i], since: time.Now()}), errLate
				}
				if failed {
					continue
				}
				out, failures := n.calls.DoAll(ctx, maphash.String(s.seed, txns[part[0]][0].Key), requests)
				for j, i := range part {
					got[i], errs[i] = out[j], failures[j]
				}
				err := failures[len(part)-1]
				failed = errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome)
			}
		})
	}
	wg.Wait()
	return got, errs
}

// wrap names the backend and the operation in err; see [store.Wrap].
func wrap(op string, err error) error { return store.Wrap(backend, op, err) }

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
