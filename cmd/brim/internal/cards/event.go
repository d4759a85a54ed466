// Package cards makes and replays logs of card transactions: CSV with one request per line.
package cards

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/spend"
)

// ErrFormat is a log that cannot be read at all; a single bad line is counted instead.
var ErrFormat = errors.New("not a log of card transactions")

// Event is one line. Columns that are not listed here are tags.
type Event struct {
	Time     time.Time
	Kind     string // spend, authorize, increase, capture, void, refund or record
	ID       string
	Account  string // of spend, authorize and record
	Ref      string // of the others: the ID that they are about
	Amount   string // as written
	Currency string
	Final    bool
	Force    bool
	Tags     map[string]string
}

// columns are the ones that mean something, in the order in which they are written.
var columns = []string{"time", "kind", "id", "account", "ref", "amount", "currency", "final", "force"}

// required are those that a log must have.
var required = []string{"time", "kind", "id", "account", "amount", "currency"}

// Reader reads events.
type Reader struct {
	csv       *csv.Reader
	header    []string
	synthetic bool
}

// NewReader reads the header. Lines that begin with # are comments.
func NewReader(r io.Reader) (*Reader, error) {
	in := bufio.NewReader(r)
	first, _ := in.Peek(len(Synthetic)) // what cannot be read, the header cannot either
	c := csv.NewReader(in)
	c.Comment = '#'
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: it has no header: %w", ErrFormat, err)
	}
	header = slices.Clone(header)
	for i, name := range header {
		if slices.Contains(header[:i], name) {
			return nil, fmt.Errorf("%w: column %.40q comes twice", ErrFormat, name)
		}
	}
	for _, name := range required {
		if !slices.Contains(header, name) {
			return nil, fmt.Errorf("%w: column %q is missing; it needs %s", ErrFormat, name, strings.Join(required, ", "))
		}
	}
	return &Reader{csv: c, header: header, synthetic: string(first) == Synthetic}, nil
}

// LineError is a line that is no event.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong with the line.
func (e *LineError) Unwrap() error { return e.Err }

// Read returns the next event, a *LineError, after which reading goes on, or io.EOF.
func (r *Reader) Read() (e Event, line int, err error) {
	fields, err := r.csv.Read()
	if err == io.EOF {
		return e, 0, err
	}
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return e, parse.Line, &LineError{parse.Line, parse.Err}
	}
	if err != nil {
		return e, 0, err
	}
	line, _ = r.csv.FieldPos(0)
	for i, value := range fields {
		value = strings.Clone(value)
		switch r.header[i] {
		case "time":
			e.Time, err = time.Parse(time.RFC3339Nano, value)
		case "kind":
			e.Kind = value
		case "id":
			e.ID = value
		case "account":
			e.Account = value
		case "ref":
			e.Ref = value
		case "amount":
			e.Amount = value
		case "currency":
			e.Currency = value
		case "final":
			e.Final, err = flag(value)
		case "force":
			e.Force, err = flag(value)
		default:
			if value != "" {
				if e.Tags == nil {
					e.Tags = make(map[string]string)
				}
				e.Tags[r.header[i]] = value
			}
		}
		if err != nil {
			return e, line, &LineError{line, fmt.Errorf("column %s: %w", r.header[i], err)}
		}
	}
	return e, line, nil
}

func flag(s string) (bool, error) {
	if s == "" {
		return false, nil
	}
	return strconv.ParseBool(s)
}

// money reads the amount; a void has none.
func (e *Event) money() (spend.Money, error) {
	if e.Kind == "void" {
		return spend.Money{}, nil
	}
	return spend.ParseMoney(e.Amount, e.Currency)
}
