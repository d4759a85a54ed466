package main

import (
	"fmt"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/plot"
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
	postgresName, boltName, relaxedName, memoryName      = "brim postgres", "brim bolt", "brim bolt relaxed", "brim memory"
	refusalsName                                         = "brim refusals over memory"
	updateName, boltUpdate, rateName                     = "bare UPDATE", "db.Update", "x/time/rate"
	redisAlwaysName, redisEverysecName, redisClusterName = "brim redis, AOF always", "brim redis, AOF everysec", "brim redis, cluster"
	redisRateName, redisRateEverysec, redisRateCluster   = "redis_rate, AOF always", "redis_rate, AOF everysec", "redis_rate, cluster"
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
	ratio("PostgreSQL, lone caller, uniform / bare UPDATE", postgresName, updateName, accepted("uniform", 1), 0.95, 1)
	ratio("PostgreSQL, uniform, 16 callers / bare UPDATE", postgresName, updateName, accepted("uniform", 16), 2, 3)
	ratio("PostgreSQL, uniform, 64 callers / bare UPDATE", postgresName, updateName, accepted("uniform", 64), 4, 8)
	ratio("PostgreSQL, uniform, 256 callers / bare UPDATE", postgresName, updateName, accepted("uniform", 256), 8, 12)
	ratio("PostgreSQL, hot, 64 callers / bare UPDATE", postgresName, updateName, accepted("hot", 64), 100, 150)
	ratio("PostgreSQL, hot, 256 callers / bare UPDATE", postgresName, updateName, accepted("hot", 256), 250, 400)
	ratio("PostgreSQL, uniform, 256 callers / redis_rate, AOF always", postgresName, redisRateName,
		accepted("uniform", 256), 3, 4)
	ratio("PostgreSQL, hot, 64 callers / redis_rate, AOF always", postgresName, redisRateName,
		accepted("hot", 64), 6, 10)

	for _, f := range []struct {
		deployment, ours, theirs, distribution string
		callers                                int
		required, aim                          float64
	}{
		{"AOF everysec", redisEverysecName, redisRateEverysec, "uniform", 1, 0.9, 1},
		{"AOF everysec", redisEverysecName, redisRateEverysec, "uniform", 16, 1.5, 2},
		{"AOF everysec", redisEverysecName, redisRateEverysec, "uniform", 64, 2.6, 3.3},
		{"AOF everysec", redisEverysecName, redisRateEverysec, "uniform", 256, 3.6, 5},
		{"AOF everysec", redisEverysecName, redisRateEverysec, "hot", 64, 7, 10},
		{"AOF everysec", redisEverysecName, redisRateEverysec, "hot", 256, 14, 18},
		{"AOF always", redisAlwaysName, redisRateName, "uniform", 1, 1, 1.1},
		{"AOF always", redisAlwaysName, redisRateName, "uniform", 64, 1.9, 2.5},
		{"AOF always", redisAlwaysName, redisRateName, "uniform", 256, 3, 4.2},
		{"AOF always", redisAlwaysName, redisRateName, "hot", 64, 4, 5.5},
		{"AOF always", redisAlwaysName, redisRateName, "hot", 256, 10, 13},
		{"cluster", redisClusterName, redisRateCluster, "uniform", 64, 2.6, 3.2},
		{"cluster", redisClusterName, redisRateCluster, "uniform", 256, 3.8, 5},
		{"cluster", redisClusterName, redisRateCluster, "hot", 64, 5, 7},
		{"cluster", redisClusterName, redisRateCluster, "hot", 256, 13, 17},
	} {
		ratio(fmt.Sprintf("Redis, %s, %s, %d callers / redis_rate", f.deployment, f.distribution, f.callers),
			f.ours, f.theirs, accepted(f.distribution, f.callers), f.required, f.aim)
	}
	cpu, ok := r.ratio(redisEverysecName, redisRateEverysec, accepted("uniform", 64), worked)
	add("Redis, server CPU per decision, uniform, 64 callers, share of redis_rate's", 0.35, 0.25, true, cpu, ok)

	logged := func(name, subject string, required, aim float64, in ...cell) {
		worst, ok := 0.0, true
		for _, c := range in {
			m := r.find(subject, c)
			if ok = ok && m != nil && len(m.Written) > 0; ok {
				worst = max(worst, load.Median(m.Written))
			}
		}
		add(name, required, aim, true, worst, ok)
	}
	logged("AOF bytes per decision, uniform, 64 callers", redisEverysecName, 95, 65, accepted("uniform", 64))
	logged("AOF bytes per decision, hot, 64 callers", redisEverysecName, 3, 2, accepted("hot", 64))
	logged("WAL bytes per accepted decision, uniform, 64 callers", postgresName, 150, 120, accepted("uniform", 64))
	logged("WAL bytes per accepted decision, hot, 64 callers", postgresName, 5, 2, accepted("hot", 64))
	logged("WAL bytes per refused decision, lone caller", postgresName, 0, 0, refused("uniform", 1))
	logged("WAL bytes per refused decision, 64 callers, uniform and hot", postgresName, 0, 0, refused("uniform", 64),
		refused("hot", 64))

	var s storage
	if r.Storage != nil {
		s = *r.Storage
	}
	add("PostgreSQL, share of heap-only updates", 0.99, 1, false, s.HeapOnly, r.Storage != nil && s.Updated > 0)
	add("PostgreSQL, heap growth in 30 s of a hot key", 0.02, 0.001, true, s.HotGrowth,
		r.Storage != nil && !r.Plan.Quick)

	for _, f := range []struct {
		distribution  string
		required, aim float64
	}{{"hot", 2, 4}, {"uniform", 2, 3}} {
		ratio("refused again from memory, "+f.distribution+", times as fast as x/time/rate", refusalsName, rateName,
			inMemory(f.distribution, 1), f.required, f.aim)
	}
	allocs := 0.0
	if r.RefusedAllocations != nil {
		allocs = *r.RefusedAllocations
	}
	add("refused again from memory, allocations", 0, 0, true, allocs, r.RefusedAllocations != nil)

	r.checkSustained(add)
	relaxed := r.find(relaxedName, inMemory("uniform", 0))
	var perSecond float64
	if relaxed != nil {
		perSecond = load.Median(relaxed.Rates)
	}
	add("bolt relaxed, uniform, decisions per second", 4_000_000, 6_000_000, false, perSecond, relaxed != nil)
	ratio("memory, hot, times as fast as x/time/rate", memoryName, rateName, inMemory("hot", 0), 1, 1.5)
	ratio("memory, uniform, times as fast as x/time/rate", memoryName, rateName, inMemory("uniform", 0), 3, 4)

	for _, b := range []struct {
		name          string
		required, aim float64
	}{{postgresName, 140, 130}, {boltName, 125, 100}, {memoryName, 64, 48}, {redisEverysecName, 175, 160}} {
		g := r.grownTo(b.name, growthTo)
		var v float64
		if g != nil {
			v = g.Bytes
		}
		add("bytes per bucket at 10^6, "+b.name, b.required, b.aim, true, v, g != nil)
	}
	for _, f := range []struct {
		distribution  string
		required, aim float64
	}{{"uniform", 0.25, 0.2}, {"hot", 0.01, 0.005}} {
		v, ok := r.ratio(postgresName, updateName, accepted(f.distribution, 64), p99s)
		add("PostgreSQL, "+f.distribution+", 64 callers, p99 / bare UPDATE's", f.required, f.aim, true, v, ok)
	}
	ours, theirs := find(r.Firsts, firsts, accepted("uniform", 64)), find(r.Firsts, updateName, accepted("uniform", 64))
	var inserts float64
	ok = ours != nil && theirs != nil
	if ok {
		inserts, ok = load.Ratio(ours.Rates, theirs.Rates)
	}
	add("PostgreSQL, first insert of new keys, 64 callers / bare UPDATE", 2.5, 4, false, inserts, ok)
	for _, f := range []struct {
		name          string
		required, aim float64
	}{{postgresName, 1.2, 1.1}, {boltName, 1.2, 1.1}, {memoryName, 2, 2}} {
		v, ok := r.growth(f.name, growthFrom, growthTo)
		add("time per decision at 10^6 buckets / at 10^4, "+f.name, f.required, f.aim, true, v, ok)
	}
}

