package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/brimgo/brim/store"
)

// modelDyadic compares the store with the model on inputs without rounding. Every answer must
// be equal.
func (s *suite) modelDyadic(t *testing.T) {
	s.againstModel(t, s.o.Operations, inputs{
		limits: []store.Limit{
			{Capacity: 10, LeakRate: 1},
			{Capacity: 100, LeakRate: 8},
			{Capacity: 4, LeakRate: 0.0625},
			{Capacity: 16},
			{Capacity: 64, LeakRate: 64},
			store.Per(16, store.Day, time.UTC),
			store.Per(10, store.Month, time.UTC),
		},
		amount: func(n int) float64 { return float64(n) / 8 },
		step:   time.Second / 64,
	})
}

// modelDecimal compares on decimal inputs, within the error of rounding.
func (s *suite) modelDecimal(t *testing.T) {
	s.againstModel(t, max(1, s.o.Operations/10), inputs{
		limits: []store.Limit{
			{Capacity: 0.3, LeakRate: 0.1},
			{Capacity: 9.99, LeakRate: 0.7},
			{Capacity: 100.1, LeakRate: 3.3},
			{Capacity: 1e6 / 7, LeakRate: 1e3 / 3},
			{Capacity: 19.99},
			store.Per(20.1, store.Hour, time.UTC),
		},
		amount:  func(n int) float64 { return float64(n) * 0.1 },
		step:    time.Microsecond * 7919,
		inexact: true,
	})
}

// inputs are the ingredients of random operations.
type inputs struct {
	limits  []store.Limit
	amount  func(n int) float64 // makes an amount of a small number
	step    time.Duration       // the clock moves by multiples of step
	inexact bool
}

// againstModel compares that many random operations with the model.
func (s *suite) againstModel(t *testing.T, operations int, in inputs) {
	clock := newClock()
	st := s.reopenable(t, clock.now)
	var done, world atomic.Int64
	var failed atomic.Bool
	for done.Load() < int64(operations) && !t.Failed() {
		rapid.Check(t, func(r *rapid.T) {
			if done.Load() >= int64(operations) && !failed.Load() {
				return // enough; only a failed check is repeated, to shrink it
			}
			defer func() {
				if r.Failed() {
					failed.Store(true)
				}
			}()
			// Each check has its own keys in the one store.
			d := &driver{
				t: t, s: s, st: st, clock: clock, in: in, done: &done,
				prefix: fmt.Sprintf("m%09d/", world.Add(1)),
				m:      Model{Buckets: make(map[string]Bucket), Rounds: in.inexact},
			}
			clock.set(start)
			r.Repeat(map[string]func(*rapid.T){
				"fill": d.fills, "apply": d.apply, "clock": d.move, "read": d.read, "list": d.list,
				"maintain": d.maintain,
			})
			d.list(r)
			if err := (*st).Delete(r.Context(), d.keys()...); err != nil {
				r.Fatalf("Delete: %v", err)
			}
		})
	}
	t.Logf("%d operations compared", done.Load())
}

// driver carries out random operations on the store and on the model.
type driver struct {
	t      *testing.T
	s      *suite
	st     *store.Store
	clock  *manualClock
	in     inputs
	prefix string
	m      Model
	done   *atomic.Int64
}

var modelKeys = []string{"a", "b", "A", "a ", "ab", "é", "e\u0301", "%"}

func (d *driver) keys() []string {
	keys := make([]string, len(modelKeys))
	for i, k := range modelKeys {
		keys[i] = d.prefix + k
	}
	return keys
}

var (
	drawKey   = rapid.IntRange(0, len(modelKeys)-1)
	drawKind  = rapid.IntRange(0, 21)
	drawSmall = rapid.IntRange(0, 9)
	drawSize  = rapid.IntRange(0, 120)
)

