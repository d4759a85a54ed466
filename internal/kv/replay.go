package kv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// replay calls fn with each body from position p on. The body is good until fn returns. Then the
// journal goes on after the last frame.
//
// An earlier process may have ended between the write of the last frame and its sync, or the sync
// may have failed. So replay makes the last frame durable before it returns, unless the log was
// opened by openLog for reading. Each frame before it was synced before the next was written.
//
// An error of fn ends the replay and is returned as it is. The other errors are errLogDamaged,
// errNewer and those of the file system.
func (w *wal) replay(p position, fn func(body []byte) error) error {
	if p == (position{}) {
		p = firstPosition
	}
	if p.generation == 0 || p.offset < 0 || p.offset > w.segment || p.offset%align != 0 {
		return fmt.Errorf("%w: there is no position %d in it", errLogDamaged, p.offset)
	}
	w.end, w.before, w.released, w.zeroed = p, 0, p, [2]int64{}
	last := p
	for more := true; more; {
		data, err := w.read(w.end)
		if err != nil {
			return err
		}
		if last, err = w.scan(data, fn); err != nil {
			return err
		}
		w.zeroed[w.end.generation%2] = w.end.offset
		if more, err = w.goesOn(); err != nil {
			return err
		}
	}
	return w.rewrite(last)
}

// read returns the rest of a segment.
func (w *wal) read(p position) ([]byte, error) {
	data := make([]byte, w.segment-p.offset)
	if _, err := w.file.ReadAt(data, w.at(p.generation, p.offset)); err != nil && err != io.EOF {
		return nil, err
	}
	return data, nil
}

// scan reads the frames of the segment of w.end, from there on, and returns the position of the
// last.
func (w *wal) scan(data []byte, fn func([]byte) error) (last position, err error) {
	last = w.end
	if err := w.belongs(w.end.generation); err != nil {
		return last, err
	}
	for first := true; ; first = false {
		h, ok := parseHeader(data)
		if !ok || h.generation != w.end.generation || h.number != w.end.number {
			break
		}
		body, ok := h.body(data, w.seed)
		if !ok {
			break
		}
		if first {
			w.before = h.before
		}
		if h.before != w.before {
			return last, fmt.Errorf("%w: frame %d does not follow the one before", errLogDamaged, h.number)
		}
		if err := fn(body); err != nil {
			return last, err
		}
		last = w.end
		size := frameSize(len(body))
		data = data[size:]
		w.end.offset += size
		w.end.number++
	}
	return last, w.torn(data)
}

// belongs returns an error if the segment of a generation begins with a frame of a later one.
func (w *wal) belongs(generation uint64) error {
	h, err := w.first(generation)
	if err == nil && h != nil && h.generation > generation {
		return fmt.Errorf("%w: it begins with generation %d, the position is in %d", errNewer, h.generation, generation)
	}
	return err
}

// first returns the header of the first frame in the segment of a generation, or nil.
func (w *wal) first(generation uint64) (*header, error) {
	buf := make([]byte, headerSize)
	if _, err := w.file.ReadAt(buf, w.at(generation, 0)); err != nil {
		return nil, err
	}
	h, ok := parseHeader(buf)
	if !ok || frameSize(h.size) > w.segment {
		return nil, nil
	}
	buf = make([]byte, frameSize(h.size))
	if _, err := w.file.ReadAt(buf, w.at(generation, 0)); err != nil {
		return nil, err
	}
	if _, ok := h.body(buf, w.seed); !ok {
		return nil, nil
	}
	return &h, nil
}

// torn returns an error if a whole frame that belongs after w.end stands in data, the bytes after
// w.end. One frame is written at a time, so a crash leaves none behind a torn one.
func (w *wal) torn(data []byte) error {
	// Nearly all of data are zeros and frames of older generations. So look for the generation.
	generation := binary.LittleEndian.AppendUint64(nil, w.end.generation)
	for from := align + generationAt; from < len(data); {
		i := bytes.Index(data[from:], generation)
		if i < 0 {
			return nil
		}
		at := from + i - generationAt
		from += i + 1
		h, ok := parseHeader(data[at:])
		if at%align != 0 || !ok || h.number <= w.end.number {
			continue
		}
		if _, ok := h.body(data[at:], w.seed); ok {
			return fmt.Errorf("%w: frame %d is missing, and frame %d is there", errLogDamaged, w.end.number, h.number)
		}
	}
	return nil
}

// rewrite writes the frame at p, the last one, once more, and syncs it. A second sync alone is not
// enough: after a sync that failed, Linux takes the pages for clean.
func (w *wal) rewrite(p position) error {
	if w.reading {
		return nil
	}
	frame, at := make([]byte, w.end.offset-p.offset), w.at(p.generation, p.offset)
	if _, err := w.file.ReadAt(frame, at); err != nil {
		return err
	}
	if _, err := w.file.WriteAt(frame, at); err != nil {
		return err
	}
	return w.file.SyncData()
}

// goesOn moves w.end to the next generation if that has begun.
func (w *wal) goesOn() (bool, error) {
	next := w.end.generation + 1
	if err := w.belongs(next); err != nil {
		return false, err
	}
	h, err := w.first(next)
	if err != nil {
		return false, err
	}
	if h == nil || h.generation < next {
		data, err := w.read(position{generation: next})
		if err != nil {
			return false, err
		}
		end := w.end
		w.end = position{generation: next, number: end.number}
		err = w.torn(data)
		w.end = end
		return false, err
	}
	if h.before != w.end.offset || h.number != w.end.number {
		return false, fmt.Errorf("%w: generation %d ends with frame %d at %d, and the next begins with frame %d after %d",
			errLogDamaged, w.end.generation, w.end.number, w.end.offset, h.number, h.before)
	}
	w.end = position{generation: next, number: h.number}
	return true, nil
}
