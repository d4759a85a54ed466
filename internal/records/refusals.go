package records

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/brimgo/brim/store"
)

// Refusals remember of which buckets the last answer was a refusal. A refusal writes nothing, so
// that a question can answer the next call, which then waits for no commit.
type Refusals struct {
	seed    maphash.Seed
	refused [Places]atomic.Bool // by hash of key
}

// Places is the number of groups of keys that are told apart.
const Places = 1024

// NewRefusals returns Refusals.
func NewRefusals() *Refusals { return &Refusals{seed: maphash.MakeSeed()} }

// Call is a call of Fill.
type Call struct {
	Hash uint64 // of the key
	Ask  bool   // a question may answer it
	last *atomic.Bool
}

// Of returns the call of an operation. An Ask writes nothing, nor does an amount of 0.
func (r *Refusals) Of(op *store.Op) (c Call) {
	refuses := op.Mode == store.IfFits || op.Mode == store.UpTo
	c.Hash = maphash.String(r.seed, op.Key)
	if refuses && op.BlockFor == 0 {
		c.last = &r.refused[c.Hash%Places]
	}
	c.Ask = op.Mode > store.Always && !refuses || op.Amount == 0 && op.Hold == 0 || c.last != nil && c.last.Load()
	return c
}

// Answered notes an answer that was no question's.
func (c Call) Answered(st *store.State) {
	if c.last != nil && c.last.Load() == st.Accepted {
		c.last.Store(!st.Accepted)
	}
}
