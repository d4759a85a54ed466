package main

import (
	"github.com/brimgo/brim/internal/load"
)

// figure is one of the figures that brim must reach.
type figure struct {
	Name     string   `json:"figure"`
	Measured *float64 `json:"measured"` // nil if not measured in this run
	Required float64  `json:"required"`
	Aim      float64  `json:"aim"`
	AtMost   bool     `json:"at_most"` // a smaller value is better
}

// reached reports whether the measured value is at least as good as want.
func (f *figure) reached(want float64) bool {
	switch {
	case f.Measured == nil:
		return false
	case f.AtMost:
		return *f.Measured <= want
	default:
		return *f.Measured >= want
	}
}

// verdict returns "aim", "yes", "NO" or "not measured".
func (f *figure) verdict() string {
	switch {
	case f.Measured == nil:
		return "not measured"
	case f.reached(f.Aim):
		return "aim"
	case f.reached(f.Required):
		return "yes"
	default:
		return "NO"
	}
}

const (
	postgresName, boltName, relaxedName, memoryName = "brim postgres", "brim bolt", "brim bolt relaxed", "brim memory"
	refusalsName                                    = "brim refusals over memory"
	updateName, boltUpdate, rateName                = "bare UPDATE", "db.Update", "x/time/rate"
	redisRateName                                   = "redis_rate, AOF always"
)

