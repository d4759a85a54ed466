package lin

import (
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is a state of a model. It never changes.
type state interface {
	equal(state) bool
	hash() uint64
}

// model is the exact behavior of a subject.
type model interface {
	// start returns the state before the first call.
	start() state
	// step returns the states that are possible after a call, and none if its answer is false in
	// the state before.
	step(before state, c *call) []state
}

// verdict is the result of a check.
type verdict struct {
	porcupine.CheckResult
	part []*call // the calls that contradict each other
}

// check compares a history with a model. Buckets that no call touches together are checked one
// after the other, and patience limits the time of all.
func check(m model, calls []*call, patience time.Duration) verdict {
	v := verdict{CheckResult: porcupine.Ok}
	end := time.Now().Add(patience)
	for _, part := range partition(calls) {
		left := max(time.Millisecond, time.Until(end)) // 0 would be no limit
		switch result := porcupine.CheckOperationsTimeout(checked(m), operations(part), left); result {
		case porcupine.Illegal:
			return verdict{CheckResult: result, part: part}
		case porcupine.Unknown:
			v.CheckResult = result
		}
	}
	return v
}

// illegal reports whether calls that touch each other contradict the model.
func illegal(m model, part []*call, patience time.Duration) bool {
	return porcupine.CheckOperationsTimeout(checked(m), operations(part), patience) == porcupine.Illegal
}

// longest returns the longest order of some calls that the model allows.
func longest(m model, part []*call, patience time.Duration) (order []*call) {
	_, info := porcupine.CheckOperationsVerbose(checked(m), operations(part), patience)
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, ops := range partition {
			if len(ops) <= len(order) {
				continue
			}
			order = nil
			for _, op := range ops {
				if c, ok := op.Input.(*call); ok {
					order = append(order, c)
				}
			}
		}
	}
	return order
}

// checked returns the model as porcupine takes it.
func checked(m model) porcupine.Model {
	// porcupine hands back the model's own states and the calls of operations.
	under := func(s any) state { own, _ := s.(state); return own }
	n := porcupine.NondeterministicModel{
		Init: func() []any { return []any{m.start()} },
		Step: func(before, in, _ any) (after []any) {
			c, _ := in.(*call)
			for _, s := range m.step(under(before), c) {
				after = append(after, s)
			}
			return after
		},
		Equal: func(a, b any) bool { return under(a).equal(under(b)) },
		Hash:  func(s any) uint64 { return under(s).hash() },
	}
	return n.ToModel()
}

func operations(calls []*call) []porcupine.Operation {
	ops := make([]porcupine.Operation, len(calls))
	for i, c := range calls {
		ops[i] = porcupine.Operation{ClientId: c.client, Input: c, Call: c.began, Return: c.over}
	}
	narrow(calls, ops)
	return ops
}

// partition splits calls into parts that touch no bucket in common.
func partition(calls []*call) (parts [][]*call) {
	root := make(map[int]int)
	var find func(k int) int
	find = func(k int) int {
		if up, ok := root[k]; ok && up != k {
			return find(up)
		}
		root[k] = k
		return k
	}
	for _, c := range calls {
		for _, k := range c.in.touches() {
			root[find(k)] = find(c.in.touches()[0])
		}
	}
	index := make(map[int]int)
	for _, c := range calls {
		touched := c.in.touches()
		if len(touched) == 0 {
			continue
		}
		k := find(touched[0])
		if _, ok := index[k]; !ok {
			index[k] = len(parts)
			parts = append(parts, nil)
		}
		parts[index[k]] = append(parts[index[k]], c)
	}
	for _, part := range parts {
		slices.SortFunc(part, func(a, b *call) int { return int(a.began - b.began) })
	}
	return parts
}
