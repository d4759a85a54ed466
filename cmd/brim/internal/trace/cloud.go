package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
)

// w3cFields are the names that the fields of logFields have in a log of CloudFront.
var w3cFields = map[string]string{
	"host": "c-ip", "user": "cs-username", "method": "cs-method", "path": "cs-uri-stem", "status": "sc-status",
	"referer": "cs(Referer)", "agent": "cs(User-Agent)",
}

// w3c reads a standard log of CloudFront, which is in the extended log file format of the W3C. Lines
// that begin with # are directives. The directive #Fields names the fields of the lines after it,
// and comes again where logs were joined.
type w3c struct {
	options          Options
	start            bool
	fields           []string // the header in use; nil before the first
	date, time, took int      // the indexes of fields, -1 for none
	key, size        int
}

func (t *Reader) newW3C() (parser, error) {
	start, err := t.options.atStart()
	if err != nil {
		return nil, err
	}
	w := &w3c{options: t.options, start: start}
	return w.parse, nil
}

func (w *w3c) parse(line []byte, r *simulate.Arrival) error {
	if header, ok := bytes.CutPrefix(line, []byte("#Fields:")); ok {
		w.header(strings.Fields(string(header)))
		return errSkip
	}
	if line[0] == '#' {
		return errSkip
	}
	if w.fields == nil {
		return errors.New("no line #Fields: stands before it")
	}
	separator := "\t"
	if !bytes.Contains(line, []byte(separator)) {
		separator = " "
	}
	row := strings.Split(string(line), separator)
	if len(row) != len(w.fields) {
		return fmt.Errorf("it has %d fields and the line #Fields: has %d", len(row), len(w.fields))
	}
	for _, need := range []struct {
		index int
		name  string
	}{{w.date, "date"}, {w.time, "time"}, {w.key, w.keyName()}} {
		if need.index < 0 || row[need.index] == "-" || row[need.index] == "" {
			return fmt.Errorf("it has no %s", need.name)
		}
	}
	at, err := time.Parse("2006-01-02 15:04:05", row[w.date]+" "+row[w.time])
	if err != nil {
		return errors.New("its date and time are not written like 2019-12-04 and 21:02:31")
	}
	r.Time, r.Key = at.UnixMicro(), row[w.key]
	if w.start {
		took, ok := int64(0), false
		if w.took >= 0 {
			took, ok = parseSeconds(row[w.took])
		}
		if !ok {
			return errors.New("it has no time-taken in seconds, like 0.125")
		}
		r.Time -= took
	}
	size := "-"
	if w.size >= 0 {
		size = row[w.size]
	}
	return w.options.setCost(r, size)
}

// keyName returns the name of the key in the header.
func (w *w3c) keyName() string {
	name := cmp.Or(w.options.Key, "host")
	return cmp.Or(w3cFields[name], name)
}

// header sets the fields of the following lines.
func (w *w3c) header(fields []string) {
	w.fields = fields
	w.date, w.time, w.took = slices.Index(fields, "date"), slices.Index(fields, "time"), slices.Index(fields, "time-taken")
	w.key, w.size = slices.Index(fields, w.keyName()), slices.Index(fields, "sc-bytes")
}

// The fields of a line of an Application Load Balancer, of those that brim reads.
const (
	albTime, albClient, albTarget                = 1, 3, 4
	albTook                                      = 5 // and the two fields after it
	albStatus, albSent, albRequest, albUserAgent = 8, 11, 12, 13
	albFewest                                    = 14 // older logs end here
	albDomain, albStart                          = 18, 21
)

// albKinds are the first words of the lines.
var albKinds = []string{"http", "https", "h2", "grpcs", "ws", "wss"}

// albFields are the fields that can be a key.
var albFields = []string{"host", "method", "path", "status", "agent", "target", "domain"}

// isALB reports whether the line begins as one of an Application Load Balancer: with the type of
// the connection, and a time.
func isALB(line []byte) bool {
	kind, rest, _ := strings.Cut(string(line[:min(len(line), 64)]), " ")
	at, _, _ := strings.Cut(rest, " ")
	_, err := time.Parse(time.RFC3339Nano, at)
	return err == nil && slices.Contains(albKinds, kind)
}

func (t *Reader) newALB() (parser, error) {
	o := t.options
	name := cmp.Or(o.Key, "host")
	if !slices.Contains(albFields, name) {
		return nil, noLogField(name, albFields)
	}
	start, err := o.atStart()
	if err != nil {
		return nil, err
	}
	var fields []string
	return func(line []byte, r *simulate.Arrival) (err error) {
		if fields = splitQuoted(line, fields[:0]); len(fields) < albFewest {
			return fmt.Errorf("it has %d fields; a line of an Application Load Balancer has %d or more", len(fields), albFewest)
		}
		if r.Time, err = albTimeOf(fields, start); err != nil {
			return err
		}
		if r.Key = albKey(fields, name); r.Key == "" || r.Key == "-" {
			return fmt.Errorf("it has no %s", name)
		}
		return o.setCost(r, fields[albSent])
	}, nil
}

// albTimeOf returns the time of the response, or that of the request.
func albTimeOf(fields []string, start bool) (int64, error) {
	if start && len(fields) > albStart {
		if at, err := time.Parse(time.RFC3339Nano, fields[albStart]); err == nil {
			return at.UnixMicro(), nil
		}
	}
	at, err := time.Parse(time.RFC3339Nano, fields[albTime])
	if err != nil {
		return 0, errors.New("its time is not written like 2018-07-02T22:23:00.186641Z")
	}
	micros := at.UnixMicro()
	for _, took := range fields[albTook : albTook+3] {
		if n, ok := parseSeconds(took); ok && start { // -1 stands for a request without an answer
			micros -= n
		}
	}
	return micros, nil
}

// albKey returns a field, or "" if the line does not have it.
func albKey(fields []string, name string) string {
	request := logLine{request: []byte(fields[albRequest])}
	switch name {
	case "host":
		return withoutPort(fields[albClient])
	case "target":
		return withoutPort(fields[albTarget])
	case "status":
		return fields[albStatus]
	case "agent":
		return fields[albUserAgent]
	case "domain":
		if len(fields) > albDomain {
			return fields[albDomain]
		}
		return ""
	case "method":
		method, _ := request.words()
		return string(method)
	}
	_, path := request.words()
	if _, rest, ok := strings.Cut(string(path), "://"); ok { // the log has the whole URL
		_, rest, _ = strings.Cut(rest, "/")
		return "/" + rest
	}
	return string(path)
}

// withoutPort cuts the port from an address.
func withoutPort(s string) string {
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.Addr().String()
	}
	return s
}

// splitQuoted appends the fields of a line to row. Blanks separate fields. A field may be quoted.
func splitQuoted(line []byte, row []string) []string {
	for {
		line = bytes.TrimLeft(line, " ")
		if len(line) == 0 {
			return row
		}
		field, rest, quoted := cutQuoted(line)
		if !quoted {
			field, rest, _ = bytes.Cut(line, []byte(" "))
		}
		row, line = append(row, string(field)), rest
	}
}
