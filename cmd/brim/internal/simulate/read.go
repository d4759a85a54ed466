package simulate

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// lines is a chunk of a source.
type lines struct {
	number   int // of the chunk, counted from 1
	arrivals []Arrival
	bad      []*LineError
	err      error // the error that ended the reading
}

// reader reads a source in a goroutine of its own, so that the source is parsed while the chunk
// before is decided.
type reader struct {
	chunks  chan lines
	mu      sync.Mutex
	current lines // read, and not yet in chunks
}

// read reads src until it ends or ctx is done.
func read(ctx context.Context, src Source) *reader {
	r := &reader{chunks: make(chan lines), current: lines{number: 1}}
	go func() {
		for {
			r.readChunk(src)
			r.mu.Lock()
			c := r.current
			r.mu.Unlock()
			select {
			case r.chunks <- c:
			case <-ctx.Done():
				return
			}
			r.mu.Lock()
			r.current = lines{number: c.number + 1}
			r.mu.Unlock()
			if c.err != nil {
				return
			}
		}
	}()
	return r
}

// readChunk reads the current chunk until it is full or the source ends.
func (r *reader) readChunk(src Source) {
	for range chunk {
		a, err := src.Next()
		r.mu.Lock()
		c := &r.current
		if e := (*LineError)(nil); errors.As(err, &e) {
			c.bad = append(c.bad, e)
		} else if err != nil {
			c.err = err
			r.mu.Unlock()
			return
		} else {
			if c.arrivals == nil {
				c.arrivals = make([]Arrival, 0, chunk)
			}
			c.arrivals = append(c.arrivals, a)
		}
		r.mu.Unlock()
	}
}

// rest returns the lines that were read after the chunk with the given number, which was received
// last.
func (r *reader) rest(received int) lines {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current.number == received {
		return lines{} // the goroutine has not yet begun the next chunk
	}
	c := r.current
	c.bad = slices.Clone(c.bad) // the goroutine may append to its own
	return c
}
