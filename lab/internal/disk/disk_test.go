package disk

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func create(file int, name string) Event { return Event{Kind: Create, File: file, Name: name} }

// write fills sectors of a file, each with one letter.
func write(file int, sector int64, letters string) Event {
	var data []byte
	for _, letter := range []byte(letters) {
		data = append(data, strings.Repeat(string(letter), Sector)...)
	}
	return Event{Kind: Write, File: file, Offset: sector * Sector, Data: data}
}

func resize(file int, sectors int64) Event {
	return Event{Kind: Resize, File: file, Offset: sectors * Sector}
}

func sync(file int) Event { return Event{Kind: Sync, File: file} }

func syncFails(file int) Event { return Event{Kind: Failed, Of: Sync, File: file} }

var syncDir = Event{Kind: SyncDir}

func link(file int, from, to string) Event { return Event{Kind: Link, File: file, Name: from, To: to} }

func exchange(a, b string) Event { return Event{Kind: Exchange, Name: a, To: b} }

func rename(from, to string) Event { return Event{Kind: Rename, Name: from, To: to} }

func remove(name string) Event { return Event{Kind: Remove, Name: name} }

// sectors writes an image in short: the first letter of each sector, and "." for zeros.
func sectors(image map[string][]byte) string {
	var files []string
	for _, name := range slices.Sorted(maps.Keys(image)) {
		short := name + "="
		for content := image[name]; len(content) > 0; content = content[min(Sector, len(content)):] {
			if content[0] == 0 {
				short += "."
			} else {
				short += string(content[0])
			}
		}
		files = append(files, short)
	}
	return strings.Join(files, " ")
}

// images returns all images that a power cut can leave, each once.
func images(d *Disk, format func(map[string][]byte) string) []string {
	seen := make(map[string]bool)
	for lost := range 1 << len(d.Pending()) {
		seen[format(d.Image(func(i int) bool { return lost>>i&1 == 1 }))] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func TestImages(t *testing.T) {
	durable := []Event{create(0, "a"), write(0, 0, "xy"), sync(0), syncDir}
	for _, c := range []struct {
		name, why string
		events    []Event
		want      []string
	}{
		{
			"a torn write", "each sector lasts by itself",
			[]Event{write(0, 0, "zz")},
			[]string{"a=xy", "a=xz", "a=zy", "a=zz"},
		},
		{
			"two writes of a sector", "every version can be the one that lasts",
			[]Event{write(0, 0, "1"), write(0, 0, "2")},
			[]string{"a=1y", "a=2y", "a=xy"},
		},
		{
			"writes out of order", "a later write can last without an earlier one",
			[]Event{write(0, 0, "1"), write(0, 1, "2")},
			[]string{"a=12", "a=1y", "a=x2", "a=xy"},
		},
		{
			"a write behind a hole", "what was never written is zero",
			[]Event{write(0, 3, "z")},
			[]string{"a=xy", "a=xy.z"},
		},
		{
			"a longer file", "a size can be lost",
			[]Event{resize(0, 3)},
			[]string{"a=xy", "a=xy."},
		},
		{
			"a shorter file", "its end does not come back with a later size",
			[]Event{resize(0, 1), sync(0), resize(0, 2)},
			[]string{"a=x", "a=x."},
		},
		{
			"a write before a sync", "a sync is for all earlier writes of the file, and for no later write",
			[]Event{write(0, 0, "1"), sync(0), write(0, 1, "2")},
			[]string{"a=12", "a=1y"},
		},
		{
			"a sync that fails", "a second sync writes nothing",
			[]Event{write(0, 0, "1"), syncFails(0), sync(0), write(0, 1, "2"), sync(0)},
			[]string{"a=12", "a=x2"},
		},
		{
			"a sync that fails, and a write", "the second sync writes what was written again",
			[]Event{write(0, 0, "1"), syncFails(0), write(0, 0, "1"), sync(0)},
			[]string{"a=1y"},
		},
		{
			"a rename with a sync", "the old file cannot come back",
			[]Event{create(1, "b"), write(1, 0, "n"), sync(1), rename("b", "a"), syncDir},
			[]string{"a=n"},
		},
		{
			"an exchange", "both names change, or none",
			[]Event{create(1, "b"), write(1, 0, "n"), sync(1), syncDir, exchange("b", "a"), remove("b")},
			[]string{"a=n", "a=n b=xy", "a=xy", "a=xy b=n"},
		},
		{
			"a link and a removal", "each can be lost by itself",
			[]Event{link(0, "a", "b"), remove("a")},
			[]string{"", "a=xy", "a=xy b=xy", "b=xy"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Disk
			for i, e := range append(slices.Clone(durable), c.events...) {
				d.Apply(i, e)
			}
			if got := images(&d, sectors); !slices.Equal(got, c.want) {
				t.Errorf("images %q, want %q: %s", got, c.want, c.why)
			}
		})
	}
}

// TestSectors: a write that begins and ends within sectors is split at their borders.
func TestSectors(t *testing.T) {
	var d Disk
	d.Apply(0, create(0, "a"))
	d.Apply(1, syncDir)
	d.Apply(2, Event{Kind: Write, Offset: 500, Data: make([]byte, 600)})
	var got []string
	for _, c := range d.Pending() {
		got = append(got, fmt.Sprint(c))
	}
	want := []string{"12 bytes at 500 of file 0", "512 bytes at 512 of file 0", "76 bytes at 1024 of file 0"}
	if !slices.Equal(got, want) {
		t.Errorf("changes %q, want %q", got, want)
	}
}

// TestPartOfSector: a sync after one that failed writes the whole of a sector that was written
// again in part.
func TestPartOfSector(t *testing.T) {
	part := func(offset int64, letters string) Event {
		return Event{Kind: Write, Offset: offset, Data: []byte(letters)}
	}
	for _, c := range []struct {
		name   string
		events []Event
		want   []string
	}{
		{"the same part", []Event{part(0, "1"), sync(0)}, []string{"a=1b"}},
		{"another part", []Event{part(1, "2"), sync(0)}, []string{"a=a2"}},
		{"no sync", []Event{part(1, "2")}, []string{"a=.2", "a=ab", "a=a2", "a="}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Disk
			begin := []Event{create(0, "a"), syncDir, part(0, "ab"), syncFails(0)}
			for i, e := range append(begin, c.events...) {
				d.Apply(i, e)
			}
			letters := func(image map[string][]byte) string {
				return "a=" + strings.ReplaceAll(string(image["a"]), "\x00", ".")
			}
			slices.Sort(c.want)
			if got := images(&d, letters); !slices.Equal(got, c.want) {
				t.Errorf("images %q, want %q", got, c.want)
			}
		})
	}
}