// op draws a valid operation that the store supports. Operations on one key in a transaction
// share a limit.
func (d *driver) op(t *rapid.T, limits map[string]store.Op) store.Op {
	key := drawKey.Draw(t, "key")
	kind := drawKind.Draw(t, "kind")
	extra := drawSmall.Draw(t, "extra")
	limit := d.in.limits[key%len(d.in.limits)]
	if extra == 9 {
		limit = d.in.limits[drawSmall.Draw(t, "limit")%len(d.in.limits)]
	}
	op := d.dated(limit.For(d.prefix+modelKeys[key]), extra)
	if l, ok := limits[op.Key]; ok {
		op.Bucket, op.Begins = l.Bucket, l.Begins
	}
	n := d.in.amount(drawSize.Draw(t, "n"))
	switch kind {
	case 0, 1, 2:
		op.Mode, op.Amount = store.Clamp, n
	case 3, 4:
		op.Mode, op.Amount = store.Always, n
	case 5, 6:
		op.Mode, op.Amount = store.Always, -n
	case 7, 8:
		op.Hold = n
	case 9, 10:
		op.Mode, op.Hold = store.Always, -n/4
	case 11:
		op.Mode, op.Hold, op.Amount = store.Always, -n/4, d.in.amount(extra)
	case 12:
		op.Amount, op.Hold = n, d.in.amount(extra)
	case 13:
		op.Amount = -n
	case 14:
		// A caller takes back the units that it put in.
		op.Amount, op.Ceiling = -n, d.in.amount(extra*8+1)
		op.CeilingAt = d.clock.now().Add(-time.Duration(extra) * d.in.step)
	case 15:
		op.Mode, op.Least = store.UpTo, float64(1+extra)
		op.Amount = op.Least + float64(drawSize.Draw(t, "more"))
	case 20:
		op.Mode, op.BlockFor = store.Block, time.Duration(1+extra)*16*d.in.step
		if extra == 8 && op.LeakRate != 0 && !d.in.inexact {
			op.BlockFor = store.UntilEmpty
		}
		return op
	case 21:
		if op.Mode = store.Unblock; extra < 5 {
			op.Limit, op.Begins = store.Limit{}, 0
		}
		return op
	default:
		op.Amount = n
	}
	if op.Mode == store.Always && op.Hold <= 0 && extra == 7 {
		op.Limit, op.Begins = store.Limit{}, 0 // the limit last written
	}
	if op.Mode == store.Always || op.Ceiling != 0 {
		return op
	}
	if d.in.inexact && op.Mode == store.Clamp {
		return op // rounding decides whether a Fillup spills, and so whether it blocks: not comparable
	}
	switch extra {
	case 3, 4:
		op.Turn = true // it changes no decision
	case 0:
		op.Ceiling = d.in.amount(drawSize.Draw(t, "ceiling") + 1)
	case 1:
		op.BlockFor = time.Duration(1+drawSmall.Draw(t, "block")) * 16 * d.in.step
	case 2:
		if op.LeakRate != 0 {
			op.BlockFor = store.UntilEmpty
		}
	}
	return op
}

// dated returns an operation on a bucket, in the period of the clock if its limit is a quota, or in
// the period before or behind it.
func (d *driver) dated(b store.Bucket, extra int) store.Op {
	op, at := store.Op{Bucket: b}, d.clock.now()
	if begins, ends := b.Limit.PeriodAt(at); extra == 5 {
		at = begins.Add(-time.Microsecond)
	} else if extra == 6 {
		at = ends
	}
	if err := op.SetPeriod(at); err != nil {
		d.t.Fatal(err)
	}
	return op
}

// drawn draws an operation. If it is invalid or unsupported, drawn returns an operation with
// amount 0.
func (d *driver) drawn(t *rapid.T, limits map[string]store.Op) store.Op {
	op := d.op(t, limits)
	if op.Validate() != nil || !d.s.supports(op) {
		limit := op.Limit
		if limit == (store.Limit{}) {
			limit = d.in.limits[0]
		}
		op = d.dated(limit.For(op.Key), 0)
	}
	return op
}

// move moves the clock.
func (d *driver) move(t *rapid.T) {
	n := time.Duration(rapid.IntRange(0, 200).Draw(t, "steps"))
	switch drawSmall.Draw(t, "direction") {
	case 0: // back, within MaxSkew
		n = -n * d.in.step
	case 1: // back, perhaps by more than MaxSkew
		n = -n * 2021 * d.in.step
	case 2:
		n *= 2021 * d.in.step
	default:
		n *= d.in.step
	}
	d.clock.step(n)
}

// fills makes several fills. Before each it asks about the same units.
func (d *driver) fills(t *rapid.T) {
	for range rapid.IntRange(1, 20).Draw(t, "fills") {
		if drawSmall.Draw(t, "move") < 3 {
			d.move(t)
		}
		op := d.drawn(t, nil)
		if op.Limit != (store.Limit{}) && op.Mode != store.Block && op.Mode != store.Unblock && d.s.supports(question(op)) {
			d.fill(t, question(op))
		}
		d.fill(t, op)
		d.done.Add(1)
	}
}

// fill makes one fill.
func (d *driver) fill(t *rapid.T, op store.Op) {
	got, err := (*d.st).Fill(t.Context(), op)
	res := store.Result{Accepted: got.Accepted, States: []store.State{got}, Err: err}
	if _, err := d.m.Fill(op, d.clock.now(), &res); err != nil {
		t.Fatal(err)
	}
	d.learn(t)
}

// learn asks for the limits last written of which rounding has decided.
func (d *driver) learn(t *rapid.T) {
	for k, b := range d.m.Buckets {
		if d.in.inexact && b.perhaps != (store.Limit{}) {
			got, err := (*d.st).Read(t.Context(), store.Bucket{Key: k})
			if err != nil {
				t.Fatalf("Read: %v", err)
			}
			if got[0].Limit() == b.perhaps {
				b.limit = b.perhaps
			}
		}
		b.perhaps = store.Limit{}
		d.m.Buckets[k] = b
	}
}

