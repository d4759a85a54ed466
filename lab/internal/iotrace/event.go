package iotrace

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Messages of the child that the recorder understands. The child writes its messages to the file
// descriptor [NoteFD], each with one call.
const (
	NoteFD = 3
	Done   = "done" // the run has ended
	Heal   = "heal" // no call fails from now on
)

// Kind is the kind of an [Event].
type Kind uint8

// The calls that are recorded.
const (
	Create   Kind = iota + 1 // a new, empty file under Name
	Write                    // Data at Offset of File
	Resize                   // File has Offset bytes now
	Sync                     // fsync or fdatasync of File
	SyncDir                  // fsync of the directory
	Link                     // File is also called To now
	Rename                   // Name is called To now
	Remove                   // Name is gone
	Read                     // a read of File, for the numbering of faults
	Note                     // Data is a message of the child
	Failed                   // a [Fault] made a call fail
	Exchange                 // Name and To have changed places
)

var kindNames = [...]string{
	"", "create", "write", "resize", "sync", "sync the directory", "link", "rename", "remove", "read", "note",
	"a call fails", "exchange",
}

func (k Kind) String() string { return kindNames[k] }

// Event is a call of the system that succeeded, a message of the child, or a [Fault] that struck.
type Event struct {
	Kind   Kind
	Of     Kind   // of Failed: the call that failed
	File   int    // the number of the file in order of creation, from 0
	Name   string // of Create, Rename, Exchange and Remove: the name within the directory
	To     string // of Link, Rename and Exchange: the new name within the directory
	Offset int64  // of Write; of Resize the new size
	Data   []byte // of Write and Note
}

func (e Event) String() string {
	switch e.Kind {
	case Create:
		return fmt.Sprintf("create file %d as %q", e.File, e.Name)
	case Write:
		return fmt.Sprintf("write %d bytes at %d of file %d", len(e.Data), e.Offset, e.File)
	case Resize:
		return fmt.Sprintf("resize file %d to %d bytes", e.File, e.Offset)
	case Sync, Read:
		return fmt.Sprintf("%v file %d", e.Kind, e.File)
	case Link:
		return fmt.Sprintf("link file %d as %q", e.File, e.To)
	case Rename:
		return fmt.Sprintf("rename %q to %q", e.Name, e.To)
	case Exchange:
		return fmt.Sprintf("exchange %q and %q", e.Name, e.To)
	case Remove:
		return fmt.Sprintf("remove %q", e.Name)
	case Failed:
		return fmt.Sprintf("%v fails", e.Of)
	case Note:
		return fmt.Sprintf("note %s", e.Data)
	}
	return e.Kind.String()
}

// Digest returns a checksum of events. Names are numbered in order of appearance, because the names
// of temporary files are random. So is the ID of a journal, on which all its content depends;
// without content, only the place and the size of a write count.
func Digest(events []Event, content bool) [sha256.Size]byte {
	h := sha256.New()
	numbers := map[string]uint64{"": 0}
	number := func(name string) uint64 {
		if _, known := numbers[name]; !known {
			numbers[name] = uint64(len(numbers))
		}
		return numbers[name]
	}
	for _, e := range events {
		var fixed []byte
		for _, n := range [...]uint64{
			uint64(e.Kind), uint64(e.File), number(e.Name), number(e.To), uint64(e.Offset), uint64(len(e.Data)),
		} {
			fixed = binary.LittleEndian.AppendUint64(fixed, n)
		}
		_, _ = h.Write(fixed)
		if content || e.Kind == Note {
			_, _ = h.Write(e.Data)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}
