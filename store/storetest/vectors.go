package storetest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
)

//go:embed testdata/vectors.jsonl
var vectorLines []byte

// vector is a script in which a double holds every number exactly.
type vector struct {
	Name string     `json:"name"`
	Ops  []vectorOp `json:"ops"`
}

// vectorFill names a bucket by its limit, and an amount.
type vectorFill struct {
	Key string    `json:"key"`
	C   float64   `json:"c"`
	R   float64   `json:"r"`
	Per []float64 `json:"per"` // of a quota: beginning and end of the period, on the clock of T
	N   float64   `json:"n"`
}

type vectorOp struct {
	vectorFill
	T       float64 `json:"t"` // seconds on the store's clock; it may go back
	Op      string  `json:"op"`
	M       float64 `json:"m"`       // units used by a capture
	Least   float64 `json:"least"`   // of upto
	Ceiling float64 `json:"ceiling"` // of a booking
	Want    struct {
		Accepted bool               `json:"accepted"`
		Able     bool               `json:"able"`
		Full     bool               `json:"full"`
		Level    float64            `json:"level"`
		Held     float64            `json:"held"`
		Spilled  float64            `json:"spilled"`
		Taken    float64            `json:"taken"`
		RetryNS  *int64             `json:"retry_ns"` // nil: never
		Levels   map[string]float64 `json:"levels"`   // of tryall
		Leaks    *float64           `json:"leaks"`    // units per second; nil: at the rate of the call
		Empties  *float64           `json:"empties"`  // end of a period; nil: as the call
	} `json:"want"`
	Fills []vectorFill `json:"fills"`
}

// vectors plays all vectors in one store, each on its own keys; a run of few operations plays every
// second to tenth. It parses only those that it plays: parsing costs more time than playing on a
// fast store.
func (s *suite) vectors(t *testing.T) {
	st, clock := s.at(t)
	step := 1
	if s.few() {
		step = min(10, 6_000/s.o.Operations)
	}
	i := -1
	for line := range bytes.Lines(vectorLines) {
		if i++; i%step != 0 {
			continue
		}
		var v vector
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("vector %d: %v", i+1, err)
		}
		t.Run(v.Name, func(t *testing.T) {
			prefix := fmt.Sprintf("v%d/", i)
			for j := range v.Ops {
				if !s.supports(v.Ops[j].txn(prefix)...) {
					t.Skipf("the store does not support operation %d", j)
				}
			}
			for j := range v.Ops {
				clock.set(micros(v.Ops[j].T))
				v.Ops[j].play(t, st, prefix)
			}
		})
	}
}

// op returns the operation that puts in the amount.
func (f vectorFill) op(prefix string) store.Op {
	op := store.Op{Bucket: store.Limit{Capacity: f.C, LeakRate: f.R}.For(prefix + f.Key), Amount: f.N}
	if len(f.Per) == 2 {
		op.Begins, op.LeakRate = micros(f.Per[0]), -float64(micros(f.Per[1]))
	}
	return op
}

// micros returns the time of a vector in microseconds since 1970.
func micros(t float64) int64 { return start + int64(t*1e6) }

// txn returns the store's operations for an operation of a vector.
func (v *vectorOp) txn(prefix string) (txn store.Txn) {
	op := v.op(prefix)
	op.Ceiling = v.Ceiling
	switch v.Op {
	case "upto":
		op.Mode, op.Least = store.UpTo, v.Least
	case "able":
		op.Mode = store.Ask
	case "fillup":
		op.Mode = store.Clamp
	case "always":
		op.Mode = store.Always
	case "drain":
		op.Amount, op.Mode = -v.N, store.Always
	case "hold":
		op.Amount, op.Hold = 0, v.N
	case "capture", "release": // M is 0 in a release
		op.Amount, op.Hold, op.Mode = v.M, -v.N, store.Always
	case "tryall":
		for _, f := range v.Fills {
			txn = append(txn, f.op(prefix))
		}
		return txn
	}
	return store.Txn{op}
}

// play carries out an operation and compares the answer.
func (v *vectorOp) play(t *testing.T, st store.Store, prefix string) {
	t.Helper()
	want, txn := &v.Want, v.txn(prefix)
	read := func(b store.Bucket) store.State {
		states, err := st.Read(t.Context(), b)
		if err != nil || len(states) != 1 {
			t.Fatalf("Read: %d states, %v", len(states), err)
		}
		return states[0]
	}
	var got store.State
	var err error
	switch v.Op {
	case "state":
		got = read(txn[0].Bucket)
	case "able":
		if got, err = st.Fill(t.Context(), txn[0]); err != nil || got.Accepted != want.Able {
			t.Errorf("%+v: %+v, %v; want accepted = %v", v, got, err, want.Able)
		}
		return
	case "tryall":
		res, err := st.Apply(t.Context(), txn)
		if err != nil || len(res) != 1 || res[0].Accepted != want.Accepted || len(res[0].States) != len(txn) {
			t.Fatalf("%+v: %+v, %v; want accepted = %v and %d states", v, res, err, want.Accepted, len(txn))
		}
		after := make(map[string]float64)
		for i, state := range res[0].States {
			if after[v.Fills[i].Key] = state.Level; state.Accepted != want.Accepted {
				t.Errorf("%+v: state %d is %+v, want accepted = %v", v, i, state, want.Accepted)
			}
		}
		for i, f := range v.Fills {
			left := read(txn[i].Bucket).Level
			if level := want.Levels[f.Key]; after[f.Key] != level || left != level {
				t.Errorf("%+v: fill %d returns level %v and leaves %v, want %v", v, i, after[f.Key], left, level)
			}
		}
		return
	default:
		if got, err = st.Fill(t.Context(), txn[0]); err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
	}
	retry := store.Never
	switch {
	case want.RetryNS != nil:
		retry = time.Duration(*want.RetryNS)
	case v.Op == "state" || v.Op == "capture" || v.Op == "release":
		retry = 0 // these vectors leave it out
	}
	if retryMatches(got.RetryAfter, retry) {
		retry = got.RetryAfter
	}
	state := store.State{
		Level: want.Level, Held: want.Held, Spilled: want.Spilled, Drained: got.Drained, Taken: want.Taken,
		RetryAfter: retry, At: got.At, BlockedUntil: got.BlockedUntil, Accepted: want.Accepted, Full: want.Full, Estimate: got.Estimate,
	}
	limit := txn[0].Limit
	switch {
	case want.Leaks != nil:
		limit.LeakRate = *want.Leaks
	case want.Empties != nil:
		limit.LeakRate = -float64(micros(*want.Empties))
	}
	state.SetLimit(limit)
	if d := differ.Fields(got, state); d != "" {
		t.Errorf("%+v:\n%s", v, d)
	}
}

// retryMatches reports whether got is want or up to a microsecond longer. A shorter wait never
// matches.
func retryMatches(got, want time.Duration) bool {
	if want == 0 || want >= store.Never {
		return got == want
	}
	return got >= want && got-want <= time.Microsecond
}
