package book

import (
	"bytes"
	"reflect"
	"testing"
)

func writeEnds(now int64, lists ...[]End) []byte {
	var ends Ends
	e := NewEncoder(1)
	for _, l := range lists {
		ends.Write(e, len(l), func(i int) End { return l[i] })
	}
	ends.Encode(e, now)
	return e.B
}

func readEnds(now int64, lists int, b []byte) ([][]End, error) {
	var ends Ends
	d := NewDecoder("a test", 1, b)
	read := make([][]End, lists)
	for i := range read {
		read[i] = make([]End, d.Count())
		ends.Read(len(read[i]), func(at int, x End) { read[i][at] = x })
	}
	ends.Decode(d, now)
	return read, d.End()
}

// TestEnds writes lists and reads them again. The same lists with other latest ends, at another
// time, have the same bytes behind those.
func TestEnds(t *testing.T) {
	const now = 1 << 40
	lists := [][]End{{{-5, 1, 1}, {9, 2, 1}}, {}, {{-5, -7, 0}, {-5, 3, 1}, {8, 1 << 50, 1}, {9, 2, 0}}, {{1 << 41, 3, 1}}}
	b := writeEnds(now, lists...)
	if got, err := readEnds(now, len(lists), b); err != nil || !reflect.DeepEqual(got, lists) {
		t.Errorf("read %v, %v; want %v", got, err, lists)
	}
	for n := range len(b) - 1 {
		if got, err := readEnds(now, len(lists), b[:n+1]); err == nil {
			t.Errorf("%d of %d bytes: %v; want an error", n+1, len(b), got)
		}
	}
	later := append(lists[:3:3], []End{{1 << 42, 3, 1}, {1 << 43, 4, 1}})
	again := writeEnds(now+1<<20, later...)
	const same = 5 * 4 // of five ends
	if !bytes.HasSuffix(again, b[len(b)-same:]) {
		t.Errorf("the last %d bytes differ in\n%x and\n%x", same, b, again)
	}
	for name, b := range map[string][]byte{
		"a list that there is not":        {1, 2, 0, 2, 0, 0},
		"a list before the first":         {1, 2, 0, 1, 0, 0},
		"two ends in a list of one":       {1, 2, 0, 0, 0, 0, 0, 0},
		"a later end behind an earlier":   {1, 4, 0, 0, 0, 0, 1, 0, 0, 0},
		"an end that no list announces":   {1, 0, 0, 0, 0, 0},
		"less ends than a list announces": {1, 4, 0, 0, 0, 0},
	} {
		if got, err := readEnds(now, 1, b); err == nil {
			t.Errorf("%s: %v; want an error", name, got)
		}
	}
}
