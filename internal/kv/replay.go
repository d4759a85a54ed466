package kv

import (
	"encoding/binary"
	"fmt"
	"io"
)

// replay calls fn with each body from position p on. The body is good until fn returns. Then the
// journal goes on after the last frame.
//
// An earlier process may have ended between the write of a frame and its sync, or the sync may have
// failed. So replay makes all frames durable before it returns, unless the log was opened by
// openLog for reading.
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
	var loose []position // of the frames that no later frame knows as durable
	var rest []byte
	for more := true; more; {
		var err error
		if rest, err = w.read(w.end); err != nil {
			return err
		}
		if rest, loose, err = w.scan(rest, loose, fn); err != nil {
			return err
		}
		w.zeroed[w.end.generation%2] = w.end.offset
		if more, err = w.goesOn(); err != nil {
			return err
		}
	}
	err := w.erase(rest, w.end)
	if err == nil {
		p := position{generation: w.end.generation + 1}
		if rest, err = w.read(p); err == nil {
			err = w.erase(rest, p)
		}
	}
	if err != nil || w.reading {
		return err
	}
	if len(loose) > 0 {
		if err := w.rewrite(loose[0]); err != nil {
			return err
		}
	}
	w.synced.Store(w.end.number)
	return w.file.SyncData()
}

// read returns the rest of a segment.
func (w *wal) read(p position) ([]byte, error) {
	data := make([]byte, w.segment-p.offset)
	if _, err := w.file.ReadAt(data, w.at(p.generation, p.offset)); err != nil && err != io.EOF {
		return nil, err
	}
	return data, nil
}

// scan reads the frames of the segment of w.end, from there on, and returns the bytes behind them.
// It keeps loose up to date.
func (w *wal) scan(data []byte, loose []position, fn func([]byte) error) ([]byte, []position, error) {
	if err := w.belongs(w.end.generation); err != nil {
		return nil, nil, err
	}
	for first := true; ; first = false {
		h, ok := parseHeader(data, w.seed)
		if !ok || h.generation != w.end.generation || h.number != w.end.number {
			return data, loose, nil
		}
		body, ok := h.body(data)
		if !ok {
			return data, loose, nil
		}
		if first {
			w.before = h.before
		}
		if h.before != w.before {
			return nil, nil, fmt.Errorf("%w: frame %d does not follow the one before", errLogDamaged, h.number)
		}
		if err := fn(body); err != nil {
			return nil, nil, err
		}
		loose = append(loose, w.end)
		for loose[0].number < h.durable() {
			loose = loose[1:]
		}
		size := frameSize(h.size)
		data = data[size:]
		w.end.offset += size
		w.end.number++
	}
}

// belongs returns an error if the segment of a generation begins with a frame of a later one.
func (w *wal) belongs(generation uint64) error {
	h, err := w.first(generation)
	if err == nil && h.generation > generation {
		return fmt.Errorf("%w: it begins with generation %d, the position is in %d", errNewer, h.generation, generation)
	}
	return err
}

// first returns the header of the first frame in the segment of a generation, or a zero header.
func (w *wal) first(generation uint64) (h header, err error) {
	buf := make([]byte, headerSize)
	if _, err := w.file.ReadAt(buf, w.at(generation, 0)); err != nil {
		return h, err
	}
	if found, ok := parseHeader(buf, w.seed); ok {
		h = found
	}
	return h, nil
}

// erase writes zeros over the frames in data, the bytes at p, behind the end of the log. A power
// cut has torn them or taken a frame before them, and they must not follow another frame of its
// number. If one of them knows that frame as durable, the log is damaged.
func (w *wal) erase(data []byte, p position) error {
	end := int64(0)
	for at := int64(0); at+headerSize <= int64(len(data)); at += align {
		if binary.LittleEndian.Uint64(data[at+8:]) != p.generation { // nearly all are zeros, or of older generations
			continue
		}
		h, ok := parseHeader(data[at:], w.seed)
		switch {
		case !ok:
			continue
		case h.number > w.end.number && h.durable() > w.end.number:
			return fmt.Errorf("%w: frame %d is missing, and frame %d is there", errLogDamaged, w.end.number, h.number)
		}
		end = min(at+frameSize(h.size), int64(len(data)))
		at = end - align // frames of one generation do not overlap
	}
	if end == 0 || w.reading {
		return nil
	}
	_, err := w.file.WriteAt(make([]byte, end), w.at(p.generation, p.offset))
	return err
}

// rewrite writes the frames from p on once more. A sync alone is not enough: after a sync that
// failed, Linux takes the pages for clean.
func (w *wal) rewrite(p position) error {
	end := w.end.offset
	if p.generation < w.end.generation {
		if err := w.rewrite(position{generation: w.end.generation}); err != nil {
			return err
		}
		end = w.before
	}
	frames, at := make([]byte, end-p.offset), w.at(p.generation, p.offset)
	if _, err := w.file.ReadAt(frames, at); err != nil {
		return err
	}
	_, err := w.file.WriteAt(frames, at)
	return err
}

// goesOn moves w.end to the next generation if that has begun.
func (w *wal) goesOn() (bool, error) {
	next := w.end.generation + 1
	if err := w.belongs(next); err != nil {
		return false, err
	}
	h, err := w.first(next)
	if err != nil || h.generation < next || h.number > w.end.number {
		return false, err
	}
	if h.before != w.end.offset || h.number != w.end.number {
		return false, fmt.Errorf("%w: generation %d ends with frame %d at %d, and the next begins with frame %d after %d",
			errLogDamaged, w.end.generation, w.end.number, w.end.offset, h.number, h.before)
	}
	w.end, w.before = position{generation: next, number: h.number}, h.before
	return true, nil
}
