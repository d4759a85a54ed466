package lin

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/brimgo/brim/lab/internal/history"
)

// relaxedModel is the model of a store that answers before it writes. A crash may undo the last
// calls on a bucket. It undoes no call before the last Sync, and no call that was acknowledged more
// than lag before the crash. Each call of these histories touches one bucket.
type relaxedModel struct {
	*storeModel
	// lag is the age at which an acknowledged call is durable: two windows, and an allowance for a
	// busy machine.
	lag time.Duration
}

// relaxed is a state of a relaxedModel.
type relaxed struct {
	content
	past []older // the contents that a crash may restore, the oldest first
}

// older is the content before a call, and the time at which the call was acknowledged.
type older struct {
	content
	lostAt time.Duration
}

func (s relaxed) equal(other state) bool {
	o, ok := other.(relaxed)
	return ok && s.content == o.content && slices.Equal(s.past, o.past)
}

func (s relaxed) hash() uint64 {
	h := s.content.hash()
	for _, p := range s.past {
		h = h*31 + maphash.Comparable(hashSeed, p)
	}
	return h
}

func (m *relaxedModel) start() state { return relaxed{} }

func (m *relaxedModel) step(before state, c *call) (after []state) {
	b, _ := before.(relaxed)
	q, _ := c.in.(storeRequest)
	switch q.Kind {
	case history.Sync:
		return []state{relaxed{content: b.content}}
	case crash:
		after = append(after, relaxed{content: b.content})
		for _, p := range slices.Backward(b.past) {
			if p.lostAt < c.wall-m.lag {
				break
			}
			after = append(after, relaxed{content: p.content})
		}
		return after
	}
	for _, next := range m.next(b.content, c) {
		s := relaxed{content: next, past: b.past}
		if next != b.content {
			lost := c.wall
			if c.out == nil { // the call was not acknowledged, so any later crash may undo it
				lost = never
			}
			s.past = append(slices.Clip(b.past), older{b.content, lost})
		}
		after = append(after, s)
	}
	return after
}
