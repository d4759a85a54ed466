package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// TestStrangeHeads opens logs of a few bytes whose first page claims any size, with a right
// checksum. They are damage, and cost no memory.
func TestStrangeHeads(t *testing.T) {
	for _, c := range []struct{ segment, size int64 }{
		{64 << 30, 608},
		{64 << 30, 3 * logPage},
		{MaxSegment + logPage, 3 * logPage},
		{0, logPage},
		{-logPage, logPage},
		{-1 << 63, logPage}, // twice that is nothing
		{-1<<63 + logPage, 3 * logPage},
		{logPage + 8, logPage + 2*(logPage+8)},
		{8, logPage + 16},
	} {
		w := &wal{segment: c.segment}
		image := make([]byte, c.size)
		copy(image, w.head())
		path := filepath.Join(t.TempDir(), "j")
		must(t, os.WriteFile(path, image, 0o600))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := openLog(noSync{}, path, false)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, errLogDamaged) {
			t.Errorf("a segment of %d bytes in a file of %d: %v; want damage", c.segment, c.size, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("a segment of %d bytes in a file of %d: %d bytes were allocated", c.segment, c.size, n)
		}
	}
}

// strange returns the files of a database that was killed when a frame with that body was the last
// of its log.
func strange(t testing.TB, body []byte) (path string) {
	t.Helper()
	o := options(Log)
	o.Segment = 64 << 10
	d := openTemp(t, o)
	for range 3 {
		put(t, d, "k", "v")
	}
	must(t, d.Lock(t.Context()))
	must(t, d.log.append(body))
	d.Unlock()
	return killed(t, d)
}

