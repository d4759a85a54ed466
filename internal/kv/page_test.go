package kv

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// The decoder of this file follows docs/internals/engine.md and calls nothing of the engine. So the
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
// rules of docs/internals/engine.md. File and log together have the content of the database.
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
