package storetest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

//go:embed testdata/vectors.jsonl
var vectorLines []byte

// vector is a script in which a double holds every number exactly.
type vector struct {
	Name string     `json:"name"`
	Ops  []vectorOp `json:"ops"`
}

type vectorOp struct {
	T    float64 `json:"t"` // seconds on the store's clock; it may go back
	Op   string  `json:"op"`
	Key  string  `json:"key"`
	C    float64 `json:"c"`
	R    float64 `json:"r"`
	N    float64 `json:"n"`
	M    float64 `json:"m"` // units used by a capture
	Want struct {
		Accepted bool               `json:"accepted"`
		Able     bool               `json:"able"`
		Full     bool               `json:"full"`
		Level    float64            `json:"level"`
		Held     float64            `json:"held"`
		Spilled  float64            `json:"spilled"`
		RetryNS  *int64             `json:"retry_ns"` // nil: never
		Levels   map[string]float64 `json:"levels"`   // of tryall
	} `json:"want"`
	Fills []struct {
		Key string  `json:"key"`
		C   float64 `json:"c"`
		R   float64 `json:"r"`
		N   float64 `json:"n"`
	} `json:"fills"`
}

// vectors plays all vectors in one store, each on its own keys; a run of few operations plays every
// tenth. It parses only those that it plays: parsing costs more time than playing on a fast store.
func (s *suite) vectors(t *testing.T) {
	st, clock := s.at(t)
	step := 1
	if s.few() {
		step = 10
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
			p := player{t: t, st: st, clock: clock, prefix: fmt.Sprintf("v%d/", i)}
			for j := range v.Ops {
				if txn := p.txn(&v.Ops[j]); !s.supports(txn...) {
					t.Logf("left out because the store does not support operation %d", j)
					return
				}
			}
			for j := range v.Ops {
				clock.set(start + int64(v.Ops[j].T*1e6))
				p.step = fmt.Sprintf("operation %d, %s %v at %v", j, v.Ops[j].Op, v.Ops[j].N, v.Ops[j].T)
				p.play(&v.Ops[j])
			}
		})
	}
}

// player plays one vector.
type player struct {
	t      *testing.T
	st     store.Store
	clock  *manualClock
	prefix string
	step   string // for failure messages
}

func (p *player) bucket(key string, c, r float64) store.Bucket {
	return store.Limit{Capacity: c, LeakRate: r}.For(p.prefix + key)
}

// txn returns the store's operations for an operation of a vector, or nil if it only reads.
func (p *player) txn(v *vectorOp) store.Txn {
	op := store.Op{Bucket: p.bucket(v.Key, v.C, v.R)}
	switch v.Op {
	case "try":
		op.Amount = v.N
	case "fillup":
		op.Amount, op.Mode = v.N, store.Clamp
	case "always":
		op.Amount, op.Mode = v.N, store.Always
	case "drain":
		op.Amount, op.Mode = -v.N, store.Always
	case "hold":
		op.Hold = v.N
	case "capture":
		op.Amount, op.Hold, op.Mode = v.M, -v.N, store.Always
	case "release":
		op.Hold, op.Mode = -v.N, store.Always
	case "tryall":
		var txn store.Txn
		for _, f := range v.Fills {
			txn = append(txn, store.Op{Bucket: p.bucket(f.Key, f.C, f.R), Amount: f.N})
		}
		return txn
	default:
		return nil
	}
	return store.Txn{op}
}

// play carries out an operation and compares the answer.
func (p *player) play(v *vectorOp) {
	t, want := p.t, &v.Want
	t.Helper()
	switch v.Op {
	case "state", "able":
		got := p.read(p.bucket(v.Key, v.C, v.R))
		if v.Op == "able" {
			// The contract has no such method: the Limiter of package brim computes it from a
			// read.
			if able := v.N == 0 || got.Level+got.Held+v.N <= v.C; able != want.Able {
				t.Errorf("%s: able = %v, want %v (level %v, held %v)", p.step, able, want.Able, got.Level, got.Held)
			}
			return
		}
		if got.Level != want.Level || got.Held != want.Held || got.Accepted || got.Full {
			t.Errorf("%s: read %+v, want level %v, held %v", p.step, got, want.Level, want.Held)
		}
	case "tryall":
		p.playAll(v)
	default:
		got, err := p.st.Fill(t.Context(), p.txn(v)[0])
		if err != nil {
			t.Fatalf("%s: %v", p.step, err)
		}
		if got.Accepted != want.Accepted || got.Full != want.Full || got.Level != want.Level || got.Held != want.Held ||
			got.Spilled != want.Spilled || got.Capacity != v.C || got.LeakRate != v.R {
			t.Errorf("%s:\n got %+v\nwant %+v", p.step, got, *want)
		}
		retry := store.Never
		switch {
		case want.RetryNS != nil:
			retry = time.Duration(*want.RetryNS)
		case v.Op == "capture" || v.Op == "release":
			retry = 0 // these vectors leave it out, because accepted operations have none
		}
		if !retryMatches(got.RetryAfter, retry) {
			t.Errorf("%s: RetryAfter %v, want %v or up to a microsecond more", p.step, got.RetryAfter, retry)
		}
	}
}

// playAll carries out a TryFillupAll and compares the answers.
func (p *player) playAll(v *vectorOp) {
	t, want := p.t, &v.Want
	t.Helper()
	txn := p.txn(v)
	res, err := p.st.Apply(t.Context(), txn)
	if err != nil || len(res) != 1 || res[0].Err != nil || len(res[0].States) != len(txn) {
		t.Fatalf("%s: %+v, %v; want one result with %d states", p.step, res, err, len(txn))
	}
	if res[0].Accepted != want.Accepted {
		t.Errorf("%s: accepted = %v, want %v", p.step, res[0].Accepted, want.Accepted)
	}
	after := make(map[string]float64)
	for i, st := range res[0].States {
		if st.Accepted != want.Accepted {
			t.Errorf("%s: state %d has Accepted = %v, the transaction %v", p.step, i, st.Accepted, want.Accepted)
		}
		after[v.Fills[i].Key] = st.Level
	}
	for i, f := range v.Fills {
		if after[f.Key] != want.Levels[f.Key] {
			t.Errorf("%s: fill %d returns level %v, want %v", p.step, i, after[f.Key], want.Levels[f.Key])
		}
		if got := p.read(txn[i].Bucket); got.Level != want.Levels[f.Key] {
			t.Errorf("%s: fill %d left level %v, want %v", p.step, i, got.Level, want.Levels[f.Key])
		}
	}
}

func (p *player) read(b store.Bucket) store.State {
	p.t.Helper()
	got, err := p.st.Read(p.t.Context(), b)
	if err != nil || len(got) != 1 {
		p.t.Fatalf("%s: read: %d states, %v", p.step, len(got), err)
	}
	return got[0]
}

// retryMatches reports whether got is want or up to a microsecond longer. A shorter wait never
// matches.
func retryMatches(got, want time.Duration) bool {
	if want == 0 || want == store.Never {
		return got == want
	}
	return got >= want && got-want <= time.Microsecond
}
