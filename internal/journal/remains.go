package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
)

// ErrForeign means that the journal is not the one that its reader looks for.
var ErrForeign = errors.New("the journal is that of another file")

// Remains are the readable frames of a journal that may be damaged. They are read without a change
// to the journal.
type Remains struct {
	ID      ID       // the zero ID if the first page does not tell
	Size    int64    // of the file in bytes
	End     Position // after the last frame; its Offset is not known
	Bodies  [][]byte // of the frames from the position on, in order
	Current int      // no frame is missing between Bodies[Current] and the end
	Gap     bool     // a frame before that is missing
	Newer   bool     // the journal has released what comes after the position
	Damage  []string // sentences without their subject

	// Torn are the bytes where missing bodies may stand. They are damaged.
	Torn [][]byte
}

// found is a frame that was found.
type found struct {
	header
	at   int64 // in the file
	body []byte
}

// ReadRemains reads the frames of the journal with that ID from position p on. The zero ID means
// that any journal will do. An error is [ErrForeign], [errors.ErrUnsupported] or one of the file
// system.
//
// A crash can tear the last frame, which nobody was told of. So a last frame that is damaged cannot
// be told from one that never was.
func ReadRemains(path string, id ID, p Position) (*Remains, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Remains{Size: int64(len(data)), End: p}
	own, err := r.firstPage(data)
	if err != nil {
		return nil, err
	}
	r.ID = own
	switch {
	case own == ID{}: // the frames tell whether the journal is the right one
	case id == ID{}:
		id = own
	case id != own:
		return nil, ErrForeign
	}
	if p == (Position{}) {
		p = start
	}
	r.take(data, scan(data, crc32.Checksum(id[:], castagnoli), p), p)
	return r, nil
}

// firstPage reads the ID of the journal, and notes damage to the page. The zero ID means that the
// page does not tell.
func (r *Remains) firstPage(data []byte) (id ID, err error) {
	le := binary.LittleEndian
	if len(data) < firstPage || !bytes.HasPrefix(data, []byte(magic)) ||
		le.Uint32(data[len(magic):]) <= version && crc32.Checksum(data[:firstPage-4], castagnoli) != le.Uint32(data[firstPage-4:]) {
		r.Damage = append(r.Damage, "has a damaged first page")
		return id, nil
	}
	if v := le.Uint32(data[len(magic):]); v > version {
		return id, fmt.Errorf("%w: a newer version of brim has written the journal in format %d", errors.ErrUnsupported, v)
	}
	copy(id[:], data[len(magic)+4:])
	if want := pageSize + 2*int64(le.Uint64(data[len(magic)+4+idSize:])); r.Size != want {
		r.Damage = append(r.Damage, fmt.Sprintf("has %d bytes instead of %d", r.Size, want))
	}
	return id, nil
}

// scan returns all frames in data that come after p, in order.
func scan(data []byte, seed uint32, p Position) (frames []found) {
	for at := int64(pageSize); at+headerSize <= int64(len(data)); {
		h, ok := parseHeader(data[at:])
		if ok = ok && h.generation >= p.Generation && h.number >= p.Number; ok {
			var body []byte
			if body, ok = h.body(data[at:], seed); ok {
				frames = append(frames, found{h, at, body})
				at += frameSize(h.size)
			}
		}
		if !ok {
			at += align
		}
	}
	slices.SortFunc(frames, func(a, b found) int {
		switch {
		case a.number < b.number:
			return -1
		case a.number > b.number:
			return 1
		}
		return 0
	})
	return frames
}

// take takes the bodies of frames, and notes those that are missing.
func (r *Remains) take(data []byte, frames []found, p Position) {
	r.End = p
	region := max(0, int64(len(data))-pageSize) / 2
	last := pageSize + int64(p.Generation%2)*region + p.Offset // end of the frame before, in the file
	for _, f := range frames {
		if f.number != r.End.Number {
			r.Gap, r.Current = true, len(r.Bodies)
			r.Newer = r.Newer || len(r.Bodies) == 0 && f.generation > p.Generation+1
			r.Damage = append(r.Damage, missing(r.End.Number, f.number-1))
			if f.generation == r.End.Generation && last <= f.at {
				r.Torn = append(r.Torn, torn(data[last:f.at])...)
			}
		}
		r.Bodies = append(r.Bodies, f.body)
		last = f.at + frameSize(f.size)
		r.End = Position{Generation: f.generation, Number: f.number + 1}
	}
}

func missing(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("lacks the commit %d", from)
	}
	return fmt.Sprintf("lacks the commits %d to %d", from, to)
}

// torn returns the parts of gap, the bytes between two frames, where bodies have stood.
func torn(gap []byte) (bodies [][]byte) {
	for len(gap) > headerSize {
		end := int64(len(gap))
		if h, ok := parseHeader(gap); ok && frameSize(h.size) <= end {
			end = frameSize(h.size)
			bodies = append(bodies, gap[headerSize:headerSize+h.size])
		} else {
			bodies = append(bodies, gap[headerSize:])
		}
		gap = gap[end:]
	}
	return bodies
}
