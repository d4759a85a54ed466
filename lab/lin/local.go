package lin

import (
	"io"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// inProcess is a store in this process, with the history's clock.
type inProcess struct {
	callee
	exact *storeModel
	m     model
	clk   *clock
	ends  []request // see finals
	inner io.Closer // below all stores
}

func (w *inProcess) model() model { return w.m }
func (w *inProcess) time() *clock { return w.clk }

func (w *inProcess) strike(*blow) (request, error) { return nil, nil }
func (w *inProcess) rest() error                   { return nil }
func (w *inProcess) finals() []request             { return w.ends }
func (w *inProcess) close() error                  { return w.inner.Close() }

// allKeys reads every bucket.
func allKeys() (all []request) {
	for k := range keys {
		all = append(all, storeRequest{history.Op{Kind: history.Read, Keys: []int{k}}})
	}
	return all
}

// limitsOf returns random limits with leak rates of a choice.
func limitsOf(r *rand.Rand, rates ...float64) (limits [keys]store.Limit) {
	for k := range limits {
		limits[k] = store.Limit{Capacity: float64(15 + r.IntN(30)), LeakRate: rates[r.IntN(len(rates))]}
	}
	return limits
}

// bucketsOf names the buckets of a history.
func bucketsOf(limits [keys]store.Limit, prefix string) history.Bucket {
	return func(k int) store.Bucket { return limits[k].For(prefix + string(rune('a'+k))) }
}

// wrapping makes the stores of the clients from the store below them.
type wrapping func(s store.Store, clock func() time.Time) ([]store.Store, error)

// onMemory returns a world over a memory store.
func onMemory(r *rand.Rand, wrap wrapping) (*inProcess, error) {
	clk, read, err := newShared()
	if err != nil {
		return nil, err
	}
	s := memory.New(&memory.Options{Clock: read})
	exact := &storeModel{bucket: bucketsOf(limitsOf(r, 0, 1, 2), "")}
	w := &inProcess{exact: exact, m: exact, clk: clk, ends: allKeys(), inner: s}
	w.bucket = exact.bucket
	w.stores, err = wrap(s, read)
	return w, err
}

func inMemory(r *rand.Rand) (world, plan, error) {
	w, err := onMemory(r, bare)
	return w, planStore(r, style{clock: true, back: true, single: r.IntN(2) == 0, asks: true}), err
}

func bare(s store.Store, _ func() time.Time) ([]store.Store, error) { return []store.Store{s}, nil }

// refusalsOver wraps a store so often, as if each client's process had remembered refusals of its
// own.
func refusalsOver(s store.Store, processes int, clock func() time.Time) (all []store.Store, err error) {
	for range processes {
		w, err := local.Refusals(s, &local.RefusalsOptions{Clock: clock, Remember: time.Hour})
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// refusalsInMemory has either one process that makes room, too, or two that only fill. Room that
// another process makes may stay hidden, so the answers of two such processes would not be exact.
func refusalsInMemory(r *rand.Rand) (world, plan, error) {
	processes := 1 + r.IntN(2)
	w, err := onMemory(r, func(s store.Store, clock func() time.Time) ([]store.Store, error) {
		return refusalsOver(s, processes, clock)
	})
	if err != nil {
		return nil, plan{}, err
	}
	w.m = refusalsModel{w.exact}
	return w, planStore(r, style{clock: true, single: r.IntN(2) == 0, fills: processes > 1, asks: true}), nil
}
