package lin

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/store"
)

// at returns a time on the histories' clocks.
func at(seconds int) int64 { return history.At(seconds).UnixMicro() }

// fillOf is a call on bucket 0, which has the capacity 10.
func fillOf(began, over int64, amount, level float64, mode store.Mode) *call {
	res := history.Result{Accepted: true, Levels: []float64{level}, Held: []float64{0}, At: []int64{at(0)}}
	return &call{
		in: storeRequest{history.Op{
			Kind: history.Fill, Txns: [][]history.Move{{{Amount: amount, Mode: mode}}},
		}},
		out:   storeResponse{history.Answer{Results: []history.Result{res}}},
		began: began, over: over, readings: []int64{at(0)},
	}
}

func readOf(began, over int64, level float64) *call {
	c := fillOf(began, over, 0, level, store.IfFits)
	c.in = storeRequest{history.Op{Kind: history.Read, Keys: []int{0}}}
	return c
}

// refusedOf is a refusal of a call.
func refusedOf(c *call, estimate bool) *call {
	a, _ := c.out.(storeResponse)
	a.Results[0].Accepted, a.Results[0].Estimate = false, estimate
	return c
}

// splitOf is a call that a primary which is cut off may have answered.
func splitOf(c *call) *call {
	c.split = true
	return c
}

func unknownOf(began, over int64, amount float64, mode store.Mode) *call {
	c := fillOf(began, over, amount, 0, mode)
	c.out = nil
	return c
}

// late moves a call to another time.
func late(c *call, seconds int) *call {
	a, _ := c.out.(storeResponse)
	a.Results[0].At, c.readings = []int64{at(seconds)}, []int64{at(seconds)}
	return c
}

// misdated is a call with another time in its answer than the clock showed.
func misdated(c *call, seconds int) *call {
	c = late(c, seconds)
	c.readings = []int64{at(0)}
	return c
}

func only(kind history.Kind, began, over int64, wall time.Duration) *call {
	return &call{
		in: storeRequest{history.Op{Kind: kind, Keys: []int{0}}}, out: storeResponse{},
		began: began, over: over, wall: wall, readings: []int64{at(0)},
	}
}

