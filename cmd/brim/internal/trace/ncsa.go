package trace

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// logLine is an access log's line in NCSA common or combined format, cut into fields:
//
//	host ident user [time] "method path protocol" status bytes "referer" "user agent"
type logLine struct {
	host, user, time, request, status, bytes, referer, agent []byte
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

// LogFields names the fields of an access log that can be a key, in the order of their place in a line.
func LogFields() []string {
	return []string{"host", "user", "method", "path", "status", "referer", "agent"}
}

func newNCSA(o Options) (func([]byte, *Request) error, error) {
	name := o.Key
	if name == "" {
		name = "host"
	}
	field, ok := logFields[name]
	if !ok {
		return nil, fmt.Errorf("%w in an access log as %q; there are %s", ErrField, name, strings.Join(LogFields(), ", "))
	}
	var last []byte // requests of one second come together: their time is parsed once
	var lastTime int64
	return func(line []byte, r *Request) error {
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
		key := field(&l)
		if len(key) == 0 {
			return fmt.Errorf("it has no %s", name)
		}
		r.Time, r.Key, r.Cost = lastTime, string(key), 1
		switch {
		case o.Cost.Units > 0:
			r.Cost = o.Cost.Units
		case o.Cost.Bytes && string(l.bytes) == "-":
			r.Cost = 0 // nothing was sent
		case o.Cost.Bytes:
			n, err := parseCost(string(l.bytes))
			if err != nil {
				return err
			}
			r.Cost = n
		}
		return nil
	}, nil
}

func (l *logLine) parse(line []byte) error {
	head, rest, ok := bytes.Cut(line, []byte(" ["))
	// Exactly three words: a line that begins with the virtual host, say, would pass with wrong fields.
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
		l.agent, _, _ = cutQuoted(rest)
	}
	return nil
}

// parseRequest cuts the request, whose opening quote is gone, the status and the size. Some servers write a quote within the
// request as it is, so the one that ends it is the first that a status and a size follow.
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

// words returns the request's method and its path without the query; nil where the request has no such words.
func (l *logLine) words() (method, path []byte) {
	words := bytes.Fields(l.request)
	if len(words) < 2 {
		return nil, nil
	}
	path, _, _ = bytes.Cut(words[1], []byte("?"))
	return words[0], path
}

// cutQuoted cuts a quoted string, in which a backslash keeps a quote from ending it, from the front of s.
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
