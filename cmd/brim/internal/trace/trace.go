// Package trace reads requests with their time, key and cost from logs: access logs in NCSA common
// or combined format, CSV and JSON lines, each of them plain or compressed with gzip.
//
// A line that is not a request does not end the reading. [Reader.Next] returns a
// [*simulate.LineError] for it, and the next call continues with the next line. No error contains
// text of a line, because that may be personal data. A reader holds one line in memory.
package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/store"
)

var (
	// ErrFormat reports input that cannot be read as a trace, for instance a damaged or truncated
	// gzip file, or a CSV header without a required column.
	ErrFormat = errors.New("not a trace")
	// ErrField reports a key or a cost that the format of the input does not have.
	ErrField = errors.New("no such field")
)

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
	// JSON lines. Access logs have the fields host, user, method, path, status, referer and agent.
	// CSV and JSON lines may have any column or member. A dot leads to a member of a member:
	// request.ip.
	Key string
	// Time is the field that is the time. The default is time for CSV and JSON lines. In access
	// logs, whose time is that of the response, [Start] is the time at which the request began.
	Time string
	Cost Cost
}

// Start is the Time of Options for the time at which a request began. The lines of the log must
// contain the time that the request took, as $request_time behind the fields of a line of nginx.
const Start = "start"

// Formats describes the formats that a Reader recognizes.
const Formats = "access logs in NCSA common or combined format (Apache, nginx); CSV whose first line names time and " +
	"key; JSON lines"

// Reader reads requests. It is a [simulate.Source]. Only one goroutine at a time may call Next. Any
// goroutine may call Format and Epoch.
type Reader struct {
	options Options
	lines   lines
	times   times
	columns columns
	format  atomic.Pointer[string] // nil as long as parse is
	// parse reads a line. Its error is the reason for a [*simulate.LineError], or errSkip. It is
	// nil as long as the format is not known.
	parse parser
}

// parser reads a line of one format.
type parser func(line []byte, r *simulate.Arrival) error

// errSkip is the error of a parser for a line that is no request by the format, such as a comment.
var errSkip = errors.New("not a request")

// NewReader returns a reader of the requests in r. It recognizes the compression by the first
// bytes, and the format by the first line of a known format. For empty input the first call of
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
	t := &Reader{options: o, lines: lines{br: br}}
	first, err := t.lines.peek()
	switch {
	case err == nil:
		// An unknown field is an error at once, before anybody opens a store.
		err = t.recognize(first)
	case err == io.EOF, errors.As(err, new(*simulate.LineError)):
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Format names the format of the input, or is "" as long as no line was in a known format.
func (t *Reader) Format() string {
	if format := t.format.Load(); format != nil {
		return *format
	}
	return ""
}

// Epoch names the unit of the times that are numbers since 1970, such as milliseconds. It is "" as
// long as no time was a number.
func (t *Reader) Epoch() string {
	if unit := t.times.unit.Load(); unit != nil {
		return unit.name
	}
	return ""
}

// Next returns the next request. It returns a [*simulate.LineError] for a line that is not a
// request, and io.EOF at the end. After any other error, such as [ErrFormat], the reader can read
// nothing more.
func (t *Reader) Next() (simulate.Arrival, error) {
	for {
		line, err := t.lines.next()
		if err != nil {
			return simulate.Arrival{}, err
		}
		if t.parse == nil {
			if err := t.recognize(line); err != nil {
				return simulate.Arrival{}, err
			}
		}
		parse := t.parse
		if parse == nil {
			parse = unrecognized
		}
		req := simulate.Arrival{Line: t.lines.n}
		switch err := parse(line, &req); err {
		case nil:
			return req, nil
		case errSkip:
		default:
			return simulate.Arrival{}, &simulate.LineError{Line: t.lines.n, Why: err.Error()}
		}
	}
}

// recognize sets the parser if the line tells the format. The line is a header or a request.
func (t *Reader) recognize(line []byte) error {
	var err error
	switch columns, _ := t.columns.split(line); {
	case bytes.HasPrefix(line, []byte("{")):
		err = t.read("JSON lines")(t.newJSON())
	case len(columns) > 1 && indexFold(columns, cmp.Or(t.options.Time, "time")) >= 0:
		err = t.read("CSV")(t.newCSV(columns))
	case new(logLine).parse(line) == nil:
		err = t.read("an access log in NCSA format")(t.newNCSA())
	}
	return err
}

// read returns a function that sets the format and its parser.
func (t *Reader) read(format string) func(parser, error) error {
	return func(p parser, err error) error {
		t.parse = p
		t.format.Store(&format)
		return err
	}
}

// unrecognized is the parser of a line in no known format. Most logs are access logs, so its error
// tells the difference from them.
func unrecognized(line []byte, _ *simulate.Arrival) error {
	if err := new(logLine).parse(line); err != nil {
		return err
	}
	return errors.New("it is in no known format")
}

// setCost sets the cost of a request from an access log, whose response has the given size.
func (o *Options) setCost(r *simulate.Arrival, size string) (err error) {
	r.Cost = 1
	switch {
	case o.Cost.Units > 0:
		r.Cost = o.Cost.Units
	case o.Cost.Bytes && size == "-":
		r.Cost = 0 // the response had no body
	case o.Cost.Bytes:
		r.Cost, err = parseCost(size)
	}
	return err
}

// atStart reports whether the time of a request is that of its beginning. An access log knows no
// other field for --time.
func (o *Options) atStart() (bool, error) {
	if o.Time != "" && o.Time != Start {
		return false, fmt.Errorf("%w for the time in an access log as %q; leave it out, or choose %s, the time at "+
			"which a request began", ErrField, o.Time, Start)
	}
	return o.Time == Start, nil
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