// TestModels checks small histories by hand.
func TestModels(t *testing.T) {
	var limits [keys]store.Limit
	for k := range limits {
		limits[k] = store.Limit{Capacity: 10, LeakRate: 1}
	}
	exact := &storeModel{limits: limits}
	weak := &relaxedModel{storeModel: exact, lag: time.Minute}
	for _, c := range []struct {
		name, why string
		m         model
		calls     []*call
		want      porcupine.CheckResult
	}{
		{
			"not seen yet", "the server may commit after the read, until it has ended", exact,
			[]*call{unknownOf(1, 6, 5, store.IfFits), readOf(2, 3, 0), readOf(4, 5, 5), readOf(7, 8, 5)},
			porcupine.Ok,
		},
		{
			"after the end", "a server that has ended commits nothing", exact,
			[]*call{unknownOf(1, 4, 5, store.IfFits), readOf(5, 6, 0), readOf(7, 8, 5)},
			porcupine.Illegal,
		},
		{
			"back in time", "the clock was behind the last write", exact,
			[]*call{late(fillOf(1, 2, 7, 7, store.IfFits), 5), fillOf(3, 4, 1, 8, store.IfFits)},
			porcupine.Illegal,
		},
		{
			"at another time", "the clock did not show the time during the call", exact,
			[]*call{misdated(fillOf(1, 2, 7, 7, store.IfFits), 5)},
			porcupine.Illegal,
		},
		{
			"refused while cut off", "the primary that is cut off has other fills", exact,
			[]*call{splitOf(refusedOf(fillOf(1, 2, 2, 9, store.IfFits), false)), readOf(3, 4, 0)},
			porcupine.Ok,
		},
		{
			"drained while cut off", "the primary that is cut off has no fill, and writes nothing", exact,
			[]*call{fillOf(1, 2, 5, 5, store.IfFits), splitOf(fillOf(3, 4, -2, 0, store.Always)), readOf(5, 6, 5)},
			porcupine.Ok,
		},
		{
			"lost while cut off", "the fill was acknowledged", exact,
			[]*call{splitOf(fillOf(1, 2, 5, 5, store.IfFits)), readOf(3, 4, 0)},
			porcupine.Illegal,
		},
		{
			"drain lost while cut off", "the drain found something", exact,
			[]*call{fillOf(1, 2, 5, 5, store.IfFits), splitOf(fillOf(3, 4, -2, 3, store.Always)), readOf(5, 6, 5)},
			porcupine.Illegal,
		},
		{
			"crash", "a relaxed store may forget", weak,
			[]*call{fillOf(1, 2, 5, 5, store.IfFits), only(crash, 3, 4, 0), readOf(5, 6, 0)},
			porcupine.Ok,
		},
		{
			"late crash", "the call is older than the time that a crash may take back", weak,
			[]*call{fillOf(1, 2, 5, 5, store.IfFits), only(crash, 3, 4, time.Hour), readOf(5, 6, 0)},
			porcupine.Illegal,
		},
		{
			"out of nothing", "a crash brings back what was there", weak,
			[]*call{fillOf(1, 2, 5, 5, store.IfFits), only(crash, 3, 4, 0), readOf(5, 6, 3)},
			porcupine.Illegal,
		},
		{
			"overlooked", "the drain has not returned",
			refusalsModel{exact},
			[]*call{
				fillOf(1, 2, 10, 10, store.IfFits), fillOf(3, 8, -5, 5, store.Always), readOf(4, 5, 5),
				refusedOf(fillOf(6, 7, 2, 10, store.IfFits), true),
			},
			porcupine.Ok,
		},
		{
			"hidden", "the drain has returned",
			refusalsModel{exact},
			[]*call{
				fillOf(1, 2, 10, 10, store.IfFits), fillOf(3, 4, -5, 5, store.Always),
				refusedOf(fillOf(6, 7, 2, 10, store.IfFits), true),
			},
			porcupine.Illegal,
		},
		{
			"lease", "units may wait in allotments", &leaseModel{limit: limits[0], share: 0.5},
			[]*call{fillOf(1, 2, 5, 5, store.IfFits), refusedOf(fillOf(3, 4, 1, 10, store.IfFits), false)},
			porcupine.Ok,
		},
		{
			"lease wastes", "allotments fill half of the bucket at most", &leaseModel{limit: limits[0], share: 0.5},
			[]*call{fillOf(1, 2, 4, 4, store.IfFits), refusedOf(fillOf(3, 4, 1, 10, store.IfFits), false)},
			porcupine.Illegal,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := check(c.m, c.calls, time.Minute).CheckResult; got != c.want {
				t.Errorf("%s, want %s: %s", got, c.want, c.why)
			}
		})
	}
}

// lagging decides a fill of 3 units after its caller has gone: before the next call.
type lagging struct {
	store.Store
	left *store.Op
}

func (s *lagging) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if op.Amount == 3 {
		s.left = &op
		return store.State{}, store.ErrUnknownOutcome
	}
	if s.left != nil {
		if _, err := s.Store.Fill(ctx, *s.left); err != nil {
			return store.State{}, err
		}
		s.left = nil
	}
	return s.Store.Fill(ctx, op)
}

// TestLagging: a store may read the clock for a call after that call is over without an answer. Before
// the clock moved, the call would have left another level.
func TestLagging(t *testing.T) {
	w, err := onMemory(rand.New(rand.NewPCG(1, 1)), time.Second, func(s store.Store, _ func() time.Time) ([]store.Store, error) {
		return []store.Store{&lagging{Store: s}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.exact.limits[0] = store.Limit{Capacity: 20, LeakRate: 1}
	fill := func(n float64) step {
		return step{in: storeRequest{history.Op{Kind: history.Fill, Txns: [][]history.Move{{{Amount: n, Mode: store.Always}}}}}}
	}
	w.bucket = bucketsOf(w.exact.limits, "")
	tick := step{in: storeRequest{history.Op{Kind: history.Tick, Seconds: 2}}}
	calls, err := play(w, plan{steps: []step{fill(1), fill(3), tick, fill(4)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := check(w.model(), calls, time.Minute).CheckResult; got != porcupine.Ok {
		t.Errorf("%s, want %s", got, porcupine.Ok)
	}
}

// TestPartition: calls that share a bucket, also by way of another call, are checked together.
func TestPartition(t *testing.T) {
	on := func(ks ...int) *call {
		return &call{in: storeRequest{history.Op{Kind: history.Delete, Keys: ks}}}
	}
	parts := partition([]*call{on(0), on(1), on(2, 3), on(1, 3), on()})
	if len(parts) != 2 || len(parts[0]) != 1 || len(parts[1]) != 3 {
		t.Errorf("the parts are %v, want one of the first call and one of three", parts)
	}
}
