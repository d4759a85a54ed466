package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/brimgo/brim/internal/durable"
)

// Replay calls fn with each body from position p on. The body is good until fn returns. Then the
// journal goes on after the last frame.
//
// An earlier process may have ended between a write and its sync, or a sync may have failed. So
// Replay makes durable whatever it has read, before it returns, unless the journal was opened by
// [OpenToRead].
//
// An error of fn ends the replay and is returned as it is. The other errors are [ErrDamaged],
// [ErrNewer] and those of the file system.
func (j *Journal) Replay(p Position, fn func(body []byte) error) error {
	if p == (Position{}) {
		p = start
	}
	if p.Generation == 0 || p.Offset < 0 || p.Offset > j.region || p.Offset%align != 0 {
		return fmt.Errorf("%w: there is no position %d in it", ErrDamaged, p.Offset)
	}
	j.end, j.before, j.released, j.zeroed = p, 0, p, [2]int64{}
	for {
		data, err := j.read(j.end)
		if err != nil {
			return err
		}
		begin := j.end
		if err := j.replay(data, fn); err != nil {
			return err
		}
		if err := j.settle(begin, data); err != nil {
			return err
		}
		more, err := j.goesOn()
		if err != nil || !more {
			return err
		}
	}
}

// read returns the rest of a region.
func (j *Journal) read(p Position) ([]byte, error) {
	data := make([]byte, j.region-p.Offset)
	if _, err := j.file.ReadAt(data, j.at(p.Generation, p.Offset)); err != nil && err != io.EOF {
		return nil, err
	}
	return data, nil
}

// replay reads the frames of the region of j.end, from there on.
func (j *Journal) replay(data []byte, fn func([]byte) error) error {
	if err := j.belongs(j.end.Generation); err != nil {
		return err
	}
	for first := true; ; first = false {
		h, ok := parseHeader(data)
		if !ok || h.generation != j.end.Generation || h.number != j.end.Number {
			break
		}
		body, ok := h.body(data, j.seed)
		if !ok {
			break
		}
		if first {
			j.before = h.before
		}
		if h.before != j.before {
			return fmt.Errorf("%w: frame %d does not follow the one before", ErrDamaged, h.number)
		}
		if err := fn(body); err != nil {
			return err
		}
		size := frameSize(len(body))
		data = data[size:]
		j.end.Offset += size
		j.end.Number++
	}
	return j.torn(data)
}

// belongs returns an error if the region of a generation begins with a frame of a later one.
func (j *Journal) belongs(generation uint64) error {
	h, err := j.first(generation)
	if err == nil && h != nil && h.generation > generation {
		return fmt.Errorf("%w: it begins with generation %d, the position is in %d", ErrNewer, h.generation, generation)
	}
	return err
}

// first returns the header of the first frame in the region of a generation, or nil.
func (j *Journal) first(generation uint64) (*header, error) {
	buf := make([]byte, headerSize)
	if _, err := j.file.ReadAt(buf, j.at(generation, 0)); err != nil {
		return nil, err
	}
	h, ok := parseHeader(buf)
	if !ok || frameSize(h.size) > j.region {
		return nil, nil
	}
	buf = make([]byte, frameSize(h.size))
	if _, err := j.file.ReadAt(buf, j.at(generation, 0)); err != nil {
		return nil, err
	}
	if _, ok := h.body(buf, j.seed); !ok {
		return nil, nil
	}
	return &h, nil
}

// torn returns an error if a whole frame that belongs after j.end stands in data, the bytes after
// j.end. One frame is written at a time, so a crash leaves none behind a torn one.
func (j *Journal) torn(data []byte) error {
	// Nearly all of data are zeros and frames of older generations. So look for the generation.
	generation := binary.LittleEndian.AppendUint64(nil, j.end.Generation)
	for from := align + generationAt; from < len(data); {
		i := bytes.Index(data[from:], generation)
		if i < 0 {
			return nil
		}
		at := from + i - generationAt
		from += i + 1
		h, ok := parseHeader(data[at:])
		if at%align != 0 || !ok || h.number <= j.end.Number {
			continue
		}
		if _, ok := h.body(data[at:], j.seed); ok {
			return fmt.Errorf("%w: frame %d is missing, and frame %d is there", ErrDamaged, j.end.Number, h.number)
		}
	}
	return nil
}

// settle writes what was replayed once more, and syncs it. What follows is filled with zeros
// before it is used.
func (j *Journal) settle(begin Position, data []byte) error {
	if j.reading {
		return nil
	}
	n := j.end.Offset - begin.Offset
	if n > 0 {
		if _, err := j.file.WriteAt(data[:n], j.at(begin.Generation, begin.Offset)); err != nil {
			return err
		}
	}
	j.zeroed[begin.Generation%2] = j.end.Offset
	return durable.Data(j.file)
}

// goesOn moves j.end to the next generation if that has begun.
func (j *Journal) goesOn() (bool, error) {
	next := j.end.Generation + 1
	if err := j.belongs(next); err != nil {
		return false, err
	}
	h, err := j.first(next)
	if err != nil {
		return false, err
	}
	if h == nil || h.generation < next {
		data, err := j.read(Position{Generation: next})
		if err != nil {
			return false, err
		}
		end := j.end
		j.end = Position{Generation: next, Number: end.Number}
		err = j.torn(data)
		j.end = end
		return false, err
	}
	if h.before != j.end.Offset || h.number != j.end.Number {
		return false, fmt.Errorf("%w: generation %d ends with frame %d at %d, and the next begins with frame %d after %d",
			ErrDamaged, j.end.Generation, j.end.Number, j.end.Offset, h.number, h.before)
	}
	j.end = Position{Generation: next, Number: h.number}
	return true, nil
}
