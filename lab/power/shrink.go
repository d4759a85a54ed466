//go:build linux && amd64

package power

import (
	"math"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/iotrace"
)

// smallest looks for a shorter history that breaks the same promise as f, the finding of rec. It
// records each shorter history anew.
func smallest(p *iotrace.Process, seed attack.Seed, rec *recording, f *finding) (*recording, *finding, error) {
	var failure error
	attack.Shrink(rec.req.Ops, 200, func(ops []history.Op) bool {
		shorter := rec.scenario
		shorter.req.Ops = ops
		again, err := record(p, shorter)
		if err != nil {
			failure = err
			return false
		}
		g, err := cut(again, seed.Rand(), unlimited())
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

// unlimited returns a budget for all moments of one history.
func unlimited() *attack.Meter {
	return attack.Budget{Count: math.MaxInt, Time: time.Minute}.Start()
}
