package disk

import (
	"fmt"
	"maps"
)

// Sector is the number of bytes that a disk writes wholly or not at all.
const Sector = 512

// Disk is a directory on a disk. The zero Disk is empty.
type Disk struct {
	files   []*file
	now     map[string]int // the names that a program sees, with numbers of files
	durable map[string]int // the names that last
	pending []Change       // in order of their calls
}

// file is the durable content of a file.
type file struct{ content []byte }

// Change is a change that is not durable yet.
type Change struct {
	Call   int    // the number of the call that made it; several sectors belong to one write
	File   int    // the file whose content changes; -1 for a change of names
	Offset int64  // of Data
	Data   []byte // at most a sector
	Size   int64  // the new size of the file, or -1

	// clean is set when a sync failed. Linux takes the content for written then, so a later sync
	// does not write it.
	clean bool

	remove, name string // the name that goes, and the name that then leads to target
	target       int
	with         string // the name that then leads to other, after an exchange
	other        int
}

func (c Change) String() string {
	switch {
	case c.with != "":
		return fmt.Sprintf("name %q of file %d and name %q of file %d", c.name, c.target, c.with, c.other)
	case c.File < 0 && c.name == "":
		return fmt.Sprintf("removal of %q", c.remove)
	case c.File < 0:
		return fmt.Sprintf("name %q of file %d", c.name, c.target)
	case c.Size >= 0:
		return fmt.Sprintf("size %d of file %d", c.Size, c.File)
	}
	return fmt.Sprintf("%d bytes at %d of file %d", len(c.Data), c.Offset, c.File)
}

// Apply carries out a call.
func (d *Disk) Apply(call int, e Event) {
	if d.now == nil {
		d.now, d.durable = make(map[string]int), make(map[string]int)
	}
	switch e.Kind {
	case Create:
		d.files = append(d.files, &file{})
		d.rename(call, "", e.Name, e.File)
	case Link:
		d.rename(call, "", e.To, e.File)
	case Rename:
		d.rename(call, e.Name, e.To, d.now[e.Name])
	case Exchange: // wholly or not at all
		c := Change{Call: call, File: -1, Size: -1, name: e.To, target: d.now[e.Name], with: e.Name, other: d.now[e.To]}
		c.rename(d.now)
		d.pending = append(d.pending, c)
	case Remove:
		d.rename(call, e.Name, "", -1)
	case Write:
		d.write(call, e.File, e.Offset, e.Data)
	case Resize:
		d.pending = append(d.pending, Change{Call: call, File: e.File, Size: e.Offset})
	case Sync:
		d.sync(e.File)
	case SyncDir:
		d.sync(-1)
	case Failed:
		if e.Of == Sync {
			d.forget(e.File)
		}
	}
}

func (d *Disk) rename(call int, remove, name string, target int) {
	c := Change{Call: call, File: -1, Size: -1, remove: remove, name: name, target: target}
	c.rename(d.now)
	d.pending = append(d.pending, c)
}

// rename carries out a change of names.
func (c Change) rename(names map[string]int) {
	delete(names, c.remove)
	if c.name != "" {
		names[c.name] = c.target
	}
	if c.with != "" {
		names[c.with] = c.other
	}
}

// write splits a write at the borders of sectors.
func (d *Disk) write(call, file int, offset int64, data []byte) {
	for len(data) > 0 {
		n := min(int64(len(data)), Sector-offset%Sector)
		d.pending = append(d.pending, Change{Call: call, File: file, Offset: offset, Data: data[:n], Size: -1})
		offset, data = offset+n, data[n:]
	}
}

// sync makes all changes of a file durable, or those of names if file is -1.
func (d *Disk) sync(file int) {
	d.soil(file)
	rest := d.pending[:0]
	for _, c := range d.pending {
		switch {
		case c.File != file, c.clean:
			rest = append(rest, c)
		case file < 0:
			c.rename(d.durable)
		default:
			d.files[file].content = c.change(d.files[file].content)
		}
	}
	clear(d.pending[len(rest):])
	d.pending = rest
}

// forget has the system take the content of a file for written, after a sync that failed. It may
// have been written or not.
func (d *Disk) forget(file int) {
	for i := range d.pending {
		if c := &d.pending[i]; c.File == file && c.Size < 0 {
			c.clean = true
		}
	}
}

// soil has a sync write the changes of a file that it would not write, but whose sector was written
// again since: the disk writes a sector wholly, as the program sees it.
func (d *Disk) soil(file int) {
	again := make(map[int64]bool) // the sectors with a change that a sync writes
	for i := len(d.pending) - 1; i >= 0; i-- {
		c := &d.pending[i]
		switch sector := c.Offset / Sector; {
		case c.File != file || c.Size >= 0:
		case !c.clean:
			again[sector] = true
		case again[sector]:
			c.clean = false
		}
	}
}

// change carries out a change of content.
func (c Change) change(content []byte) []byte {
	size := c.Size
	if size < 0 {
		size = max(int64(len(content)), c.Offset+int64(len(c.Data)))
	}
	for int64(len(content)) < size {
		content = append(content, make([]byte, size-int64(len(content)))...)
	}
	content = content[:size]
	copy(content[min(c.Offset, size):], c.Data)
	return content
}

// Pending returns the changes that a power cut may lose. The caller must not change them, and they
// are valid until the next call of Apply.
func (d *Disk) Pending() []Change { return d.pending }

// Image returns the files after a power cut that loses the pending changes i for which lost reports
// true.
func (d *Disk) Image(lost func(i int) bool) map[string][]byte {
	names := maps.Clone(d.durable)
	changed := make(map[int][]byte)
	for i, c := range d.pending {
		switch {
		case lost(i):
		case c.File < 0:
			c.rename(names)
		default:
			content, ok := changed[c.File]
			if !ok {
				content = append([]byte(nil), d.files[c.File].content...)
			}
			changed[c.File] = c.change(content)
		}
	}
	image := make(map[string][]byte, len(names))
	for name, number := range names {
		content, ok := changed[number]
		if !ok {
			content = d.files[number].content
		}
		image[name] = content
	}
	return image
}
