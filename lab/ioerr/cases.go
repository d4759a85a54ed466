//go:build linux && amd64

package ioerr

import (
	"math/rand/v2"
	"syscall"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/iotrace"
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

const (
	// block is the number of successive seeds whose faults are of one class. It divides the totals.
	block = 8
	// stride spreads the faults of successive seeds over all calls. It has no divisor in common
	// with the totals.
	stride = 1667
)

// faultOf returns the fault of a seed. As many successive seeds as total(most) have all faults.
func faultOf(seed attack.Seed, most int) iotrace.Fault {
	n, classes := total(most), len(iotrace.Classes)
	i := int(uint64(seed) % uint64(n))
	f := iotrace.Fault{Class: iotrace.Classes[i/block%classes]}
	i = (i/block/classes*block + i%block) * stride % (n / classes)
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
	p       *iotrace.Process // nil before the first fault
	reads   bool             // p records reads
	subject history.Subject
	defect  history.Defect
	most    int         // calls of each class that fail in turn
	seed    attack.Seed // of the histories below
	known   map[iotrace.Class]*endless
}

// endless is a history that grows as long as a fault has not struck.
type endless struct {
	r       *rand.Rand
	subject history.Subject
	class   iotrace.Class // of calls of the system that the history makes many of
	region  int64         // of the journal
	free    bool
	ops     []history.Op
	never   int // the history makes fewer calls of the class; 0 if that is not known
}

const (
	shared  = 256 // successive seeds that share the histories of all classes
	longest = 2048
)

// grow makes the history twice as long. It returns false if the history is too long for that.
func (h *endless) grow() bool {
	if len(h.ops) >= longest {
		return false
	}
	names := 12 // the share of calls that make or close files
	if h.class == iotrace.Reads {
		names = 70 // reads come with files that are opened
	}
	ops := history.Random(h.r, h.subject, max(64, len(h.ops)), names)
	if h.class == iotrace.Names || h.class == iotrace.Resizes {
		for i := 0; i < len(ops); i += 2 {
			ops[i] = history.Op{Kind: history.Compact} // the next call that writes must have the file grow
			if i%8 == 0 {
				ops[i].Kind = history.Reopen // the next calls that write must make a journal
			}
		}
	}
	h.ops = append(h.ops, ops...)
	return true
}

// attack runs the fault of a seed. It returns the number of calls of the system that failed and the
// first false answer, or nil.
func (a *attacker) attack(seed attack.Seed) (failed int, found *finding, err error) {
	f := faultOf(seed, a.most)
	if err := a.start(f.Class == iotrace.Reads); err != nil {
		return 0, nil, err
	}
	if seed /= shared; a.known == nil || seed != a.seed {
		a.seed, a.known = seed, make(map[iotrace.Class]*endless)
	}
	h := a.known[f.Class]
	if h == nil {
		r := a.seed.Rand()
		h = &endless{
			r: r, subject: a.subject, class: f.Class,
			region: history.Regions[r.IntN(len(history.Regions))], free: r.IntN(2) == 0,
		}
		a.known[f.Class] = h
	}
	if h.never > 0 && f.N >= h.never {
		return 0, nil, nil
	}
	for len(h.ops) > 0 || h.grow() {
		failed, found, err = run(a.p, a.request(h), &f)
		if failed > 0 || found != nil || err != nil {
			return failed, found, err
		}
		if !h.grow() {
			h.never = f.N
			break
		}
	}
	return 0, nil, nil
}

// start has a child that records reads, or one that does not.
func (a *attacker) start(reads bool) (err error) {
	if a.p != nil && a.reads == reads {
		return nil
	}
	if err := a.close(); err != nil {
		return err
	}
	a.p, err = history.Start(reads)
	a.reads = reads
	return err
}

func (a *attacker) close() error {
	if a.p == nil {
		return nil
	}
	p := a.p
	a.p = nil
	return p.Close()
}

func (a *attacker) request(h *endless) history.Request {
	return history.Request{Subject: a.subject, Defect: a.defect, Region: h.region, Free: h.free, Ops: h.ops}
}

// shrink looks for a shorter history with a false answer.
func (a *attacker) shrink(fault iotrace.Fault, f *finding) *finding {
	attack.Shrink(f.req.Ops, 200, func(ops []history.Op) bool {
		req := f.req
		req.Ops = ops
		_, g, err := run(a.p, req, &fault)
		if g == nil || err != nil {
			return false
		}
		f = g
		return true
	})
	return f
}
