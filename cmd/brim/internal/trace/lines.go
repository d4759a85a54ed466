package trace

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
)

// maxLine is the longest accepted line in bytes. It keeps a file without newlines from filling
// the memory.
const maxLine = 1 << 20

// lines cuts input into lines without their ends, and skips blank lines.
type lines struct {
	br      *bufio.Reader
	n       int    // number of the line read last
	long    []byte // a line that is longer than the reader's buffer
	peeked  bool
	line    []byte
	lineErr error
}

// peek returns the next line without taking it.
func (l *lines) peek() ([]byte, error) {
	if !l.peeked {
		l.line, l.lineErr = l.read()
		l.peeked = true
	}
	return l.line, l.lineErr
}

// drop takes the line that peek has returned.
func (l *lines) drop() { l.peeked = false }

// next returns the next line that is not blank. The line is valid until the following call.
func (l *lines) next() ([]byte, error) {
	line, err := l.peek()
	l.drop()
	return line, err
}

func (l *lines) read() ([]byte, error) {
	for {
		line, err := l.readLong()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

func (l *lines) readLong() ([]byte, error) {
	line, err := l.br.ReadSlice('\n')
	if len(line) > 0 {
		l.n++
	}
	if err != bufio.ErrBufferFull {
		return lastLine(line, err)
	}
	l.long = append(l.long[:0], line...)
	for err == bufio.ErrBufferFull {
		line, err = l.br.ReadSlice('\n')
		if len(l.long) <= maxLine {
			l.long = append(l.long, line...)
		}
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(l.long) > maxLine {
		l.long = nil
		return nil, &simulate.LineError{Line: l.n, Why: fmt.Sprintf("it is longer than %d bytes", maxLine)}
	}
	return l.long, nil
}

// lastLine accepts a last line without a newline. The next read then returns the end of the file.
func lastLine(line []byte, err error) ([]byte, error) {
	if err == io.EOF && len(line) > 0 {
		return line, nil
	}
	return line, err
}

// inflated turns the errors of gzip into [ErrFormat], and leaves those of the file as they are.
type inflated struct{ r io.Reader }

func (i inflated) Read(p []byte) (int, error) {
	n, err := i.r.Read(p)
	return n, inflateError(err)
}

func inflateError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the gzip file is truncated", ErrFormat)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, new(flate.CorruptInputError)):
		return fmt.Errorf("%w: the gzip file is damaged", ErrFormat)
	}
	return err
}
