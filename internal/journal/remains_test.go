package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadRemains damages a journal of two generations in many ways, and compares the bodies that
// are left.
func TestReadRemains(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := Create(path, &Options{Region: pageSize})
	if err != nil {
		t.Fatal(err)
	}
	body := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 1000) }
	var positions []Position // before each frame
	for i := range 6 {       // three in each region
		positions = append(positions, j.End())
		if err := j.Append(body(i)); err != nil {
			t.Fatal(err)
		}
	}
	id := j.ID()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) int { return bytes.Index(whole, body(i)) }
	flip := func(places ...int) func([]byte) []byte {
		return func(b []byte) []byte {
			for _, p := range places {
				b[p] ^= 0xFF
			}
			return b
		}
	}
	for _, c := range []struct {
		name    string
		change  func(b []byte) []byte
		from    Position
		bodies  string // their letters
		current string // those after the last gap
		torn    string
		damage  string
	}{
		{name: "whole", change: flip(), bodies: "abcdef", current: "abcdef"},
		{name: "from the middle", change: flip(), from: positions[2], bodies: "cdef", current: "cdef"},
		{name: "from the end", change: flip(), from: j.End()},
		{name: "first frame", change: flip(at(0) + 9), bodies: "bcdef", current: "bcdef", torn: "a", damage: "lacks the commit 0"},
		{name: "second frame", change: flip(at(1) + 9), bodies: "acdef", current: "cdef", torn: "b", damage: "lacks the commit 1"},
		{
			name: "two frames", change: flip(at(1)+9, at(4)+9), bodies: "acdf", current: "f", torn: "be",
			damage: "lacks the commit 1; lacks the commit 4",
		},
		{name: "two neighbors", change: flip(at(0)+9, at(1)+9), bodies: "cdef", current: "cdef", torn: "ab", damage: "lacks the commits 0 to 1"},
		{name: "end of a generation", change: flip(at(2) + 9), bodies: "abdef", current: "def", damage: "lacks the commit 2"},
		{name: "last frame, which may be torn", change: flip(at(5) + 9), bodies: "abcde", current: "abcde"},
		{name: "header", change: flip(at(1) - headerSize + 16), bodies: "acdef", current: "cdef", torn: "b", damage: "lacks the commit 1"},
		{name: "first page", change: flip(3), bodies: "abcdef", current: "abcdef", damage: "has a damaged first page"},
		{
			name: "cut short", change: func(b []byte) []byte { return b[:len(b)-8] }, bodies: "abcdef", current: "abcdef",
			damage: fmt.Sprintf("has %d bytes instead of %d", len(whole)-8, len(whole)),
		},
		{name: "empty", change: func([]byte) []byte { return nil }, damage: "has a damaged first page"},
	} {
		t.Run(c.name, func(t *testing.T) {
			damaged := c.change(bytes.Clone(whole))
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := ReadRemains(path, id, c.from)
			if err != nil {
				t.Fatal(err)
			}
			if got := letters(r.Bodies); got != c.bodies {
				t.Errorf("bodies %s, want %s", got, c.bodies)
			}
			if got := letters(r.Bodies[r.Current:]); got != c.current {
				t.Errorf("after the gap %s, want %s", got, c.current)
			}
			if got := letters(r.Torn); got != c.torn {
				t.Errorf("torn %s, want %s", got, c.torn)
			}
			if got := strings.Join(r.Damage, "; "); got != c.damage || r.Gap != strings.Contains(got, "lacks") {
				t.Errorf("damage %q, gap %v; want %q", got, r.Gap, c.damage)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, damaged) {
				t.Errorf("the journal was changed, %v", err)
			}
		})
	}
}

// letters returns the second letters of bodies, since damage is elsewhere.
func letters(bodies [][]byte) (s string) {
	for _, b := range bodies {
		s += string(b[1])
	}
	return s
}

func TestReadRemainsOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if _, err := ReadRemains(path, ID{}, Position{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no journal: %v", err)
	}
	j, err := Create(path, &Options{Region: pageSize})
	if err != nil {
		t.Fatal(err)
	}
	old := j.End()
	for range 12 { // four generations
		j.Release(j.End())
		if err := j.Append(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRemains(path, ID{1}, Position{}); !errors.Is(err, ErrForeign) {
		t.Errorf("another journal: %v", err)
	}
	r, err := ReadRemains(path, ID{}, Position{})
	if err != nil || r.ID != j.ID() || len(r.Bodies) != 6 {
		t.Errorf("any journal: %+v, %v", r, err)
	}
	if r, err = ReadRemains(path, j.ID(), old); err != nil || !r.Newer || len(r.Bodies) != 6 {
		t.Errorf("a newer journal: newer %v, %d bodies, %v", r.Newer, len(r.Bodies), err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(magic)]++
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRemains(path, j.ID(), old); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a newer format: %v", err)
	}
}
