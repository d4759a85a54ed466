package redisstore

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

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
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("BRIM_SEED=%d repeats this run", from)
	g := newGenerator(from)
	model := make(map[string]store.Record)
	b := newBatch(s.o.Prefix)
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
			at, recs, err := b.reply(c.reply)
			if err != nil {
				t.Fatal(err)
			}
			for key, i := range b.number {
				want, there := model[key]
				if !there {
					want = store.NewRecord(at)
				}
				if recs[i].Record != want || (recs[i].status != absent) != there {
					t.Fatalf("step %d: the script left %+v, status %d, and package store %+v (%v)",
						step, recs[i].Record, recs[i].status, want, there)
				}
			}
			_, wrote, _ := b.settle(at, recs, s.o.MaxSkew)
			writes += wrote
			for key, i := range b.number {
				delete(model, key)
				if rec := recs[i].Record; rec.Limit != (store.Limit{}) {
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
	b := newBatch("p")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := now.UnixMicro()
	for range 100 {
		b.take(g.requests(now), 1000)
		b.encode(&clock, store.DefaultMaxSkew)
		first := bytes.Clone(b.input)
		b.encode(&clock, store.DefaultMaxSkew)
		if !bytes.Equal(first, b.input) {
			t.Fatalf("the second attempt sends\n%x\nand the first sent\n%x", b.input, first)
		}
	}
}

// TestBrokenScript sends input that ends too early. The script fails after it has written, so the
// outcome is unknown.
func TestBrokenScript(t *testing.T) {
	client := redistest.Client(t)
	s := open(t, client, &Options{Prefix: redistest.Prefix(t, client)})
	b := newBatch(s.o.Prefix)
	b.take([]*fillRequest{
		{In: request{op: store.Op{Bucket: tenUnits.For("b"), Amount: 1}}},
		{In: request{op: store.Op{Bucket: tenUnits.For("c"), Amount: -1, Mode: store.Always}}},
	}, 10)
	c := s.call(b, slotScript)
	c.input.bytes = c.input.bytes[:len(c.input.bytes)-8]
	s.run(client, []*call{c}, false, time.Now().Add(time.Minute))
	if err := s.explainCall(c); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("%v; want ErrUnknownOutcome", err)
	}
	if got := level(t, s); got != 1 {
		t.Errorf("level %v: the test wants a script that fails after a write", got)
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
			op.Ceiling = limit.Capacity * g.Float64()
		case 1:
			op.Ceiling, op.CeilingAt = limit.Capacity*g.Float64(), clock.Add(-time.Duration(g.IntN(1_000_000))*time.Microsecond)
		}
		switch g.IntN(6) {
		case 0:
			op.BlockFor = store.UntilEmpty
		case 1:
			op.BlockFor = time.Duration(g.Int64N(1 << (10 + g.IntN(53))))
		case 2:
			op.BlockFor = math.MaxInt64
		}
		if op.Mode == store.Block || op.Mode == store.Unblock {
			op = store.Op{Bucket: op.Bucket, Mode: op.Mode, BlockFor: op.BlockFor}
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
		switch g.IntN(20) {
		case 0:
			q.reads = []store.Bucket{{Key: g.key()}, {Key: g.key()}}
		case 1:
			q.prunes = []string{g.key(), g.key()}
		case 2:
			q.deletes = []string{g.key()}
		case 3, 4, 5, 6:
			for range 1 + g.IntN(3) {
				q.txns = append(q.txns, g.txn(clock))
			}
		default:
			q.op = g.op(clock)
		}
		reqs = append(reqs, &fillRequest{In: q})
	}
	return reqs
}

// TestChecksum changes each byte of a record. The script must refuse each of them, and change none.
func TestChecksum(t *testing.T) {
	client := redistest.Client(t)
	s := open(t, client, &Options{Prefix: redistest.Prefix(t, client)})
	limit := store.Limit{Capacity: 10, LeakRate: 1}
	ops := []store.Op{
		{Bucket: limit.For("k"), Amount: 3},
		{Bucket: limit.For("k"), Hold: 2},
		{Bucket: limit.For("k"), Amount: 9, BlockFor: time.Hour},
	}
	key := s.o.Prefix + "k"
	for i, op := range ops {
		if _, err := s.Fill(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		raw, err := client.Get(t.Context(), key).Bytes()
		if err != nil || len(raw) != []int{28, 36, 44}[i] {
			t.Fatalf("the record after step %d has %d bytes, %v", i, len(raw), err)
		}
		if _, whole := parse(raw); !whole {
			t.Fatalf("step %d: Go does not take the script's record", i)
		}
		bad := [][]byte{{}, {32}, raw[:len(raw)-1], append(raw[:len(raw):len(raw)], 0), []byte("a string of an application:")}
		for at := range raw {
			changed := append([]byte(nil), raw...)
			changed[at] ^= 1 << (at % 8)
			bad = append(bad, changed)
		}
		for _, b := range bad {
			if _, whole := parse(b); whole {
				t.Errorf("Go takes the damaged record %x", b)
			}
			if err := client.Set(t.Context(), key, b, 0).Err(); err != nil {
				t.Fatal(err)
			}
			for name, call := range map[string]func() error{
				"fill":  func() error { _, err := s.Fill(t.Context(), ops[0]); return err },
				"read":  func() error { _, err := s.Read(t.Context(), store.Bucket{Key: "k"}); return err },
				"visit": func() error { _, err := list(t.Context(), s, ""); return err },
				"apply": func() error {
					res, err := s.Apply(t.Context(), store.Txn{{Bucket: limit.For("other"), Amount: 1}, ops[0]})
					return errors.Join(err, res[0].Err)
				},
			} {
				if err := call(); !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("%s of %x: %v, want ErrCorrupt", name, b, err)
				}
			}
			if got, err := client.Get(t.Context(), key).Bytes(); err != nil || string(got) != string(b) {
				t.Fatalf("a damaged record was changed: %x, %v", got, err)
			}
		}
		if n, err := client.Exists(t.Context(), s.o.Prefix+"other").Result(); err != nil || n != 0 {
			t.Errorf("a transaction over a damaged bucket filled another: %v", err)
		}
		if err := client.Set(t.Context(), key, raw, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Set(t.Context(), key, "damaged", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "k", "nobody"); err != nil {
		t.Errorf("Delete of a damaged bucket: %v", err)
	}
	if got, err := s.Fill(t.Context(), ops[0]); err != nil || got.Level != 3 {
		t.Errorf("after that %+v, %v; want an empty bucket filled", got, err)
	}
}
