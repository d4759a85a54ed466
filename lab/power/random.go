//go:build linux && amd64

package power

import (
	"syscall"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/iotrace"
)

// random returns the scenario of a seed. In every other one, a call of the system fails once: the
// store must keep its promises through a power cut after that, too.
func random(seed attack.Seed, subject history.Subject) scenario {
	r := seed.Rand()
	var s scenario
	names := 12
	if r.IntN(2) == 0 {
		names = 30 // a store that refuses all work is of use again after it was opened again
		f := &iotrace.Fault{Class: iotrace.Class(r.IntN(int(iotrace.Resizes) + 1)), Errno: syscall.EIO}
		calls := [...]int{iotrace.Writes: 80, iotrace.Syncs: 50, iotrace.Names: 10, iotrace.Resizes: 3}
		f.N = 1 + r.IntN(calls[f.Class])
		f.Short = f.Class == iotrace.Writes && r.IntN(2) == 0
		if r.IntN(2) == 0 {
			f.Errno = syscall.ENOSPC
		}
		s.fault = f
	}
	s.req = history.Request{
		Subject: subject, Ops: history.Random(r, subject, 10+r.IntN(40), names),
		Region: history.Regions[r.IntN(len(history.Regions))], Free: r.IntN(2) == 0,
	}
	return s
}
