// Package cards replays logs of card transactions, which are CSV with one request per line.
package cards

import (
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

// ErrFormat reports a log that cannot be read at all. A replay counts single bad lines instead.
var ErrFormat = errors.New("not a log of card transactions")

// Event is one line of a log. Columns without a field of their own are tags.
type Event struct {
	Time     time.Time
	Kind     string // spend, authorize, increase, capture, void, refund, record or credit
	ID       string
	Account  string // for spend, authorize, record and credit
	Ref      string // for the other kinds: the ID of the earlier request
	Amount   string // as written
	Currency string
	Final    bool
	Force    bool
	Tags     map[string]string
}

// required are the columns that a log must have.
var required = []string{"time", "kind", "id", "account", "amount", "currency"}

// Reader reads events.
type Reader struct {
	csv    *csv.Reader
	header []string
}

// NewReader returns a reader of the events in r, after it has read the header. Lines that begin
// with # are comments.
func NewReader(r io.Reader) (*Reader, error) {
	c := csv.NewReader(r)
	c.Comment = '#'
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: it has no header: %w", ErrFormat, err)
	}
	header = slices.Clone(header)
	for i, name := range header {
		if slices.Contains(header[:i], name) {
			return nil, fmt.Errorf("%w: column %.40q is given twice", ErrFormat, name)
		}
	}
	for _, name := range required {
		if !slices.Contains(header, name) {
			return nil, fmt.Errorf("%w: column %q is missing; it needs %s", ErrFormat, name,
				strings.Join(required, ", "))
		}
	}
	return &Reader{csv: c, header: header}, nil
}

// LineError reports a line that is not an event.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// Read returns the next event with the number of its line. It returns a *LineError for a line
// that is not an event, and continues with the next line afterwards. It returns io.EOF at the
// end.
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

// flag reads a column that is true, false or empty.
func flag(s string) (bool, error) {
	if s == "" {
		return false, nil
	}
	return strconv.ParseBool(s)
}

// money reads the amount. A void has none.
func (e *Event) money() (spend.Money, error) {
	if e.Kind == "void" {
		return spend.Money{}, nil
	}
	return spend.ParseMoney(e.Amount, e.Currency)
}
