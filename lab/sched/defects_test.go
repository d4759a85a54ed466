package sched

import "github.com/brimgo/brim/lab/internal/weave"

// The defects are in all programs, and [turn.SetDefect] switches one of them on. The woven files
// know package turn as weft.

var combineDefects = []weave.Edit{
	{
		File: "lane.go",
		Old:  "if c.busy[r.slot] == 0 && (c.ready == nil || c.ready(r.In)) {\n\t\t\tc.queue.remove(r)",
		New:  "if c.busy[r.slot] == 0 || weft.Defective(\"lost update\") {\n\t\t\tc.queue.remove(r)",
	},
	{
		File: "combine.go",
		Old:  "r.done <- struct{}{} // the caller may use r for something else from here on",
		New: `r.done <- struct{}{}
			if weft.Defective("answered twice") {
				select {
				case r.done <- struct{}{}:
				default:
				}
			}`,
	},
	{
		File: "combine.go",
		Old:  "if r != nil {\n",
		New:  "if r != nil && !(i > 0 && weft.Defective(\"never answered\")) {\n",
	},
	{
		File: "combine.go",
		Old:  "if !done {\n",
		New:  "if !done || weft.Defective(\"another flush is cut\") {\n",
	},
	{
		File: "combine.go",
		Old:  "c.queue.remove(r)\n\t\tc.mu.Unlock()\n",
		New: `if r.next != nil && weft.Defective("leave takes another along") {
			c.queue.remove(r.next)
		}
		c.queue.remove(r)
		c.mu.Unlock()
`,
	},
}

var relaxedDefects = []weave.Edit{
	{
		File: "relaxed.go",
		Old:  "\tp.mu.Lock()\n\tc, err := r.getOpen(p, op.Key)\n",
		New: `	var early int64
	if weft.Defective("time steps back") {
		early = r.s.clock.Now()
	}
	p.mu.Lock()
	c, err := r.getOpen(p, op.Key)
`,
	},
	{
		File: "relaxed.go",
		Old: `		now := r.s.clock.Now() // under the lock, so that it is no older than the record
		var effect store.Effect
		st, effect, err = c.at(now).Fill(&op, now, r.s.options.MaxSkew)
`,
		New: `		now := early
		if early == 0 {
			now = r.s.clock.Now()
		}
		var effect store.Effect
		if weft.Defective("lost update") {
			rec := *c.at(now)
			p.mu.Unlock()
			st, effect, err = rec.Fill(&op, now, r.s.options.MaxSkew)
			p.mu.Lock()
			c.rec = rec
		} else {
			st, effect, err = c.at(now).Fill(&op, now, r.s.options.MaxSkew)
		}
`,
	},
	{
		File: "resident.go",
		Old:  "!c.changed && !c.writing && gone(c)",
		New:  "!c.changed && (!c.writing || weft.Defective(\"forgotten while it is written\")) && gone(c)",
	},
}

var leaseDefects = []weave.Edit{
	{
		File: "account.go",
		Old:  "\ta.allotment.Store(&allotment{\n",
		New:  "\tif weft.Defective(\"more than it took\") {\n\t\tleft += a.size\n\t}\n\ta.allotment.Store(&allotment{\n",
	},
	{
		File: "allotment.go",
		Old:  "\t\tif l.spent.CompareAndSwap(bits, math.Float64bits(before+n)) {\n",
		New: `		if weft.Defective("served twice") {
			l.spent.Store(math.Float64bits(before + n))
			return true
		}
		if l.spent.CompareAndSwap(bits, math.Float64bits(before+n)) {
`,
	},
}

var refusalsDefects = []weave.Edit{
	{
		File: "snapshot.go",
		Old:  "if elapsed < 0 || e.unsettled || e.rec.Limit != op.Limit || elapsed >= remember && n <= op.Capacity {",
		New: "if elapsed < 0 || e.rec.Limit != op.Limit || elapsed >= remember && n <= op.Capacity &&\n" +
			"\t\t!weft.Defective(\"remembered beyond its time\") {",
	},
	{
		File: "cache.go",
		Old:  "if cs.generation.Load() != generation ||",
		New:  "if cs.generation.Load() != generation && !weft.Defective(\"an old answer is learned\") ||",
	},
	{
		File: "refusals.go",
		Old:  "\t\t\treturn st, nil\n\t\t}\n\t}\n\tif op.Mode == store.Ask {",
		New: "\t\t\tst.Accepted = weft.Defective(\"granted from memory\")\n" +
			"\t\t\treturn st, nil\n\t\t}\n\t}\n\tif op.Mode == store.Ask {",
	},
}

var queueDefects = []weave.Edit{
	{
		File: "queue.go",
		Old:  "q.waiting = slices.Delete(q.waiting, i, i+1)\n",
		New: `q.waiting = slices.Delete(q.waiting, i, i+1)
			if weft.Defective("room is forgotten") {
				return true
			}
`,
	},
	{
		File: "queue.go",
		Old:  "earliest = turn.Add(spacing)\n",
		New:  "earliest = turn.Add(spacing)\n\t\tif weft.Defective(\"too early\") {\n\t\t\tearliest = turn\n\t\t}\n",
	},
}

var shaperDefects = []weave.Edit{
	{
		File: "shaper.go",
		Old:  "giveBack(ctx context.Context) error {\n",
		New:  "giveBack(ctx context.Context) error {\n\tif weft.Defective(\"slot lost\") {\n\t\treturn nil\n\t}\n",
	},
	{
		File: "shaper.go",
		Old:  "r.done = st.Accepted || errors.Is(err, ErrUnknownOutcome)\n",
		New:  "r.done = (st.Accepted || errors.Is(err, ErrUnknownOutcome)) && !weft.Defective(\"taken back twice\")\n",
	},
}
