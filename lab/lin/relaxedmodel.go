package lin

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/brimgo/brim/lab/internal/history"
)

// relaxedModel is the model of a store that answers before it writes. A crash takes each bucket
// back to its content before some call, but to none before the last Sync, and to none before a call
// that was acknowledged longer than a time before the crash. Calls of these histories touch one
// bucket each.
type relaxedModel struct {
	*storeModel
	// lag is the age from which acknowledged calls last: two windows, and what a busy machine adds.
	lag time.Duration
}

// relaxed is a state of a relaxedModel.
type relaxed struct {
	content
	past []older // what a crash may bring back, the oldest first
}

// older is the content before a call, and when that call was acknowledged.
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
			if c.out == nil { // nobody was told, so it may be lost at any time
				lost = never
			}
			s.past = append(slices.Clip(b.past), older{b.content, lost})
		}
		after = append(after, s)
	}
	return after
}
