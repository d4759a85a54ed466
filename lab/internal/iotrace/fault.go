package iotrace

import (
	"fmt"
	"syscall"
)

// Class is a class of calls that a [Fault] can make fail.
type Class uint8

// The classes of calls. Only a fault that kills strikes the class Any.
const (
	Writes  Class = iota // pwrite
	Syncs                // fsync and fdatasync, of files and of the directory
	Names                // link, rename, exchange and unlink
	Resizes              // ftruncate
	Reads                // pread
	Any                  // all of these, and creations
)

// Classes lists the classes of calls that can fail.
var Classes = []Class{Writes, Syncs, Names, Resizes, Reads}

var classNames = [...]string{"write", "sync", "rename", "truncate", "read", "call"}

func (c Class) String() string { return classNames[c] }

// ClassOf returns the class of the calls behind events of kind k. Creations and notes have none.
func ClassOf(k Kind) (c Class, ok bool) {
	switch k {
	case Write:
		return Writes, true
	case Sync, SyncDir:
		return Syncs, true
	case Link, Rename, Exchange, Remove:
		return Names, true
	case Resize:
		return Resizes, true
	case Read:
		return Reads, true
	}
	return 0, false
}

// Kill is the moment at which a [Fault] kills the child.
type Kill uint8

// The moments of a kill. The files stay as the system has them then.
const (
	Never  Kill = iota
	Before      // before the call
	Within      // after half of a write; after any other call
	After       // after the call, whose result the child never sees
)

// Fault makes a call of the child fail, or kills the child there.
type Fault struct {
	Class Class
	N     int           // the call of the class that fails, counted from 1 in each run
	Errno syscall.Errno // the error that the call answers
	Lasts bool          // the later calls of the class fail, too, until the child sends [Heal]
	Short bool          // a write of more than one byte writes its first half, and the next write fails
	Kill  Kill          // the call does not fail; the child is killed with SIGKILL
}

func (f Fault) String() string {
	if f.Kill != Never {
		return fmt.Sprintf("killed %s %v %d", [...]string{"", "before", "within", "after"}[f.Kill], f.Class, f.N)
	}
	how := "fails once"
	switch {
	case f.Lasts:
		how = "and all later ones fail"
	case f.Short:
		how = "is cut short, and the next one fails"
	}
	return fmt.Sprintf("%v %d %s with %q", f.Class, f.N, how, f.Errno)
}

// faults decides which calls of a run fail.
type faults struct {
	*Fault
	seen   int // calls of the class
	failed int // calls that failed or were cut short
	owed   bool
	healed bool
}

// verdict is the fate of a call.
type verdict uint8

const (
	pass verdict = iota
	fail
	halve
	die
	dieWithin
	dieAfter
)

// next decides the fate of the next call, which transfers size bytes.
func (f *faults) next(k Kind, size int) verdict {
	c, ok := ClassOf(k)
	switch {
	case f.Fault == nil, f.healed:
		return pass
	case f.Class == Any && k != Note:
	case !ok, c != f.Class:
		return pass
	}
	f.seen++
	switch {
	case f.Kill != Never:
		if f.seen != f.N {
			return pass
		}
		return [...]verdict{Before: die, Within: dieWithin, After: dieAfter}[f.Kill]
	case f.owed:
		f.owed = false
	case f.seen == f.N && f.Short && c == Writes && size > 1:
		f.owed = true
		f.failed++
		return halve
	case f.seen == f.N, f.seen > f.N && f.Lasts:
	default:
		return pass
	}
	f.failed++
	return fail
}
