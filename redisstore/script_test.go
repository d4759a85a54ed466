package redisstore

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
)

// TestScriptAgainstGo plays random operations. The records that the script leaves must be those
// that package store computes, in every bit.
func TestScriptAgainstGo(t *testing.T) {
	operations := seed.Attempts(20_000, 1_000_000)
	client := redistest.Client(t)
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := open(t, client, &Options{Prefix: redistest.Prefix(t, client), Clock: func() time.Time { return clock }})
	from, err := seed.New()
	must(t, err)
	t.Logf("BRIM_SEED=%d repeats this run", from)
	g := newGenerator(from)
	model := make(map[string]store.Record)
	b := newBatch(s.name)
	done, existing, blocked, held, writes := 0, 0, 0, 0, 0
	for step := 0; done < operations; step++ {
		clock = g.move(clock)
		reqs := g.requests(clock)
		for len(reqs) > 0 {
			reqs = b.take(reqs, 100)
			done += len(b.reqs)
			c := s.call(b, slotScript)
			s.run(s.single.client, []*call{c}, false, time.Now().Add(time.Minute))
			if c.err != nil {
				t.Fatalf("step %d: %v", step, c.err)
			}
			at, recs, err := b.reply(c, 0)
			must(t, err)
			for key, i := range b.number {
				want, there := model[key]
				if !there {
					want = store.NewRecord(at)
				}
				if d := differ.Fields(recs[i].Record, want); d != "" || recs[i].err != nil {
					t.Fatalf("step %d: the script and package store left different records, error %v\n%s", step, recs[i].err, d)
				}
			}
			_, wrote, _ := b.repeat(at, recs, s.o.MaxSkew)
			writes += wrote
			for key, i := range b.number {
				delete(model, key)
				if rec := recs[i].Record; exists(&rec) {
					model[key] = rec
					existing++
					if rec.Held > 0 {
						held++
					}
					if rec.BlockedUntil != 0 {
						blocked++
					}
				}
			}
		}
	}
	t.Logf("%d operations, %d writes; of %d records %d had a hold and %d a block", done, writes, existing, held, blocked)
	if writes < done/20 || held < existing/100 || blocked < existing/100 {
		t.Error("the random operations miss a part of the record")
	}
}

// TestEncodeAgain encodes batches twice, as a retry does.
func TestEncodeAgain(t *testing.T) {
	g := newGenerator(1)
	b := newBatch(func(key string) string { return "p" + key })
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := now.UnixMicro()
	for range 100 {
		b.take(g.requests(now), 1000)
		b.encode(&clock, store.DefaultMaxSkew)
		first := bytes.Clone(b.input)
		b.encode(&clock, store.DefaultMaxSkew)
		if !bytes.Equal(first, b.input) {
			t.Fatalf("the second attempt sends\n%s\nand the first sent\n%s", b.input, first)
		}
	}
}

// generator makes random operations that are valid.
type generator struct {
	*rand.Rand
	limits []store.Limit
}

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 13))}
	for range 5 {
		limit := store.Limit{Capacity: g.number(), LeakRate: g.number()}
		if limit.Validate() == nil {
			g.limits = append(g.limits, limit)
		}
	}
	g.limits = append(g.limits,
		store.Limit{Capacity: 10, LeakRate: 0.1}, store.Limit{Capacity: 100, LeakRate: 1.0 / 3}, store.Limit{Capacity: 5},
		store.Limit{Capacity: store.MaxAmount, LeakRate: store.MinLeakRate}, store.Limit{Capacity: 1e-3, LeakRate: 1e-12},
		store.Limit{Capacity: 1, LeakRate: store.MaxAmount}, store.Limit{Capacity: 0.3, LeakRate: 1e-9},
		store.Limit{Capacity: 10, LeakRate: 0.2}, store.Limit{Capacity: 10}, store.Limit{LeakRate: 3},
		store.Limit{Capacity: 65 + 0x1p-46, LeakRate: 1e-3}) // whose last bit is set: see op
	return g
}

// number returns a positive number of any magnitude, often one with few digits.
func (g *generator) number() float64 {
	switch g.IntN(3) {
	case 0:
		return float64(1 + g.IntN(100))
	case 1:
		return float64(1+g.IntN(1000)) / 10
	}
	return math.Ldexp(0.5+g.Float64()/2, g.IntN(60)-20)
}

