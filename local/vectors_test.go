package local_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

// TestVectorsWithAllotments plays the exact scripts of the contract with an allotment for each
// TryFillup. A bucket that leaks and gets the accepted calls alone, without leases, must accept
// each of them. So leases admit no more units than the contract, also while limits change.
func TestVectorsWithAllotments(t *testing.T) {
	file, err := os.ReadFile("../store/storetest/testdata/vectors.jsonl")
	must(t, err)
	accepted, served := 0, 0
	for line := range bytes.Lines(file) {
		var v struct {
			Name string
			Ops  []struct {
				T, C, R, N, M float64
				Op, Key       string
			}
		}
		must(t, json.Unmarshal(line, &v))
		clock, last := newManual(), 0.0
		first := clock.Now()
		s := leases(t, inMemory(t, clock.Now), &local.LeasesOptions{Share: 0.5, Clock: clock.Now})
		alone := inMemory(t, clock.Now)
		for i, o := range v.Ops {
			if o.T < last {
				break // an allotment leaks less when the clock goes back, and the bucket does not
			}
			last = o.T
			clock.Set(first.Add(time.Duration(o.T * 1e9)))
			op := store.Op{Bucket: store.Limit{Capacity: o.C, LeakRate: o.R}.For(o.Key), Amount: o.N}
			switch o.Op {
			case "try":
				if o.R > 0 {
					local.Force(s, op.Bucket, o.C/4)
				}
			case "able":
				op.Mode = store.Ask
			case "fillup":
				op.Mode = store.Clamp
			case "always", "drain":
				op.Mode = store.Always
				if o.Op == "drain" {
					op.Amount = -o.N
				}
			case "hold":
				op.Amount, op.Hold = 0, o.N
			case "release", "capture":
				op.Amount, op.Hold, op.Mode = o.M, -o.N, store.Always
			default:
				continue // it changes nothing, or is a transaction, which leases pass on
			}
			st, err := s.Fill(t.Context(), op)
			if err != nil {
				continue
			}
			if op.Mode == store.IfFits && !st.Accepted {
				op.Ceiling = 0x1p-100 // the bucket alone may have room, and must refuse: a refusal ends the time at an old rate
				if want, err := alone.Fill(t.Context(), op); err != nil || want.Accepted {
					t.Fatalf("%+v, %v", want, err)
				}
				continue
			}
			if op.Mode == store.IfFits && op.Amount > 0 {
				accepted++
				if st.Estimate {
					served++
				}
			}
			want, err := alone.Fill(t.Context(), op)
			if err != nil || op.Mode == store.IfFits && !want.Accepted {
				t.Errorf("%s, operation %d: leases accept %v, and the bucket alone answers %+v, %v", v.Name, i, o.N, want, err)
				break
			}
			if op.Amount < 0 && want.Drained < -op.Amount {
				break // the drain has taken units of allotments out, too, which stay allotted
			}
		}
	}
	t.Logf("%d accepted, %d of them from allotments", accepted, served)
	if served < accepted/10 {
		t.Error("the test misses allotments")
	}
}
