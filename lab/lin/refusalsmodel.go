package lin

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/store"
)

// refusalsModel is the contract of local.Refusals, which is weaker than that of a store in one
// point. Answers of the wrapped store are exact. A refusal from memory may overlook room that a
// call makes until that call has returned, although other calls show the room already. A call of
// unknown outcome makes its room at any time until its server process has ended.
type refusalsModel struct{ *storeModel }

// roomy is a state of a refusalsModel.
type roomy struct {
	content
	made []room // in the order of over, then of key
}

// room is units that a call took out of a bucket.
type room struct {
	key        int
	level, all float64 // the units without and with those that were held
	over       int64   // when the call had returned
}

func (s roomy) equal(other state) bool {
	o, ok := other.(roomy)
	return ok && s.content.equal(o.content) && slices.Equal(s.made, o.made)
}

func (s roomy) hash() uint64 {
	h := s.content.hash()
	for _, m := range s.made {
		h = h*31 + maphash.Comparable(hashSeed, m)
	}
	return h
}

func (m refusalsModel) start() state { return roomy{content: content{}} }

func (m refusalsModel) step(before state, c *call) (after []state) {
	b, _ := before.(roomy)
	q, _ := c.in.(storeRequest)
	a, ok := c.out.(storeResponse)
	if ok && len(a.Results) > 0 && len(a.Results[0].States) > 0 && a.Results[0].States[0].Estimate {
		return m.refused(b, q.Op, a.Results[0].States[0], c)
	}
	for _, next := range m.next(b.content, c) {
		s := roomy{content: next, made: b.made}
		at := m.latest(next, q.Op)
		for k := range keys {
			full, _ := m.with(b.content).Read(m.bucket(k), at, nil)
			left, _ := m.with(next).Read(m.bucket(k), at, nil)
			drained := full.Level - left.Level
			if all := drained + full.Held - left.Held; all > 0 {
				s.made = append(slices.Clip(s.made), room{key: k, level: max(0, drained), all: all, over: c.over})
			}
		}
		slices.SortFunc(s.made, func(x, y room) int { return cmp.Or(cmp.Compare(x.over, y.over), x.key-y.key) })
		after = append(after, s)
	}
	return after
}

// refused checks a refusal from memory, with and without the room of calls that had not returned
// when the refused call began.
func (m refusalsModel) refused(b roomy, op history.Op, got store.State, c *call) []state {
	k := op.Txns[0][0].Key
	full := m.with(maps.Clone(b.content))
	for _, r := range b.made {
		if r.key == k && r.over > c.began {
			room := store.Op{Bucket: m.bucket(k), Amount: r.level, Hold: max(0, r.all-r.level), Mode: store.Always}
			_, _ = full.Fill(room, m.latest(full.Buckets, op), nil)
		}
	}
	if m.estimate(b.content, op, got, c.readings) || m.estimate(full.Buckets, op, got, c.readings) {
		return []state{b}
	}
	return nil
}

// estimate reports whether a refusal from memory is true at a reading during the call.
func (m refusalsModel) estimate(b content, op history.Op, got store.State, readings []int64) bool {
	if readings == nil {
		readings = []int64{max(m.latest(b, op).UnixMicro(), got.At.UnixMicro())}
	}
	return slices.ContainsFunc(readings, func(at int64) bool {
		return history.Remembered(m.with(b), op.Txns[0][0].Op(m.bucket), time.UnixMicro(at), got)
	})
}