// move moves the clock: by microseconds or years, and sometimes back, also by more than MaxSkew.
func (g *generator) move(clock time.Time) time.Time {
	switch g.IntN(12) {
	case 0:
		return clock.Add(-time.Duration(g.IntN(400)) * time.Second)
	case 1:
		return clock.Add(-time.Duration(g.IntN(1_000_000)) * time.Microsecond)
	case 2:
		return clock.Add(time.Duration(g.IntN(20)) * time.Hour)
	case 3:
		if next := clock.Add(time.Duration(g.IntN(1000)) * 24 * time.Hour); next.Year() < 2250 {
			return next
		}
		year := []int{1690, 1969, 2026, 2254}[g.IntN(4)]
		return time.Date(year, 12, 31, 23, 59, 59, 0, time.UTC)
	case 4, 5:
		return clock
	}
	return clock.Add(time.Duration(g.IntN(5_000_000)) * time.Microsecond)
}

func (g *generator) key() string { return fmt.Sprint("k", g.IntN(12)) }

func (g *generator) op(clock time.Time) store.Op {
	for {
		limit := g.limits[g.IntN(len(g.limits))]
		n := limit.Capacity * g.Float64()
		switch g.IntN(4) {
		case 0:
			n = limit.Capacity / 8
		case 1:
			n = g.number()
		case 2: // half of the last bit gets lost in the rounding of some levels, and not in that of the capacity
			if g.IntN(4) == 0 {
				n = (math.Nextafter(limit.Capacity, math.Inf(1)) - limit.Capacity) / 2
			}
		}
		op := store.Op{Bucket: limit.For(g.key()), Amount: n, Mode: store.Mode(g.IntN(int(store.Unblock) + 1))}
		if g.IntN(2) == 0 {
			op.Mode = store.IfFits
		}
		switch g.IntN(8) {
		case 0:
			op.Amount = -n
		case 1:
			op.Amount, op.Hold = 0, n
		case 2:
			op.Hold = -n / 2
		case 3:
			op.Amount = 0
		case 4: // of fractions, which end by their own amounts
			op.Amount, op.Hold = 0, float64(1+g.IntN(8))/10
			if g.IntN(2) == 0 {
				op.Hold, op.Mode = -op.Hold, store.Always
			}
		}
		if op.Mode == store.Always && op.Hold <= 0 && g.IntN(4) == 0 {
			op.Limit = store.Limit{} // the one last written
		}
		switch g.IntN(8) {
		case 0:
			op.Ceiling = limit.Capacity * 2 * g.Float64()
		case 1:
			op.Ceiling, op.CeilingAt = limit.Capacity*g.Float64(), clock.Add(-time.Duration(g.IntN(1_000_000))*time.Microsecond)
		}
		switch g.IntN(6) {
		case 0:
			op.BlockFor = store.UntilEmpty
		case 1:
			op.BlockFor = time.Duration(g.Int64N(1 << (10 + g.IntN(53))))
		case 2:
			op.BlockFor = store.Never + time.Duration(g.IntN(4)-2)*time.Microsecond
		}
		if op.Mode == store.Block || op.Mode == store.Unblock {
			op = store.Op{Bucket: op.Bucket, Mode: op.Mode, BlockFor: op.BlockFor}
			if g.IntN(3) == 0 {
				op.Limit = store.Limit{}
			}
			if op.Mode == store.Unblock {
				op.BlockFor = 0
			}
		}
		if op.Validate() == nil {
			return op
		}
	}
}

func (g *generator) txn(clock time.Time) store.Txn {
	for {
		txn := make(store.Txn, 1+g.IntN(4))
		for i := range txn {
			txn[i] = g.op(clock)
			if i > 0 && g.IntN(3) == 0 {
				txn[i].Bucket = txn[0].Bucket
			}
		}
		if g.IntN(3) == 0 {
			for i := range txn {
				if txn[i].Mode = store.IfFits; g.IntN(2) == 0 {
					txn[i].Mode, txn[i].BlockFor = store.Ask, 0
				}
			}
		}
		if txn.Validate() == nil {
			return txn
		}
	}
}

// requests returns the requests of a flush.
func (g *generator) requests(clock time.Time) (reqs []*fillRequest) {
	for range 1 + g.IntN(30) {
		var q request
		switch mode := g.IntN(20); mode {
		case 0, 1, 2:
			q.txn = store.Txn{{Bucket: store.Bucket{Key: g.key()}, Mode: modeRead + store.Mode(mode)}}
		case 3, 4, 5, 6:
			q.txn = g.txn(clock)
		default:
			q.one[0] = g.op(clock)
		}
		for range 1 + 2*g.IntN(2) { // equal operations count as one
			reqs = append(reqs, &fillRequest{In: q})
		}
	}
	return reqs
}