// checkSustained collects the figures that bolt must reach over a time in which its journal is
// rotated.
func (r *results) checkSustained(add func(name string, required, aim float64, atMost bool, measured float64, ok bool)) {
	for _, buckets := range []int{100_000, 1_000_000} {
		among := fmt.Sprintf(", %s buckets", plot.Number(float64(buckets)))
		for _, f := range []struct {
			workload, against string
			cell              cell
			required, aim     float64
		}{
			{"lone caller, uniform", boltUpdate, cell{"uniform", 1, 0, false}, 1.7, 2},
			{"lone caller, uniform", syncName, cell{"uniform", 1, 0, false}, 0.8, 0.9},
			{"uniform, 64 callers", boltUpdate, cell{"uniform", 64, 0, false}, 30, 60},
			{"uniform, 256 callers", boltUpdate, cell{"uniform", 256, 0, false}, 60, 150},
			{"hot, 64 callers", boltUpdate, cell{"hot", 64, 0, false}, 100, 150},
			{"hot, 256 callers", boltUpdate, cell{"hot", 256, 0, false}, 250, 400},
		} {
			v, ok := r.sustainedRatio(f.against, buckets, f.cell)
			add("bolt, sustained, "+f.workload+among+" / "+f.against, f.required, f.aim, false, v, ok)
		}
		v, ok := r.sustainedBytes(buckets)
		add("bolt, sustained, bytes written per decision, uniform, 64 callers"+among, 400, 400, true, v, ok)
	}
}