// apply applies several transactions in one call. Before a transaction of fills that can be refused
// it asks, in the same call, about the same units.
func (d *driver) apply(t *rapid.T) {
	var txns []store.Txn
	for range rapid.IntRange(1, 16).Draw(t, "txns") {
		limits := make(map[string]store.Op)
		var txn, asks store.Txn
		fits := drawSmall.Draw(t, "all fit") < 4
		mixed := fits && drawSmall.Draw(t, "some ask") < 5
		for range rapid.IntRange(1, 8).Draw(t, "ops") {
			op := d.drawn(t, limits)
			if fits { // a penalty would change the waits of the other operations
				op = question(op)
				op.Mode = store.IfFits
				if op.Limit == (store.Limit{}) {
					op.Limit = d.in.limits[0]
				}
				if l, ok := limits[op.Key]; ok {
					op.Bucket, op.Begins = l.Bucket, l.Begins
				}
				asks = append(asks, question(op))
				if mixed && len(txn) > 0 && op.Amount >= 0 && d.s.supports(question(op)) && drawSmall.Draw(t, "asks") < 3 {
					op = question(op) // the first goes in, so the transaction is no question
				}
			}
			if append(txn, op).Validate() != nil {
				continue // the key of an operation of mode UpTo comes again
			}
			if op.Limit != (store.Limit{}) {
				limits[op.Key] = op
			}
			txn = append(txn, op)
			d.done.Add(1)
		}
		if fits && d.s.supports(asks...) {
			txns = append(txns, asks)
		}
		txns = append(txns, txn)
	}
	got, err := (*d.st).Apply(t.Context(), txns...)
	if err != nil || len(got) != len(txns) {
		t.Fatalf("Apply of %d transactions: %d results, %v", len(txns), len(got), err)
	}
	for i, txn := range txns {
		if _, err := d.m.Apply(txn, d.clock.now(), &got[i]); err != nil {
			t.Fatal(err)
		}
	}
	d.learn(t)
}

// read reads several buckets in one call.
func (d *driver) read(t *rapid.T) {
	var buckets []store.Bucket
	for range rapid.IntRange(1, 6).Draw(t, "reads") {
		key := drawKey.Draw(t, "key")
		b := store.Bucket{Key: d.prefix + modelKeys[key]}
		if i := drawSmall.Draw(t, "limit"); i < len(d.in.limits) {
			b = d.dated(d.in.limits[i].For(b.Key), 0).Bucket
		}
		buckets = append(buckets, b)
	}
	got, err := (*d.st).Read(t.Context(), buckets...)
	if err != nil || len(got) != len(buckets) {
		t.Fatalf("Read of %d buckets: %d states, %v", len(buckets), len(got), err)
	}
	for i, b := range buckets {
		if _, err := d.m.Read(b, d.clock.now(), &got[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// list visits all buckets.
func (d *driver) list(t *rapid.T) {
	got := make(map[string]store.State)
	err := (*d.st).Visit(t.Context(), d.prefix, func(e store.Entry) bool {
		if _, again := got[e.Key]; again {
			t.Errorf("Visit visits %q twice", e.Key)
		}
		got[e.Key] = e.State
		return true
	})
	if err != nil {
		t.Fatalf("Visit: %v", err)
	}
	for k := range d.m.Buckets {
		st, visited := got[k]
		if !visited {
			t.Fatalf("Visit does not visit %q", k)
		}
		if _, err := d.m.Read(store.Bucket{Key: k}, d.clock.now(), &st); err != nil {
			t.Fatal(err)
		}
		delete(got, k)
	}
	if len(got) > 0 {
		t.Fatalf("Visit visits %v, which do not exist", got)
	}
}

// maintain deletes, prunes, reopens, or calls with a context that is done.
func (d *driver) maintain(t *rapid.T) {
	switch drawKind.Draw(t, "maintenance") {
	case 0, 1, 2:
		key := d.prefix + modelKeys[drawKey.Draw(t, "key")]
		if err := (*d.st).Delete(t.Context(), key); err != nil {
			t.Fatalf("Delete: %v", err)
		}
		delete(d.m.Buckets, key)
	case 3, 4, 5:
		if _, err := (*d.st).Prune(t.Context()); err != nil {
			t.Fatalf("Prune: %v", err)
		}
		d.m.Prune(d.clock.now())
	case 6:
		if d.s.o.Reopen != nil {
			*d.st = d.s.o.Reopen(d.t, *d.st, d.clock.now)
		}
	case 7, 8:
		done, cancel := context.WithCancel(t.Context())
		cancel()
		op := d.drawn(t, nil)
		if _, err := (*d.st).Fill(done, op); !errors.Is(err, context.Canceled) {
			t.Fatalf("Fill with a cancelled context: %v, want its error", err)
		}
	default:
		d.move(t)
	}
}

// question returns the Ask about an operation: about the same units in mode IfFits, if op is in
// another mode, and without a penalty.
func question(op store.Op) store.Op {
	if op.Mode != store.IfFits {
		op.Amount, op.Hold = math.Abs(op.Amount), max(0, op.Hold)
	}
	if op.Mode == store.UpTo {
		op.Amount, op.Least = op.Least, 0
	}
	op.Mode, op.BlockFor = store.Ask, 0
	return op
}
