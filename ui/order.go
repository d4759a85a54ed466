package ui

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// sort makes the orders of a listing. It sorts a million rows in some tenths of a second: numbers
// that stand beside each other in memory are sorted ten times as fast as rows that are looked up.
func (l *listing) sort() {
	spare := make([]chunked, len(l.rows))
	rows := make([]chunked, len(l.rows))
	for i := range rows {
		rows[i].i = uint32(i)
		l.breathe(i)
	}
	l.sortFrom(rows, spare, 0)
	l.byForm = l.orderOf(rows)
	for at := range rows {
		// The bits of positive numbers are in the order of the numbers.
		rows[at].chunk = ^math.Float64bits(max(0, l.rows[rows[at].i].share()))
		l.breathe(at)
	}
	l.sortChunks(rows, spare) // rows of the same share stay in the order of the forms
	l.byShare = l.orderOf(rows)
}

func (l *listing) orderOf(rows []chunked) []uint32 {
	order := make([]uint32, len(rows))
	for at, r := range rows {
		order[at] = r.i
		l.breathe(at)
	}
	return order
}

// breather makes a listing work for a fifth of the time only. With the pause after a listing, less
// than one call in a hundred then meets a listing at work.
type breather struct{ began time.Time }

// breathe is called for each step. It rests four times as long as the steps since the last rest
// took, and at most half a millisecond, since steps that wait for a server need no rest. A call
// that meets the listing at work may wait until it rests, so it works for some 50 microseconds at a
// time.
func (b *breather) breathe(step int) {
	const between = 256
	if step%between != between-1 {
		return
	}
	if !b.began.IsZero() {
		time.Sleep(min(4*time.Since(b.began), 500*time.Microsecond))
	}
	b.began = time.Now()
}

// chunked is a row with the number that it is sorted by.
type chunked struct {
	chunk uint64
	i     uint32
}

// sortFrom sorts rows by their forms, which have the same bytes before depth. It compares eight
// bytes at a time. A form has no NUL, so zeros fill the chunk at its end.
func (l *listing) sortFrom(rows, spare []chunked, depth int) {
	for at := range rows {
		var chunk [8]byte
		form := l.form(rows[at].i)
		copy(chunk[:], form[min(depth, len(form)):])
		rows[at].chunk = binary.BigEndian.Uint64(chunk[:])
		l.breathe(at)
	}
	l.sortChunks(rows, spare)
	runs := 0
	for len(rows) > 0 {
		same := 1
		for same < len(rows) && rows[same].chunk == rows[0].chunk {
			same++
		}
		runs++
		l.breathe(runs)
		if same > 1 && byte(rows[0].chunk) != 0 { // otherwise the forms have ended
			l.sortFrom(rows[:same], spare, depth+8)
		}
		rows = rows[same:]
	}
}

// sortChunks sorts rows by their chunks, and keeps the order of rows with the same chunk. It sorts
// by one byte after the other, the least first, and leaves out bytes in which no two rows differ.
// spare is at least as long as rows.
func (l *listing) sortChunks(rows, spare []chunked) {
	const few = 500 // for which a sort by comparison is faster
	if len(rows) < few {
		slices.SortStableFunc(rows, func(a, b chunked) int { return cmp.Compare(a.chunk, b.chunk) })
		return
	}
	var counts [8][256]int
	for at, r := range rows {
		for digit := range counts {
			counts[digit][byte(r.chunk>>(8*digit))]++
		}
		l.breathe(at)
	}
	from, to := rows, spare[:len(rows)]
	for digit := range counts {
		shift := 8 * digit
		if counts[digit][byte(rows[0].chunk>>shift)] == len(rows) {
			continue
		}
		var starts [256]int
		for value := range 255 {
			starts[value+1] = starts[value] + counts[digit][value]
		}
		for at, r := range from {
			value := byte(r.chunk >> shift)
			to[starts[value]] = r
			starts[value]++
			l.breathe(at)
		}
		from, to = to, from
	}
	if &from[0] != &rows[0] {
		copy(rows, from)
	}
}
