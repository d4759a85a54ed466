package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/store"
)

// collectChanges reads the body of a frame into the keys of its changes.
func collectChanges(body []byte) (keys []string, highest int64, err error) {
	highest, err = readChanges(body, func(key string, _ *store.Record, present bool) {
		keys = append(keys, fmt.Sprint(key, " ", present))
	})
	return keys, highest, err
}

// TestFrameOfAFlush: a frame has the changes of a flush, and its time if that is of the store's own
// clock.
func TestFrameOfAFlush(t *testing.T) {
	v := &view{dirty: []*entry{
		{key: "made", present: true, rec: store.Record{Level: 1}},
		{key: "never there"},
		{key: "gone", stored: true},
	}}
	const now = 1_767_323_045_000_000
	for _, c := range []struct {
		name     string
		ownClock bool
		highest  int64
	}{
		{"the store's own clock", true, now},
		{"an injected clock, whose time counts for nothing in another run", false, math.MinInt64},
	} {
		keys, highest, err := collectChanges(v.appendChanges(nil, now, c.ownClock))
		if err != nil || highest != c.highest {
			t.Errorf("%s: time %d, %v; want %d", c.name, highest, err, c.highest)
		}
		if want := []string{"made true", "gone false"}; !slices.Equal(keys, want) {
			t.Errorf("%s: changes %q, want %q", c.name, keys, want)
		}
	}
}

// TestFrameCutShort cuts a frame at each byte. Only between two changes does the rest pass, since a
// change that misses its end would otherwise become another bucket.
func TestFrameCutShort(t *testing.T) {
	bare := &entry{key: "bare", present: true, rec: store.Record{Level: 1}}
	full := &entry{key: "full", present: true, rec: sampleRecord}
	gone := &entry{key: "gone", stored: true}
	changes := []*entry{bare, full, gone}
	whole := map[int]int{} // length of a frame to the number of its changes
	for n := range len(changes) + 1 {
		whole[len((&view{dirty: changes[:n]}).appendChanges(nil, 100, true))] = n
	}
	body := (&view{dirty: changes}).appendChanges(nil, 100, true)
	for size := range len(body) + 1 {
		keys, _, err := collectChanges(body[:size])
		n, ok := whole[size]
		switch {
		case ok && (err != nil || len(keys) != n):
			t.Errorf("the first %d bytes: %q, %v; want %d changes", size, keys, err, n)
		case !ok && !errors.Is(err, store.ErrCorrupt):
			t.Errorf("the first %d bytes: %q, %v; want ErrCorrupt", size, keys, err)
		}
	}
	if keys, _, err := collectChanges(append(body, 0)); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("one byte more: %q, %v; want ErrCorrupt", keys, err)
	}
}

// TestStrangeFrames reads frames that no store writes.
func TestStrangeFrames(t *testing.T) {
	head := (&view{}).appendChanges(nil, 100, true)
	overflow := strings.Repeat("\xff", 10) + "\x01" // more than 64 bits
	level := binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.MaxFloat64))
	keyed := func(n int) string {
		return "\x00" + string(binary.AppendUvarint(nil, uint64(n))) + strings.Repeat("k", n)
	}
	for _, c := range []struct {
		name, changes string
		want          error
	}{
		{"the longest key", keyed(store.MaxKeyLen), nil},
		{"a longer key", keyed(store.MaxKeyLen + 1), store.ErrCorrupt},
		{"a key whose size is no number", "\x00" + overflow, store.ErrCorrupt},
		{"the largest level", "\x01\x01k" + string(level) + "\x00", nil},
		{"a time that is no number", "\x01\x01k" + string(level) + overflow, store.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys, _, err := collectChanges(append(slices.Clone(head), c.changes...))
			if !errors.Is(err, c.want) || err == nil && len(keys) != 1 {
				t.Errorf("%q, %v; want %v", keys, err, c.want)
			}
		})
	}
}

func TestTablesOf(t *testing.T) {
	for _, c := range []struct {
		body, changes []byte
		ok            bool
	}{
		{nil, nil, false},
		{[]byte{0}, nil, false},
		{[]byte{keepTime, 1}, nil, false},
		{[]byte{ofTables}, []byte{}, true},
		{[]byte{ofTables, 1, 2}, []byte{1, 2}, true},
	} {
		if changes, ok := tablesOf(c.body); ok != c.ok || !bytes.Equal(changes, c.changes) {
			t.Errorf("%v: %v, %v; want %v, %v", c.body, changes, ok, c.changes, c.ok)
		}
	}
}
