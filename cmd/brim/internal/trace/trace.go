// Package trace reads requests, with their time, key and cost, out of access logs in NCSA common or combined format, CSV and
// JSON lines, each of them plain or compressed with gzip.
//
// A line that is no request does not end the reading: [Reader.Next] reports it as a [*LineError], and the next call goes on
// behind it. No error holds what a line says, which may be personal data.
package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/brimgo/brim/store"
)

var (
	// ErrFormat is input that cannot be read as a trace: a damaged or truncated gzip file, a CSV header without a column
	// that is needed.
	ErrFormat = errors.New("not a trace")
	// ErrField is a key or a cost that the input's format does not have.
	ErrField = errors.New("no such field")
)

// LineError is a line that is no request. Reading goes on behind it.
type LineError struct {
	Line int    // counted from 1
	Why  string // what is wrong with it, never what it says
}

func (e *LineError) Error() string { return "line " + strconv.Itoa(e.Line) + ": " + e.Why }

// Request is one line of a trace.
type Request struct {
	Line int   // counted from 1
	Time int64 // microseconds since the Unix epoch
	Key  string
	Cost float64 // units; a number from 0 to 2^53
}

// Cost says what a request costs. The zero Cost is the cost that the line itself names, or 1 where it names none.
type Cost struct {
	Bytes bool    // the bytes that an access log says were sent
	Units float64 // if positive, this for every request
}

// ParseCost reads "bytes" or a number of units.
func ParseCost(s string) (Cost, error) {
	if s == "bytes" {
		return Cost{Bytes: true}, nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n > 0 && n <= store.MaxAmount) {
		return Cost{}, fmt.Errorf("a cost is %q or a number over 0, at most 2^53; not %q", "bytes", s)
	}
	return Cost{Units: n}, nil
}

// Options say what to take out of a line.
type Options struct {
	// Key is the field to use as the key. Empty: host for access logs, key for CSV and JSON lines. For those two any column
	// or member will do; for access logs see [LogFields].
	Key  string
	Cost Cost
}

// Reader reads requests. It may be used by one goroutine at a time.
type Reader struct {
	lines lines
	parse func(line []byte, r *Request) error // an error is a reason, without the line's number
}

// NewReader finds out how r is compressed and written, from its first bytes and its first line that is not blank. Input that
// is empty is a Reader whose first Next answers io.EOF. Errors are [ErrFormat], [ErrField] and those of r.
func NewReader(r io.Reader, o Options) (*Reader, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, inflateError(err)
		}
		br = bufio.NewReaderSize(inflated{zr}, 64<<10)
	}
	if bom, _ := br.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = br.Discard(len(bom)) // they were just seen
	}
	t := &Reader{lines: lines{br: br}}
	first, err := t.lines.peek()
	if err != nil && err != io.EOF && !errors.As(err, new(*LineError)) {
		return nil, err
	}
	switch columns, _ := splitCSV(first, nil); {
	case bytes.HasPrefix(first, []byte("{")):
		t.parse, err = newJSON(o)
	case len(columns) > 1 && indexFold(columns, "time") >= 0:
		t.lines.drop()
		t.parse, err = newCSV(columns, o)
	default:
		t.parse, err = newNCSA(o)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Next returns the next request. A [*LineError] is a line that is none; io.EOF is the end; after any other error, such as
// [ErrFormat], nothing more can be read.
func (t *Reader) Next() (Request, error) {
	line, err := t.lines.next()
	if err != nil {
		return Request{}, err
	}
	req := Request{Line: t.lines.n}
	if err := t.parse(line, &req); err != nil {
		return Request{}, &LineError{Line: t.lines.n, Why: err.Error()}
	}
	return req, nil
}

// parseCost reads the cost that a line names; nothing there is 1.
func parseCost(s string) (float64, error) {
	if s == "" {
		return 1, nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > store.MaxAmount {
		return 0, errors.New("the cost is not a number from 0 to 2^53")
	}
	return n, nil
}
