package disk

import "fmt"

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
	Failed                   // a call failed
	Exchange                 // Name and To have changed places
)

var kindNames = [...]string{
	"", "create", "write", "resize", "sync", "sync the directory", "link", "rename", "remove",
	"a call fails", "exchange",
}

func (k Kind) String() string { return kindNames[k] }

// Event is a call of the system that succeeded, or one that failed.
type Event struct {
	Kind   Kind
	Of     Kind   // of Failed: the call that failed
	File   int    // the number of the file in order of creation, from 0
	Name   string // of Create, Rename, Exchange and Remove: the name within the directory
	To     string // of Link, Rename and Exchange: the new name within the directory
	Offset int64  // of Write; of Resize the new size
	Data   []byte // of Write
}

func (e Event) String() string {
	switch e.Kind {
	case Create:
		return fmt.Sprintf("create file %d as %q", e.File, e.Name)
	case Write:
		return fmt.Sprintf("write %d bytes at %d of file %d", len(e.Data), e.Offset, e.File)
	case Resize:
		return fmt.Sprintf("resize file %d to %d bytes", e.File, e.Offset)
	case Sync:
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
	}
	return e.Kind.String()
}
