package history

import (
	"math/rand/v2"
	"testing"
)

// TestRandom: a seed has one history, and histories hold calls of every kind.
func TestRandom(t *testing.T) {
	random := func() []Op { return Random(rand.New(rand.NewPCG(1, 0)), Ledger, 500, 20) }
	kinds := make(map[Kind]int)
	for i, op := range random() {
		kinds[op.Kind]++
		if again := random()[i]; again.String() != op.String() {
			t.Fatalf("call %d is %v, then %v", i, op, again)
		}
	}
	for _, k := range []Kind{Fill, Apply, Delete, Prune, Tick, Compact, Reopen, Sync, Together, Authorize, Capture, Refund} {
		if kinds[k] == 0 {
			t.Errorf("no call is a %s", k)
		}
	}
}
