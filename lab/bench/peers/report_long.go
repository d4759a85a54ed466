package main

import (
	"fmt"
	"strings"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/internal/table"
)

// writeLatencies writes the answer times, if they were measured.
func (r *results) writeLatencies(b *strings.Builder) {
	if len(r.Latencies) == 0 {
		return
	}
	b.WriteString("\n## Latency\n\n")
	fmt.Fprintf(b, "Answer times in milliseconds, uniform, of %v for each subject and loop, in %d turns. ",
		r.Plan.Latency, r.Plan.LatencyTurns)
	fmt.Fprintf(b, "In the closed loop %d callers ask again as soon as they have their answers. ", latencyCallers)
	b.WriteString("In the open loop calls begin at half of the largest rate that this run measured for the subject, ")
	b.WriteString("whether or not earlier ones were answered. There a time counts from the moment at which the call ")
	b.WriteString("was due, also if the program itself was late. ")
	b.WriteString("Half-way through each turn expired buckets are pruned; a prune that takes longer than the rest of ")
	b.WriteString("the turn ends after it. ")
	b.WriteString("A subject with an asterisk could not keep up: its times depend on the length of the measurement.\n\n")
	for _, of := range []struct {
		title string
		loop  func(l *latency) *loop
	}{
		{"closed loop", func(l *latency) *loop { return l.Closed }},
		{"open loop", func(l *latency) *loop { return l.Open }},
	} {
		t := table.Numeric(of.title, "decisions per second", "p50", "p99", "p99.9", "p99 / the reference's", "to",
			"prune ms", "journal rotations", "failed")
		for _, l := range r.Latencies {
			own := of.loop(l)
			if own == nil {
				continue
			}
			name := l.Subject
			if own.saturated() {
				name += " *"
			}
			ratio, against := r.latencyRatio(l.Subject, of.loop)
			t.Add(name, plot.Number(load.Median(own.Rates)), plot.Number(own.P50), plot.Number(own.P99),
				plot.Number(own.P999), ratio, against, ifAny(own.Prunes), ifSome(own.Rotations), ifSome(own.Failed))
		}
		b.WriteString(t.Markdown() + "\n")
	}
}

// latencyRatio returns the median ratio of the 99th percentiles of a subject and of the one that it
// is compared with, and the name of the latter. Both are "" if one of them was not measured.
func (r *results) latencyRatio(subject string, loopOf func(*latency) *loop) (ratio, against string) {
	var ours, theirs *loop
	for _, s := range r.Subjects {
		if s.Name == subject {
			against = s.Against
		}
	}
	for _, l := range r.Latencies {
		if l.Subject == subject {
			ours = loopOf(l)
		}
		if l.Subject == against {
			theirs = loopOf(l)
		}
	}
	if ours == nil || theirs == nil {
		return "", ""
	}
	v, ok := load.Ratio(ours.P99s, theirs.P99s)
	if !ok {
		return "", ""
	}
	return plot.Number(v), against
}

// writeSustained writes the sustained figures of bolt, if they were measured.
func (r *results) writeSustained(b *strings.Builder) {
	if len(r.Sustained) == 0 {
		return
	}
	b.WriteString("\n## bolt, sustained\n\n")
	fmt.Fprintf(b, "Sums of %d turns, of %v for each subject and workload, ", r.Plan.SustainedTurns, r.Plan.Sustained)
	fmt.Fprintf(b, "and up to %d times as many turns again until the journal was rotated %d times; ",
		r.Plan.SustainedAgain, leastRotations)
	b.WriteString("without that a figure does not count. ")
	b.WriteString("A turn of bolt ends when the regions of the journal that are full stand in the bbolt file. ")
	b.WriteString("The bytes are those that the process caused to be written to the disk, by Linux's count.\n\n")
	t := table.Numeric("subject", "buckets", "workload", "decisions per second", "times bolt is as fast", "median p99 ms",
		"bytes written per decision", "journal rotations")
	for _, s := range r.Sustained {
		ratio := ""
		if s.Subject != boltName {
			if v, ok := r.sustainedRatio(s.Subject, s.Buckets, s.Cell); ok {
				ratio = plot.Number(v)
			}
		}
		bytes := ""
		if s.Bytes > 0 {
			bytes = plot.Number(s.bytesPerDecision())
		}
		t.Add(s.Subject, plot.Number(float64(s.Buckets)), s.Cell.String(), plot.Number(s.perSecond()), ratio,
			plot.Number(load.Median(s.P99)), bytes, ifSome(s.Rotations))
	}
	b.WriteString(t.Markdown())
}

// writeStorage writes the figures of a table in PostgreSQL, of new keys and of refusals from memory,
// if they were measured.
func (r *results) writeStorage(b *strings.Builder) {
	t := table.Numeric("figure", "measured")
	if s := r.Storage; s != nil && s.Updated > 0 {
		t.Add("PostgreSQL, share of heap-only updates", plot.Number(s.HeapOnly))
		t.Add(fmt.Sprintf("PostgreSQL, heap growth in %v of a hot key", r.Plan.HotFor), plot.Number(s.HotGrowth))
	}
	c := cell{"uniform", 64, 0, false}
	if ours, theirs := find(r.Firsts, firsts, c), find(r.Firsts, updateName, c); ours != nil && theirs != nil {
		if v, ok := load.Ratio(ours.Rates, theirs.Rates); ok {
			t.Add("PostgreSQL, first insert of new keys, 64 callers / bare UPDATE", plot.Number(v))
		}
	}
	if r.RefusedAllocations != nil {
		t.Add("refused again from memory, allocations", plot.Number(*r.RefusedAllocations))
	}
	if len(t.Rows) > 0 {
		b.WriteString("\n## Tables, new keys and allocations\n\n" + t.Markdown())
	}
}

// ifAny returns the median of values, "" if there are none or if it is 0.
func ifAny(values []float64) string {
	if v := load.Median(values); v != 0 {
		return plot.Number(v)
	}
	return ""
}

// ifSome returns n, "" if it is 0.
func ifSome(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
