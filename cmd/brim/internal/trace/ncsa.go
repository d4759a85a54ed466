package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
)

// logLine is a line of an access log in NCSA common or combined format, cut into fields:
//
//	host ident user [time] "method path protocol" status bytes "referer" "user agent"
//
// nginx may write $request_time behind these fields.
type logLine struct {
	host, user, time, request, status, bytes, referer, agent, rest []byte
}

// logFields are the fields that can be a key.
var logFields = map[string]func(*logLine) []byte{
	"host":    func(l *logLine) []byte { return l.host },
	"user":    func(l *logLine) []byte { return l.user },
	"method":  func(l *logLine) []byte { method, _ := l.words(); return method },
	"path":    func(l *logLine) []byte { _, path := l.words(); return path },
	"status":  func(l *logLine) []byte { return l.status },
	"referer": func(l *logLine) []byte { return l.referer },
	"agent":   func(l *logLine) []byte { return l.agent },
}

func (t *Reader) newNCSA() (parser, error) {
	o := t.options
	name := cmp.Or(o.Key, "host")
	field, ok := logFields[name]
	if !ok {
		return nil, fmt.Errorf("%w in an access log as %q; the fields are %s", ErrField, name,
			strings.Join(slices.Sorted(maps.Keys(logFields)), ", "))
	}
	start, err := o.atStart()
	if err != nil {
		return nil, err
	}
	// Requests of the same second follow each other, and share one parsing of the time.
	var last []byte
	var lastTime int64
	return func(line []byte, r *simulate.Arrival) error {
		var l logLine
		if err := l.parse(line); err != nil {
			return err
		}
		if last == nil || !bytes.Equal(last, l.time) {
			t, err := time.Parse("02/Jan/2006:15:04:05 -0700", string(l.time))
			if err != nil {
				return errors.New("its time is not written like 01/Aug/1995:02:00:00 -0400")
			}
			last, lastTime = append(last[:0], l.time...), t.UnixMicro()
		}
		r.Time = lastTime
		if start {
			took, ok := l.took()
			if !ok {
				return errors.New("the seconds that the request took, like nginx's $request_time, do not follow its fields")
			}
			r.Time -= took
		}
		key := field(&l)
		if len(key) == 0 {
			return fmt.Errorf("it has no %s", name)
		}
		r.Key = string(key)
		return o.setCost(r, string(l.bytes))
	}, nil
}

// took returns the microseconds that the request took. They are the first number with a fraction
// behind the fields, plain or as rt=0.125 or request_time=0.125. Quoted strings may stand in front,
// for instance the header X-Forwarded-For.
func (l *logLine) took() (int64, bool) {
	rest := l.rest
	for {
		rest = bytes.TrimLeft(rest, " ")
		if _, after, ok := cutQuoted(rest); ok {
			rest = after
			continue
		}
		word, after, _ := bytes.Cut(rest, []byte(" "))
		if len(word) == 0 {
			return 0, false
		}
		name, value, named := strings.Cut(string(word), "=")
		if !named {
			name, value = "rt", name
		}
		if micros, ok := parseSeconds(value); ok && (name == "rt" || name == "request_time") {
			return micros, true
		}
		rest = after
	}
}

func (l *logLine) parse(line []byte) error {
	head, rest, ok := bytes.Cut(line, []byte(" ["))
	// A line with another number of words has other fields, for instance the virtual host in front.
	words := bytes.Fields(head)
	if !ok || len(words) != 3 {
		return errors.New("it does not begin with host, identity, user and [time]")
	}
	l.host, l.user = words[0], words[2]
	if l.time, rest, ok = bytes.Cut(rest, []byte("] \"")); !ok {
		return errors.New("its [time] is not followed by a quoted request")
	}
	if rest, ok = l.parseRequest(rest); !ok {
		return errors.New("its quoted request is not followed by a status and a size")
	}
	if l.referer, rest, ok = cutQuoted(rest); ok {
		l.agent, rest, _ = cutQuoted(rest)
	}
	l.rest = rest
	return nil
}

// parseRequest cuts the request, whose opening quote is already cut, the status and the size from
// the front of s. Some servers do not escape a quote within the request. The request therefore
// ends at the first quote before a status and a size.
func (l *logLine) parseRequest(s []byte) (rest []byte, ok bool) {
	for at := 0; ; at++ {
		i := bytes.Index(s[at:], []byte("\" "))
		if i < 0 {
			return nil, false
		}
		at += i
		status, after, _ := bytes.Cut(s[at+2:], []byte(" "))
		size, after, _ := bytes.Cut(after, []byte(" "))
		if len(status) == 3 && digits(status) && (string(size) == "-" || digits(size)) {
			l.request, l.status, l.bytes = s[:at], status, size
			return after, true
		}
	}
}

// words returns the method of the request and its path without the query, or nil if the request
// has no such words.
func (l *logLine) words() (method, path []byte) {
	words := bytes.Fields(l.request)
	if len(words) < 2 {
		return nil, nil
	}
	path, _, _ = bytes.Cut(words[1], []byte("?"))
	return words[0], path
}

// cutQuoted cuts a quoted string from the front of s. A quote behind a backslash does not end the
// string.
func cutQuoted(s []byte) (quoted, rest []byte, ok bool) {
	if len(s) == 0 || s[0] != '"' {
		return nil, s, false
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[1:i], bytes.TrimLeft(s[i+1:], " "), true
		}
	}
	return nil, s, false
}

func digits(s []byte) bool {
	return len(s) > 0 && !slices.ContainsFunc(s, func(c byte) bool { return c < '0' || c > '9' })
}