// check collects the figures that brim must reach. cores is the number of callers of the cells in
// memory.
func (r *results) check(cores int) {
	accepted := func(distribution string, callers int) cell { return cell{distribution, callers, 0, false} }
	refused := func(distribution string, callers int) cell { return cell{distribution, callers, 1, false} }
	inMemory := func(distribution string, share float64) cell { return cell{distribution, cores, share, true} }

	add := func(name string, required, aim float64, atMost bool, measured float64, ok bool) {
		f := &figure{Name: name, Required: required, Aim: aim, AtMost: atMost}
		if ok {
			f.Measured = &measured
		}
		r.Figures = append(r.Figures, f)
	}
	ratio := func(name, ours, theirs string, c cell, required, aim float64) {
		v, ok := r.ratio(ours, theirs, c, rates)
		add(name, required, aim, false, v, ok)
	}
	ratio("PostgreSQL, lone caller, uniform / bare UPDATE", postgresName, updateName, accepted("uniform", 1), 0.85, 1)
	ratio("PostgreSQL, uniform, 16 callers / bare UPDATE", postgresName, updateName, accepted("uniform", 16), 1.2, 2)
	ratio("PostgreSQL, uniform, 64 callers / bare UPDATE", postgresName, updateName, accepted("uniform", 64), 2.4, 4)
	ratio("PostgreSQL, uniform, 256 callers / bare UPDATE", postgresName, updateName, accepted("uniform", 256), 3.8, 8)
	ratio("PostgreSQL, hot, 64 callers / bare UPDATE", postgresName, updateName, accepted("hot", 64), 40, 100)
	ratio("PostgreSQL, hot, 256 callers / bare UPDATE", postgresName, updateName, accepted("hot", 256), 90, 250)
	ratio("PostgreSQL, uniform, 256 callers / redis_rate, AOF always", postgresName, redisRateName,
		accepted("uniform", 256), 1.8, 3)
	ratio("PostgreSQL, hot, 64 callers / redis_rate, AOF always", postgresName, redisRateName,
		accepted("hot", 64), 3.5, 10)

	wal := func(name string, required, aim float64, in ...cell) {
		worst, ok := 0.0, true
		for _, c := range in {
			m := r.find(postgresName, c)
			if ok = ok && m != nil && len(m.Written) > 0; ok {
				worst = max(worst, load.Median(m.Written))
			}
		}
		add(name, required, aim, true, worst, ok)
	}
	wal("WAL bytes per accepted decision, uniform, 64 callers", 250, 150, accepted("uniform", 64))
	wal("WAL bytes per accepted decision, hot, 64 callers", 10, 5, accepted("hot", 64))
	wal("WAL bytes per refused decision, lone caller", 0, 0, refused("uniform", 1))
	wal("WAL bytes per refused decision, 64 callers, uniform and hot", 10, 0, refused("uniform", 64),
		refused("hot", 64))

	var s storage
	if r.Storage != nil {
		s = *r.Storage
	}
	add("PostgreSQL, share of heap-only updates", 0.98, 1, false, s.HeapOnly, r.Storage != nil && s.Updated > 0)
	add("PostgreSQL, heap growth in 30 s of a hot key", 0.02, 0.001, true, s.HotGrowth,
		r.Storage != nil && !r.Plan.Quick)

	for distribution, required := range inOrder("hot", 1.2, "uniform", 1.0) {
		// The time of a decision is the inverse of the decisions per second.
		v, ok := r.ratio(rateName, refusalsName, inMemory(distribution, 1), rates)
		add("refused again from memory, "+distribution+", time / x/time/rate's", required, 0.5, true, v, ok)
	}
	allocs := 0.0
	if r.RefusedAllocations != nil {
		allocs = *r.RefusedAllocations
	}
	add("refused again from memory, allocations", 0, 0, true, allocs, r.RefusedAllocations != nil)

	ratio("bolt, lone caller, uniform / db.Update", boltName, boltUpdate, accepted("uniform", 1), 0.9, 1)
	ratio("bolt, uniform, 64 callers / db.Update", boltName, boltUpdate, accepted("uniform", 64), 9, 30)
	ratio("bolt, uniform, 256 callers / db.Update", boltName, boltUpdate, accepted("uniform", 256), 13, 60)
	ratio("bolt, hot, 64 callers / db.Update", boltName, boltUpdate, accepted("hot", 64), 45, 150)
	ratio("bolt, hot, 256 callers / db.Update", boltName, boltUpdate, accepted("hot", 256), 100, 300)
	relaxed := r.find(relaxedName, inMemory("uniform", 0))
	var perSecond float64
	if relaxed != nil {
		perSecond = load.Median(relaxed.Rates)
	}
	add("bolt relaxed, uniform, decisions per second", 800_000, 2_000_000, false, perSecond, relaxed != nil)
	ratio("memory, hot, times as fast as x/time/rate", memoryName, rateName, inMemory("hot", 0), 0.7, 1)
	ratio("memory, uniform, times as fast as x/time/rate", memoryName, rateName, inMemory("uniform", 0), 1.8, 3)

	for _, b := range []struct {
		name          string
		required, aim float64
	}{{postgresName, 170, 140}, {boltName, 150, 125}, {memoryName, 110, 80}} {
		g := r.grownTo(b.name, growthTo)
		var v float64
		if g != nil {
			v = g.Bytes
		}
		add("bytes per bucket at 10^6, "+b.name, b.required, b.aim, true, v, g != nil)
	}
	for distribution, required := range inOrder("uniform", 0.6, "hot", 0.1) {
		aim := map[string]float64{"uniform": 0.3, "hot": 0.02}[distribution]
		v, ok := r.ratio(postgresName, updateName, accepted(distribution, 64), p99s)
		add("PostgreSQL, "+distribution+", 64 callers, p99 / bare UPDATE's", required, aim, true, v, ok)
	}
	ours, theirs := find(r.Firsts, firsts, accepted("uniform", 64)), find(r.Firsts, updateName, accepted("uniform", 64))
	var inserts float64
	ok := ours != nil && theirs != nil
	if ok {
		inserts, ok = load.Ratio(ours.Rates, theirs.Rates)
	}
	add("PostgreSQL, first insert of new keys, 64 callers / bare UPDATE", 2.5, 4, false, inserts, ok)
	for _, name := range []string{postgresName, boltName, memoryName} {
		small, large := r.grownTo(name, growthFrom), r.grownTo(name, growthTo)
		var v float64
		ok := small != nil && large != nil
		if ok {
			v, ok = load.Ratio(small.Rates, large.Rates)
		}
		add("time per decision at 10^6 buckets / at 10^4, "+name, 1.5, 1.2, true, v, ok)
	}
}

// inOrder yields two pairs in the given order. A map would yield them in any order.
func inOrder(a string, x float64, b string, y float64) func(yield func(string, float64) bool) {
	return func(yield func(string, float64) bool) {
		_ = yield(a, x) && yield(b, y)
	}
}