// TestStrangeFrames opens logs with a frame that no version of brim has written, although its
// checksums are right. Open refuses it, because no checkpoint could write such a change. A sound
// one opens.
func TestStrangeFrames(t *testing.T) {
	main := &Table{name: "main"}
	body := func(list ...change) []byte { return appendChanges(nil, list, 7) }
	header := func(n uint64) []byte { return binary.AppendUvarint(appendString(make([]byte, 8), "main"), n) }
	for name, c := range map[string]struct {
		body  []byte
		sound bool
	}{
		"a change":              {body(change{main, "a", []byte("1")}), true},
		"a deletion":            {body(change{main, "a", nil}), true},
		"an empty value":        {body(change{main, "a", []byte{}}), true},
		"no time":               {[]byte{1, 2, 3}, false},
		"no change":             {make([]byte, 8), false},
		"a run of none":         {header(0), false},
		"a run of too many":     {appendString(header(2), "a"), false},
		"a run of 2^40":         {header(1 << 40), false},
		"a value too long":      {binary.AppendUvarint(appendString(header(1), "a"), 1<<31), false},
		"an empty key":          {body(change{main, "", []byte("1")}), false},
		"an empty key deleted":  {body(change{main, "", nil}), false},
		"a key too long":        {body(change{main, strings.Repeat("k", bbolt.MaxKeySize+1), nil}), false},
		"an unknown table":      {body(change{&Table{name: "mean"}, "a", []byte("1")}), false},
		"a table without name":  {body(change{&Table{}, "a", []byte("1")}), false},
		"a meta bucket":         {body(change{&Table{name: "main.meta"}, "state", []byte("1")}), false},
		"bytes behind the last": {append(body(change{main, "a", nil}), 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			path := strange(t, c.body)
			before, err := os.ReadFile(path + LogSuffix)
			must(t, err)
			d, err := Open(path, options(Log))
			if c.sound {
				must(t, err)
				must(t, d.Close())
				return
			}
			if !errors.Is(err, store.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			if after, err := os.ReadFile(path + LogSuffix); err != nil || !bytes.Equal(after, before) {
				t.Errorf("the log was changed, %v", err)
			}
		})
	}
}

// TestLookalikes replays a large log whose last body, of which the beginning is lost, is full of
// bytes that look like frames. A look at the body of each would take hours.
func TestLookalikes(t *testing.T) {
	hang := time.AfterFunc(time.Minute, func() { panic("the replay takes longer than a minute") })
	defer hang.Stop()
	const segment = 8 << 20
	for _, sealed := range []bool{false, true} {
		j := create(t, segment)
		must(t, j.append([]byte("first")))
		body := make([]byte, segment-200)
		for at := 4; at+headerSize < len(body); at += headerSize + 4 { // the body is at 4 of 8 bytes
			seed := uint32(0)
			if sealed { // by somebody who knows the ID
				seed = j.seed
			}
			h := appendFrame(nil, seed, header{generation: 1, number: 5, unsynced: 4}, nil)
			binary.LittleEndian.PutUint32(h[4:], uint32(len(body)-at-headerSize))
			binary.LittleEndian.PutUint32(h[headerSum:], crc32.Update(seed, castagnoli, h[4:headerSum]))
			copy(body[at:], h[:headerSize])
		}
		must(t, j.append(body))
		image := content(t, j)
		clear(image[j.at(1, frameSize(5)):][:headerSize])
		got, err := bodies(reopen(t, j, image), firstPosition)
		if err != nil || len(got) != 1 || got[0] != "first" {
			t.Errorf("sealed %v: %d bodies, %v", sealed, len(got), err)
		}
	}
}

// reseal makes the checksums of the first page and of all frames right that stand where an
// undamaged log has frames.
func reseal(log []byte, frames []int64) {
	le := binary.LittleEndian
	le.PutUint32(log[logHeadSize-4:], crc32.Checksum(log[:logHeadSize-4], castagnoli))
	seed := crc32.Checksum(log[len(logMagic)+4:][:idSize], castagnoli)
	for _, at := range frames {
		f := log[at:]
		sum := crc32.Update(seed, castagnoli, f[4:headerSum])
		le.PutUint32(f[headerSum:], sum)
		if end := headerSize + int64(le.Uint32(f[4:])); end <= int64(len(f)) {
			le.PutUint32(f, crc32.Update(sum, castagnoli, f[headerSize:end]))
		}
	}
}

// FuzzLog opens a database with a damaged log, whose checksums may be right again. Open refuses it;
// or the database can be changed and closed, and has the same content then.
func FuzzLog(f *testing.F) {
	d := openTemp(f, options(Log))
	for i := range 20 {
		put(f, d, fmt.Sprint("key ", i%7), fmt.Sprint("value ", i))
	}
	path := killed(f, d)
	file, err := os.ReadFile(path)
	must(f, err)
	log, err := os.ReadFile(path + LogSuffix)
	must(f, err)
	var frames []int64
	for at := int64(logPage); at < int64(len(log)); at += align {
		if h, ok := parseHeader(log[at:], d.log.seed); ok {
			frames = append(frames, at)
			at += frameSize(h.size) - align
		}
	}
	if len(frames) < 10 {
		f.Fatalf("%d frames", len(frames))
	}
	first := uint32(frames[0])
	for _, sealed := range []bool{false, true} {
		f.Add(uint32(0), []byte{}, sealed)
		f.Add(uint32(36), []byte{0, 0, 0, 0, 16}, sealed)                       // the size of a segment
		f.Add(first+4, []byte{255, 255, 255, 127}, sealed)                      // of a body
		f.Add(first+8, []byte{9}, sealed)                                       // the generation
		f.Add(first+16, []byte{3}, sealed)                                      // the number
		f.Add(first+24, []byte{255, 255, 255, 255, 255, 255, 255, 255}, sealed) // what came before
		f.Add(first+headerSize+8, []byte("\x04maim\x01\x00\x01"), sealed)
		f.Add(first+headerSize+8, []byte("\x04main\xff\xff\xff\xff\x0f"), sealed)
		f.Add(first+headerSize+8, []byte("\x04main\x01\x00\x01"), sealed)
	}
	f.Fuzz(func(t *testing.T, at uint32, patch []byte, sealed bool) {
		path, image := filepath.Join(t.TempDir(), "limits.db"), bytes.Clone(log)
		copy(image[int(at)%len(image):], patch)
		if sealed {
			reseal(image, frames)
		}
		must(t, os.WriteFile(path, file, 0o600))
		must(t, os.WriteFile(path+LogSuffix, image, 0o600))
		o := options(Log)
		if _, err := Examine(t.Context(), path, time.Second, o.IsRecord); err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Examine: %v", err)
		}
		d, err := Open(path, o)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrMisconfigured) && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Open: %v", err)
			}
			return
		}
		read := func(d *DB) string {
			var b strings.Builder
			table := d.Table("main")
			must(t, d.View(func(tx *Tx) error {
				c, err := tx.Ascend(table, "")
				for err == nil {
					var key string
					var value []byte
					var ok bool
					if key, value, ok, err = c.Next(); !ok {
						break
					}
					fmt.Fprintf(&b, "%q %q\n", key, value)
				}
				return err
			}, table))
			return b.String()
		}
		put(t, d, "another", "value")
		want := read(d)
		must(t, d.Close())
		d, err = Open(path, o)
		must(t, err)
		if got := read(d); got != want {
			t.Errorf("after Close the database has\n%swant\n%s", got, want)
		}
		must(t, d.Verify(t.Context()))
		must(t, d.Close())
	})
}
