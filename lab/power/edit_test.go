//go:build linux && amd64

package power

import (
	"slices"
	"strings"

	"github.com/brimgo/brim/lab/internal/iotrace"
)

// edit returns the events of a store that does other than the one that was recorded.
type edit = func([]iotrace.Event) []iotrace.Event

// without returns an edit that leaves out the calls for which a filter reports true.
func without(filter func() func(iotrace.Event) bool) edit {
	return func(events []iotrace.Event) []iotrace.Event { return slices.DeleteFunc(events, filter()) }
}

// syncs returns an edit that leaves out the syncs of files that fn names. last is the last write
// before.
func syncs(fn func(e, last iotrace.Event) bool) edit {
	return without(func() func(iotrace.Event) bool {
		var last iotrace.Event
		return func(e iotrace.Event) bool {
			if e.Kind == iotrace.Write {
				last = e
			}
			return e.Kind == iotrace.Sync && fn(e, last)
		}
	})
}

// journal follows the file of the journal through a recording.
type journal struct {
	file int  // of the newest journal
	made bool // it has its name
}

// see takes the next event, and reports whether it concerns the journal.
func (j *journal) see(e iotrace.Event) bool {
	switch e.Kind {
	case iotrace.Create:
		if strings.HasSuffix(e.Name, ".journal.new") {
			j.file, j.made = e.File, false
		}
	case iotrace.Rename:
		named := strings.HasSuffix(e.To, ".journal")
		j.made = j.made || named
		return named
	case iotrace.Write, iotrace.Sync:
		return j.file > 0 && e.File == j.file
	}
	return false
}

// journalSyncs returns an edit that leaves out syncs of journals: those that have their names, or
// those that have not.
func journalSyncs(made bool) edit {
	return without(func() func(iotrace.Event) bool {
		var j journal
		return func(e iotrace.Event) bool { return j.see(e) && e.Kind == iotrace.Sync && j.made == made }
	})
}

// fileSyncs leaves out the syncs of the other files while there is a journal.
func fileSyncs() func(iotrace.Event) bool {
	var j journal
	return func(e iotrace.Event) bool { return !j.see(e) && e.Kind == iotrace.Sync && j.made }
}

// nameSyncs leaves out the syncs of the directory that make the name of a journal last.
func nameSyncs() func(iotrace.Event) bool {
	var j journal
	renamed := false
	return func(e iotrace.Event) bool {
		if j.see(e) && e.Kind == iotrace.Rename {
			renamed = true
		}
		if e.Kind != iotrace.SyncDir || !renamed {
			return false
		}
		renamed = false
		return true
	}
}

// early has each answer come before the last write to a journal within its call.
func early(events []iotrace.Event) []iotrace.Event {
	var j journal
	written := -1 // the index of that write
	for i, e := range events {
		switch {
		case j.see(e) && j.made && e.Kind == iotrace.Write:
			written = i
		case e.Kind == iotrace.Note && written >= 0:
			copy(events[written+1:i+1], events[written:i])
			events[written] = e
			written = -1
		}
	}
	return events
}
