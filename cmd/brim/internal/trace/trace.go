// Package trace reads requests with their time, key and cost from access logs in NCSA common or
// combined format, from CSV and from JSON lines, each of them plain or compressed with gzip.
//
// A line that is not a request does not end the reading. [Reader.Next] returns a [*LineError] for
// it, and the next call continues with the next line. No error contains text of a line, because
// that may be personal data.
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
	// ErrFormat reports input that cannot be read as a trace, for instance a damaged or truncated
	// gzip file, or a CSV header without a required column.
	ErrFormat = errors.New("not a trace")
	// ErrField reports a key or a cost that the format of the input does not have.
	ErrField = errors.New("no such field")
)

// LineError reports a line that is not a request. Reading continues with the next line.
type LineError struct {
	Line int    // counted from 1
	Why  string // the reason, without text of the line
}

func (e *LineError) Error() string { return "line " + strconv.Itoa(e.Line) + ": " + e.Why }

// Request is one line of a trace.
type Request struct {
	Line int   // counted from 1
	Time int64 // microseconds since the Unix epoch
	Key  string
	Cost float64 // units; a number from 0 to 2^53
}

// Cost is the source of the cost of a request. The zero value is the cost that the line names, or
// 1 if it names none.
type Cost struct {
	Bytes bool    // the size of the response, in bytes, from an access log
	Units float64 // if positive, the cost of every request
}

// ParseCost reads "bytes" or a number of units.
func ParseCost(s string) (Cost, error) {
	if s == "bytes" {
		return Cost{Bytes: true}, nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n > 0 && n <= store.MaxAmount) {
		return Cost{}, fmt.Errorf("a cost is %q or a number above 0 and at most 2^53; not %q", "bytes", s)
	}
	return Cost{Units: n}, nil
}

// Options select the fields of a line.
type Options struct {
	// Key is the field that is the key. The default is host for access logs, and key for CSV and
	// JSON lines. Access logs have the fields of [LogFields]. CSV and JSON lines may have any
	// column or member.
	Key  string
	Cost Cost
}

// Reader reads requests. Only one goroutine at a time may use it.
type Reader struct {
	lines lines
	// parse reads a line. Its error is the reason for a LineError.
	parse func(line []byte, r *Request) error
}

// NewReader returns a reader of the requests in r. It recognizes the compression by the first
// bytes, and the format by the first line that is not blank. For empty input the first call of
// Next returns io.EOF. Errors are [ErrFormat], [ErrField] and those of r.
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
		_, _ = br.Discard(len(bom)) // Peek has already read them
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

// Next returns the next request. It returns a [*LineError] for a line that is not a request, and
// io.EOF at the end. After any other error, such as [ErrFormat], the reader can read nothing
// more.
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

// parseCost reads the cost that a line names. An absent cost is 1.
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
