package trace

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
)

var errBytes = fmt.Errorf("%w: only access logs have a cost in bytes; CSV and JSON lines have a field cost", ErrField)

// newCSV returns a parser of rows. The header names their columns, in any order.
func (t *Reader) newCSV(header []string) (parser, error) {
	o := t.options
	if o.Cost.Bytes {
		return nil, errBytes
	}
	name, absent := o.Key, ErrField
	if name == "" {
		name, absent = "key", ErrFormat
	}
	timeAt, keyAt := indexFold(header, cmp.Or(o.Time, "time")), indexFold(header, name)
	costAt := indexFold(header, "cost")
	if keyAt < 0 {
		return nil, fmt.Errorf("%w: its header has no column %q; --key names another", absent, name)
	}
	width := len(header)
	isHeader := true
	return func(line []byte, r *simulate.Arrival) error {
		if isHeader {
			isHeader = false
			return errSkip
		}
		row, err := t.columns.split(line)
		if err != nil {
			return errors.New("its quotes are not those of CSV, or one does not end")
		}
		if len(row) != width {
			return fmt.Errorf("it has %d columns and the header has %d", len(row), width)
		}
		if !utf8.Valid(line) {
			return errors.New("it is not UTF-8")
		}
		cost := ""
		if costAt >= 0 {
			cost = strings.TrimSpace(row[costAt])
		}
		return t.set(r, strings.TrimSpace(row[timeAt]), row[keyAt], cost)
	}, nil
}

// newJSON returns a parser of lines with one JSON object each.
func (t *Reader) newJSON() (parser, error) {
	o := t.options
	if o.Cost.Bytes {
		return nil, errBytes
	}
	timeName, keyName := cmp.Or(o.Time, "time"), cmp.Or(o.Key, "key")
	return func(line []byte, r *simulate.Arrival) error {
		if !utf8.Valid(line) {
			return errors.New("it is not UTF-8")
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(line, &object) != nil {
			return errors.New("it is not one JSON object")
		}
		at, ok := scalar(member(object, timeName))
		if !ok {
			return fmt.Errorf("it has no %s that is a string or a number", timeName)
		}
		key, ok := scalar(member(object, keyName))
		if !ok {
			return fmt.Errorf("it has no %s that is a string or a number", keyName)
		}
		cost, ok := scalar(object["cost"])
		if _, there := object["cost"]; there && !ok && o.Cost.Units == 0 {
			return errors.New("its cost is not a number")
		}
		return t.set(r, at, key, cost)
	}, nil
}

// member returns the member with the given name, or nil. In a name that no member has, a dot leads
// to a member of a member.
func member(object map[string]json.RawMessage, name string) json.RawMessage {
	if raw, ok := object[name]; ok {
		return raw
	}
	for at := 0; ; at++ {
		dot := strings.IndexByte(name[at:], '.')
		if dot < 0 {
			return nil
		}
		at += dot
		var inner map[string]json.RawMessage
		if raw, ok := object[name[:at]]; ok && json.Unmarshal(raw, &inner) == nil {
			if found := member(inner, name[at+1:]); found != nil {
				return found
			}
		}
	}
}

// scalar returns the text of a JSON string or number. It reports false for other values.
func scalar(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	case c == '-' || c >= '0' && c <= '9':
		return string(raw), true
	}
	return "", false
}

// set sets the fields of a request from text.
func (t *Reader) set(r *simulate.Arrival, at, key, cost string) (err error) {
	if r.Time, err = t.times.parse(at); err != nil {
		return err
	}
	r.Key, r.Cost = key, t.options.Cost.Units
	if r.Cost > 0 {
		return nil
	}
	r.Cost, err = parseCost(cost)
	return err
}

// columns cuts lines into columns. A column cannot continue in the next line.
type columns struct {
	line bytes.Reader
	csv  *csv.Reader
}

// split returns the columns of a line, which are valid until the following call.
func (c *columns) split(line []byte) ([]string, error) {
	if c.csv == nil {
		c.csv = csv.NewReader(&c.line)
		c.csv.FieldsPerRecord, c.csv.TrimLeadingSpace, c.csv.ReuseRecord = -1, true, true
	}
	c.line.Reset(line)
	return c.csv.Read()
}

// indexFold returns the index of the column with the given name, or -1. It ignores case and
// surrounding blanks.
func indexFold(columns []string, name string) int {
	for i, c := range columns {
		if strings.EqualFold(strings.TrimSpace(c), name) {
			return i
		}
	}
	return -1
}
