package sched

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/store"
)

var relaxedSubject = &subject{
	name: "relaxed", night: 150_000,
	random: func(r *rand.Rand) program {
		// the window in ms; 0: look at the file in the end
		p := program{config: [4]int{1, r.IntN(4)}}
		actors := 2 + r.IntN(4)
		closes := r.IntN(20) // one Close at most, because two would wait for each other at a mutex
		for i := range 5 + r.IntN(20) {
			c := randomCall(r, actors, "fill", 20)
			c.key, c.amount = r.IntN(busyKeys)*r.IntN(2), 1+r.IntN(20)
			c.txn = store.Txn{relaxedOp(r, c.key)}
			switch n := r.IntN(20); {
			case n < 4:
				c.do = "apply"
				for k := c.key + 1; k < busyKeys; k++ {
					c.txn = append(c.txn, relaxedOp(r, k))
				}
			case n < 12:
				c.do, c.amount, c.txn = [...]string{"delete", "sync", "prune", "read"}[n%4], 1+r.IntN(3), nil
			case n < 15:
				c.do, c.amount, c.txn = "crowd", 1, nil
			case n == 15:
				c.do, c.amount, c.txn = "tick", 1, nil
			case i == closes:
				c.do, c.txn = "close", nil
			}
			p.calls = append(p.calls, c)
		}
		return p
	},
	begin: func(p program) world { return &relaxedWorld{program: p} },
}

// busyKeys is the number of buckets whose content is checked.
const busyKeys = 3

// others are buckets that the store reads from the file.
var others = func() (all []store.Bucket) {
	for k := range 200 {
		all = append(all, relaxedLimit.For(fmt.Sprint("other ", k)))
	}
	return all
}()

var relaxedLimit = store.Limit{Capacity: 40, LeakRate: 1}

func relaxedOp(r *rand.Rand, key int) store.Op {
	op := store.Op{Bucket: relaxedLimit.For(strconv.Itoa(key)), Amount: float64(1 + r.IntN(14)), Mode: store.Mode(r.IntN(3))}
	if op.Mode == store.Clamp { // spilling is told of a single fill only
		op.Mode, op.Amount = store.Always, -op.Amount
	}
	return op
}

// keyOf returns the number of an operation's bucket.
func keyOf(op store.Op) int {
	k, _ := strconv.Atoi(op.Key)
	return k
}

// relaxedWorld checks that the calls took effect one by one. The clock shows no time twice, and the
// store reads it under its locks. So the times of the answers give the order, except of deletions and
// reads.
type relaxedWorld struct {
	program
	s      *bolt.Relaxed
	us     atomic.Int64 // of the clock
	order  atomic.Int64 // of the beginnings and the ends of all calls
	mu     sync.Mutex
	ops    []porcupine.Operation
	closed error
}

// clock shows a microsecond more at each reading.
func (w *relaxedWorld) clock() time.Time {
	now := w.us.Add(1)
	runtime.Gosched()
	return time.UnixMicro(now)
}

// fileOptions are the options of the file with w's clock.
func (w *relaxedWorld) fileOptions() *bolt.Options {
	return &bolt.Options{
		Clock: w.clock, LockTimeout: -1, NoVerify: true, RelaxedWindow: milliseconds(w.config[0]),
	}
}

func (w *relaxedWorld) setup() (err error) {
	w.us.Store(history.At(0).UnixMicro())
	path := history.Path(scratch)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if emptyFile != nil { // making a file takes longer than the schedule
		if err := os.WriteFile(path, emptyFile, 0o600); err != nil {
			return err
		}
	}
	if w.s, err = bolt.OpenRelaxed(path, w.fileOptions()); err != nil {
		return err
	}
	if emptyFile == nil {
		if emptyFile, err = os.ReadFile(path); err != nil {
			return err
		}
	}
	return nil
}

// scratch is the directory of the file, and emptyFile the content of a new one.
var (
	scratch   string
	emptyFile []byte
)

