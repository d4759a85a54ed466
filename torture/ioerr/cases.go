//go:build linux && amd64

package ioerr

import (
	"slices"
	"syscall"

	"github.com/brimgo/brim/torture/internal/attack"
	"github.com/brimgo/brim/torture/internal/history"
	"github.com/brimgo/brim/torture/internal/iotrace"
)

// The number of calls of each class that fail in turn, at night and in a quick run. A history with
// few calls is short, so a quick run has many of them.
const (
	mostAtNight = 400
	mostQuick   = 40
)

// errnos are the errors that calls of the system answer.
var errnos = [...]syscall.Errno{syscall.EIO, syscall.ENOSPC}

// total is the number of faults: each of the first most calls of every class, with every error.
func total(most int) int { return most * len(iotrace.Classes) * len(errnos) }

// stride spreads the faults of successive seeds over all calls. It has no divisor in common with
// the totals.
const stride = 1667

// faultOf returns the fault of a seed. As many successive seeds as total(most) have all faults.
func faultOf(seed attack.Seed, most int) iotrace.Fault {
	n := uint64(total(most))
	i := int(uint64(seed) % n * stride % n)
	f := iotrace.Fault{Class: iotrace.Classes[i%len(iotrace.Classes)]}
	i /= len(iotrace.Classes)
	f.Errno, f.N = errnos[i%len(errnos)], 1+i/len(errnos)
	switch seed.Rand().IntN(3) {
	case 0:
		f.Lasts = true
	case 1:
		f.Short = f.Class == iotrace.Writes
	}
	return f
}

// attacker runs one fault after the other.
type attacker struct {
	p       *iotrace.Process
	relaxed bool
	defect  history.Defect
	most    int         // calls of each class that fail in turn
	block   attack.Seed // the seed of the histories below
	known   map[iotrace.Class]*long
}

// long is a history without faults, and the number of calls of a class that it makes up to the end
// of each of its calls.
type long struct {
	ops  []history.Op
	upTo []int
}

const (
	shared  = 256 // successive seeds that share the histories of all classes
	after   = 12  // calls that follow the call in which a fault strikes
	longest = 4096
)

// attack runs the fault of a seed. It returns the number of calls of the system that failed and the
// first false answer, or nil.
func (a *attacker) attack(seed attack.Seed) (failed int, found *finding, err error) {
	f := faultOf(seed, a.most)
	if block := seed / shared; a.known == nil || block != a.block {
		a.block, a.known = block, make(map[iotrace.Class]*long)
	}
	l := a.known[f.Class]
	if l == nil {
		if l, err = a.newLong(f.Class); err != nil {
			return 0, nil, err
		}
		a.known[f.Class] = l
	}
	i, _ := slices.BinarySearch(l.upTo, f.N)
	req := a.request(l.ops[:min(i+after, len(l.ops))])
	return run(a.p, req, &f)
}

func (a *attacker) request(ops []history.Op) history.Request {
	return history.Request{Relaxed: a.relaxed, Defect: a.defect, Ops: ops}
}

// newLong makes a history with enough calls of a class.
func (a *attacker) newLong(c iotrace.Class) (*long, error) {
	names := 12
	if c == iotrace.Names || c == iotrace.Resizes || c == iotrace.Reads {
		names = 70 // these calls come with new files
	}
	r := a.block.Rand()
	l := &long{}
	for size := 64; ; size *= 2 {
		l.ops = append(l.ops, history.Random(r, size, names)...)
		var err error
		if l.upTo, err = count(a.p, a.request(l.ops), c); err != nil {
			return nil, err
		}
		if len(l.ops) >= longest || l.upTo[max(0, len(l.ops)-after)] >= a.most {
			return l, nil
		}
	}
}

// shrink looks for a shorter history with a false answer.
func (a *attacker) shrink(fault iotrace.Fault, f *finding) *finding {
	attack.Shrink(f.ops, 200, func(ops []history.Op) bool {
		_, g, err := run(a.p, a.request(ops), &fault)
		if g == nil || err != nil {
			return false
		}
		f = g
		return true
	})
	return f
}
