package kv

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math/bits"
	"os"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/docpage"
)

// The decoder of this file follows docs/internals/files.md and calls nothing of the engine. So the
// page is enough to read a log.

// page is a reader of a log.
type page struct{ b []byte }

func (p *page) take(n uint64) []byte {
	b := p.b[:n]
	p.b = p.b[n:]
	return b
}

func (p *page) uvarint() uint64 {
	n := uint64(0)
	for shift := 0; ; shift += 7 {
		b := p.take(1)[0]
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

func (p *page) string() string { return string(p.take(p.uvarint())) }

// decodeLog applies all changes after a position to tables of values.
func decodeLog(log []byte, generation, offset, number uint64, tables map[string]map[string]string) (frames int, times []int64, err error) {
	le, castagnoli := binary.LittleEndian, crc32.MakeTable(crc32.Castagnoli)
	if string(log[:16]) != "brim journal\x00\x00\x00\x00" || le.Uint32(log[16:]) != 3 ||
		crc32.Checksum(log[:44], castagnoli) != le.Uint32(log[44:]) {
		return 0, nil, fmt.Errorf("the first page is %x", log[:48])
	}
	id, segment := log[20:36], le.Uint64(log[36:])
	for {
		at := uint64(4096)
		if generation%2 == 1 {
			at += segment
		}
		frame, size := log[at+offset:at+segment], uint64(0)
		if len(frame) >= 36 {
			size = uint64(le.Uint32(frame[4:]))
		}
		if len(frame) < 36 || 36+size > uint64(len(frame)) || le.Uint64(frame[8:]) != generation || le.Uint64(frame[16:]) != number ||
			crc32.Update(crc32.Checksum(id, castagnoli), castagnoli, frame[4:32]) != le.Uint32(frame[32:]) ||
			crc32.Update(le.Uint32(frame[32:]), castagnoli, frame[36:36+size]) != le.Uint32(frame) {
			if offset == 0 { // nothing of this generation
				return frames, times, nil
			}
			generation, offset = generation+1, 0
			continue
		}
		p := page{frame[36 : 36+size]}
		times = append(times, int64(le.Uint64(p.take(8))))
		for len(p.b) > 0 {
			table := p.string()
			if tables[table] == nil {
				tables[table] = make(map[string]string)
			}
			for n := p.uvarint(); n > 0; n-- {
				key, size := p.string(), p.uvarint()
				if size == 0 {
					delete(tables[table], key)
				} else {
					tables[table][key] = string(p.take(size - 1))
				}
			}
		}
		frames, number, offset = frames+1, number+1, offset+(36+size+7)/8*8
	}
}

// TestPage decodes the log of a database that was killed, from the watermark in its file on, by the
// rules of docs/internals/files.md. File and log together have the content of the database.
func TestPage(t *testing.T) {
	d := openTemp(t, options(Log))
	tables := *d.tables.Load()
	want := map[string]map[string]string{"main": {}, "other": {}}
	for i := range 300 { // through several generations
		if i == 299 { // no checkpoint takes the last frame out of the log
			ready, end := make(chan error), make(chan struct{})
			defer close(end)
			go func() {
				err := d.checkpoint.lock(context.Background())
				if err == nil {
					defer d.checkpoint.unlock()
					err = d.move(true)
				}
				ready <- err
				<-end
			}()
			must(t, <-ready)
		}
		err := change1(d, func(tx *Tx) error {
			tx.Time = int64(i)
			for n, table := range tables {
				key := fmt.Sprint("key ", (i+n)%40)
				if i%7 == 3 {
					delete(want[table.name], key)
					if err := tx.Delete(table, key); err != nil {
						return err
					}
					continue
				}
				value := strings.Repeat("v", i%200)
				want[table.name][key] = value
				tx.Put(table, key, []byte(value))
			}
			return nil
		})
		must(t, err)
	}
	path := killed(t, d)
	log, err := os.ReadFile(path + ".journal")
	must(t, err)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	must(t, err)
	defer func() { _ = db.Close() }()
	got := make(map[string]map[string]string)
	err = db.View(func(tx *bbolt.Tx) error {
		for name := range want {
			got[name] = make(map[string]string)
			err := tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error {
				got[name][string(k)] = string(v[:len(v)-8])
				return nil
			})
			if err != nil {
				return err
			}
		}
		watermark, le := tx.Bucket([]byte("main.meta")).Get([]byte("journal")), binary.LittleEndian
		if len(watermark) != 49 || watermark[0] != 1 || string(watermark[1:17]) != string(log[20:36]) {
			return fmt.Errorf("the watermark is %x", watermark)
		}
		frames, times, err := decodeLog(log, le.Uint64(watermark[17:]), le.Uint64(watermark[25:]), le.Uint64(watermark[33:]), got)
		if err == nil && (frames == 0 || times[len(times)-1] != 299) {
			err = fmt.Errorf("%d frames, at %v", frames, times)
		}
		return err
	})
	must(t, err)
	for name := range want {
		if !maps.Equal(got[name], want[name]) {
			t.Errorf("%s has %d values by the page, want %d", name, len(got[name]), len(want[name]))
		}
	}
}

// TestPageFigures compares the tables and the sizes on the page with the constants of the engine,
// by which TestPage has written its log.
func TestPageFigures(t *testing.T) {
	const unit = boltfile.SealSize / 2
	noTime := int64(NoTime)
	says := []string{
		fmt.Sprintf("size of a segment: a multiple of %s, from %[1]s to 2^%d", docpage.Thousands(logPage), bits.Len(MaxSegment)-1),
		fmt.Sprintf("CRC-32C of bytes 0 to %d", logHeadSize-4-1),
		fmt.Sprintf("the frame from offset 4 to %d", headerSum-1),
		fmt.Sprintf("zeros up to a multiple of %d bytes", align),
		fmt.Sprintf("%d bytes: microseconds since the Unix epoch, signed; -2^%d if", len(appendChanges(nil, nil, noTime)), bits.Len64(uint64(noTime))-1),
		fmt.Sprintf("| %d to %d | CRC-32C of the name", 2*unit, unit+1), fmt.Sprintf("| %d to 1 | the same CRC", unit),
		fmt.Sprintf("four numbers of %d bytes", (boltfile.TotalsSize-boltfile.SealSize)/4),
		fmt.Sprintf("- `format`: %d bytes, %d;", formatSize-boltfile.SealSize, fileFormat),
		fmt.Sprintf("the ID of the log, %d bytes; and generation, offset and number of the position, %d bytes each.",
			idSize, (watermarkSize-boltfile.SealSize-1-idSize)/3),
	}
	type field struct {
		size int
		text string
	}
	for _, table := range []struct {
		size   int // of all fields
		fields []field
	}{
		{logPage, []field{
			{len(logMagic), "`brim journal` and four zeros |"},
			{4, fmt.Sprintf("format: %d |", logVersion)},
			{idSize, "ID, random |"},
			{8, "R, the size"},
			{4, "CRC-32C"},
			{logPage - logHeadSize, "zeros |"},
		}},
		{headerSize, []field{
			{4, "checksum: the CRC at offset " + fmt.Sprint(headerSum)},
			{4, "size of the body"},
			{8, "generation, from 1 |"},
			{8, "number of the frame"},
			{4, "offset in its segment"},
			{4, "number of frames before"},
			{4, "checksum of the header"},
		}},
	} {
		at := 0
		for _, f := range table.fields {
			says = append(says, fmt.Sprintf("| %d | %d | %s", at, f.size, f.text))
			at += f.size
		}
		if at != table.size {
			t.Errorf("the fields %v have %d bytes; want %d", table.fields, at, table.size)
		}
	}
	says = append(says, fmt.Sprintf("| %d | R | the segment", logPage), fmt.Sprintf("| %d + R | R | the segment", logPage), fmt.Sprintf("| %d | | body |", headerSize))
	if lacks := docpage.Lacks("../../docs/internals/files.md", says...); lacks != "" {
		t.Error(lacks)
	}
	commits := fmt.Sprintf("commits of %s changes", docpage.Thousands(checkpointBatch))
	if lacks := docpage.Lacks("../../docs/internals/engine.md", commits); lacks != "" {
		t.Error(lacks)
	}
}