// do carries out a call several times, one after the other.
func (w *relaxedWorld) do(ctx context.Context, _ int, c call) {
	for range c.amount {
		begun := w.order.Add(1)
		res, err := w.call(ctx, w.s, c)
		op := porcupine.Operation{ClientId: c.actor, Input: c, Call: begun, Output: res, Return: w.order.Add(1)}
		w.mu.Lock()
		switch {
		case err == nil && (c.txn != nil || c.do == "delete" || c.do == "read"):
			w.ops = append(w.ops, op)
		case c.do == "close":
			w.closed = errors.Join(w.closed, err)
		}
		w.mu.Unlock()
	}
}

func (w *relaxedWorld) call(ctx context.Context, s store.Store, c call) (res store.Result, err error) {
	switch b := relaxedLimit.For(strconv.Itoa(c.key)); c.do {
	case "fill":
		st, err := s.Fill(ctx, c.txn[0])
		return store.Result{Accepted: st.Accepted, States: []store.State{st}}, err
	case "apply":
		results, err := s.Apply(ctx, c.txn)
		if err != nil {
			return res, err
		}
		return results[0], results[0].Err
	case "read":
		res.States, err = s.Read(ctx, b)
		return res, err
	case "crowd":
		_, err = s.Read(ctx, others...)
		return res, err
	case "delete":
		return res, s.Delete(ctx, b.Key)
	case "prune":
		_, err = s.Prune(ctx)
		return res, err
	case "sync":
		return res, w.s.Sync(ctx)
	case "tick":
		w.us.Add(time.Minute.Microseconds())
		return res, nil
	}
	return res, s.Close()
}

func (w *relaxedWorld) finish() { w.do(context.Background(), 0, call{do: "close", amount: 1}) }

func (w *relaxedWorld) check() error {
	if w.closed != nil {
		return w.closed
	}
	if w.config[1] == 0 {
		if err := w.look(); err != nil {
			return err
		}
	}
	m := porcupine.Model{Init: func() any { return relaxedModel{} }, Step: relaxedStep}
	if !porcupine.CheckOperations(m, w.ops) {
		text := "no order of the calls explains their answers:"
		for _, c := range w.ops {
			text += fmt.Sprintf("\n%d to %d: %s key %d %+v: %+v", c.Call, c.Return, c.Input.(call).do, c.Input.(call).key, c.Input.(call).txn, c.Output)
		}
		return errors.New(text)
	}
	return nil
}

// look reads all buckets from the file.
func (w *relaxedWorld) look() (err error) {
	s, err := bolt.Open(history.Path(scratch), w.fileOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for k := range busyKeys {
		c := call{do: "read", key: k}
		begun := w.order.Add(1)
		res, err := w.call(context.Background(), s, c)
		if err != nil {
			return err
		}
		w.ops = append(w.ops, porcupine.Operation{Input: c, Call: begun, Output: res, Return: w.order.Add(1)})
	}
	return s.Verify(context.Background())
}

// relaxedModel is the content of a store, and the time of its last decision.
type relaxedModel struct {
	records [busyKeys]store.Record
	present [busyKeys]bool
	last    int64
}

// relaxedStep is the step of the model for porcupine.
func relaxedStep(state, input, output any) (bool, any) {
	m, c, got := state.(relaxedModel), input.(call), output.(store.Result)
	if c.do == "delete" {
		m.present[c.key] = false
		return true, m
	}
	now := got.States[0].At.UnixMicro()
	switch {
	case c.do == "read": // it may look before a decision is shown, and read the clock after it was made
	case now <= m.last:
		return false, m
	default:
		m.last = now
	}
	for k, present := range m.present {
		if !present {
			m.records[k] = store.NewRecord(now)
		}
	}
	if c.do == "read" {
		return got.States[0] == m.records[c.key].State(relaxedLimit, now, store.DefaultMaxSkew), m
	}
	records := make([]*store.Record, len(c.txn))
	for i, op := range c.txn {
		records[i] = &m.records[keyOf(op)]
	}
	want, effects := store.Decide(c.txn, records, now, store.DefaultMaxSkew)
	for i, op := range c.txn {
		m.present[keyOf(op)] = m.present[keyOf(op)] || effects[i]&store.Write != 0
	}
	return got.Accepted == want.Accepted && slices.Equal(got.States, want.States), m
}
