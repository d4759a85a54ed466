package lin

import (
	"hash/maphash"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/store"
)

// leaseModel is the contract of local.Leases, which is weaker than that of a store. Units that
// wait in allotments count in the bucket, so a call can be refused although it would fit. The model
// keeps the level that the accepted units alone would have. That level never exceeds the capacity.
// A call is refused only if its amount would take that level above the part of the capacity that
// leases leave. Decisions come in the order of the clock. Levels in the answers are estimates, and
// are not compared.
type leaseModel struct {
	limit store.Limit
	share float64
}

// served is the level of the units that were accepted, at a time.
type served struct {
	level float64
	time  int64
}

func (s served) equal(other state) bool { return s == other }
func (s served) hash() uint64           { return maphash.Comparable(hashSeed, s) }

func (m *leaseModel) start() state { return served{} }

func (m *leaseModel) step(before state, c *call) (after []state) {
	b, _ := before.(served)
	q, _ := c.in.(storeRequest)
	a, _ := c.out.(storeResponse)
	amount := q.Txns[0][0].Amount
	if c.out == nil {
		after = append(after, b)
		a.Results = []history.Result{{Accepted: true}}
	}
	for _, now := range c.readings {
		if now < b.time || c.out != nil && !timely(a.Results[0], now) {
			continue
		}
		level := max(0, b.level-m.limit.LeakRate*(float64(now-b.time)/1e6))
		if !a.Results[0].Accepted {
			if level+amount > (1-m.share)*m.limit.Capacity {
				after = append(after, served{level, now})
			}
			continue
		}
		if level += amount; level <= m.limit.Capacity {
			after = append(after, served{level, now})
		}
	}
	return after
}

// timely reports whether an answer can have been decided at a time. The At of an answer from memory
// is only a lower bound.
func timely(res history.Result, now int64) bool {
	return res.At[0] == now || res.Estimate && res.At[0] <= now
}
