package lin

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/brimgo/brim/lab/internal/child"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/store"
)

// killed is a store or a ledger in a bbolt file, or in a database of SQLite. A child serves the
// calls, is killed, and starts again over the same file.
type killed struct {
	m     model
	clk   *clock
	dir   string
	ends  []request // see finals
	death request   // of a child; see strike

	mu  sync.RWMutex // held for writing while there is no child
	set Setting
	p   *child.Process
}

func newKilled(s Setting) (w *killed, err error) {
	w = &killed{set: s}
	if w.dir, err = history.Scratch(); err != nil {
		return nil, err
	}
	w.set.Path = history.Path(w.dir)
	if w.clk, err = newClock(w.setClock); err != nil {
		return nil, err
	}
	w.p, err = child.Start("lin", w.set)
	return w, err
}

func (w *killed) model() model { return w.m }
func (w *killed) time() *clock { return w.clk }

// process returns the child of the moment.
func (w *killed) process() *child.Process {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.p
}

// setClock tells the child the time. A child that starts later begins with it.
func (w *killed) setClock(now int64) error {
	w.mu.Lock()
	w.set.Now = now
	p := w.p
	w.mu.Unlock()
	if p != nil {
		_ = p.Call("Tick", now, nil) // if it has been killed, the next one begins with now
	}
	return nil
}

func (w *killed) do(ctx context.Context, _ int, in request) response {
	patience := time.Duration(0)
	if end, ok := ctx.Deadline(); ok {
		patience = max(1, time.Until(end))
	}
	return ask(w.process(), in, patience)
}

// strike kills the child at a random moment and starts the next one.
func (w *killed) strike(b *blow) (request, error) {
	time.Sleep(time.Duration(b.r.IntN(1500)) * time.Microsecond) // the calls in flight get so far
	w.mu.Lock()
	defer w.mu.Unlock()
	w.p.Kill()
	var err error
	w.p, err = child.Start("lin", w.set)
	return w.death, err
}

// rest does nothing: the child has answered each call that was not under way at a kill.
func (w *killed) rest() error       { return nil }
func (w *killed) finals() []request { return w.ends }

func (w *killed) close() error {
	err := w.p.Close()
	if failed := os.RemoveAll(w.dir); err == nil {
		err = failed
	}
	return err
}

// kills is the largest number of kills in a history.
const kills = 3

// segment is the size of a segment of the journal. A history fills many.
const segment = 4 << 10

// inFile returns a store in a file, and a plan with kills. A bolt store has a journal, or none if
// Segment is 0. A kill loses nothing that was acknowledged.
func inFile(s Setting) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		limits := limitsOf(r, 0, 1, 2)
		s.Buckets = listed(limits)
		w, err := newKilled(s)
		if err != nil {
			return nil, plan{}, err
		}
		w.m, w.ends = &storeModel{bucket: bucketsOf(limits, "")}, allKeys()
		w.death = storeRequest{history.Op{Kind: history.Tick}} // nothing is lost
		return w, planStore(r, style{
			clock: true, back: true, compact: !s.SQLite, single: r.IntN(2) == 0, asks: true, impatient: 4, strikes: kills,
		}), nil
	}
}

func listed(limits [keys]store.Limit) (list []store.Bucket) {
	for k := range limits {
		list = append(list, bucketsOf(limits, "")(k))
	}
	return list
}
