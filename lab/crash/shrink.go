package crash

import (
	"math"
	"time"

	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/history"
)

// smallest looks for a shorter history that breaks the same promise as f, the finding of rec. It
// records each shorter history anew.
func smallest(seed harness.Seed, rec *recording, f *finding) (*recording, *finding, error) {
	var failure error
	harness.Shrink(rec.req.Ops, 200, func(ops []history.Op) bool {
		shorter := rec.scenario
		shorter.req.Ops = ops
		again, err := record(shorter, nil, nil)
		if err != nil {
			failure = err
			return false
		}
		g, err := cut(again, seed.Rand(), harness.Budget{Count: math.MaxInt, Time: time.Minute}.Start())
		if err != nil {
			failure = err
			return false
		}
		if g == nil || g.verdict != f.verdict {
			return false
		}
		rec, f = again, g
		return true
	})
	return rec, f, failure
}
