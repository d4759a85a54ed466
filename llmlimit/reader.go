package llmlimit

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxBody is the length of the longest request, of the longest whole answer and of the longest
// event that are read, in bytes.
const maxBody = 64 << 20

// reader finds the usage in an answer whose body is written to it. The zero value reads a whole
// answer, which is JSON.
type reader struct {
	stream bool   // the body is a stream of server-sent events
	buf    []byte // a whole answer, or a line that has not ended
	data   []byte // of an event that may tell something, until the event ends
	last   []byte // of the last event of Gemini: it repeats the sums of those before

	bill   bill
	marked bool // the dialect has an event that ends a stream
	closed bool // the last event with a usage was one that ends streams without such an event
	ended  bool // the answer has told all
	failed bool // the answer tells an error
	broken bool // something could not be read
	own    *wireAnswer
}

// newReader returns a reader for an answer with that Content-Type.
func newReader(contentType string) *reader {
	kind, _, _ := strings.Cut(contentType, ";")
	return &reader{stream: strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")}
}

// Write reads the next part of the body. It never fails.
func (r *reader) Write(p []byte) (n int, err error) {
	n = len(p)
	if r.broken {
		return n, nil
	}
	if len(r.buf)+len(r.data)+n > maxBody {
		r.broken, r.buf, r.data, r.last = true, nil, nil, nil
		return n, nil
	}
	if !r.stream {
		r.buf = append(r.buf, p...)
		return n, nil
	}
	for !r.broken { // the charge must not depend on the parts in which the body comes
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			r.buf = append(r.buf, p...)
			return n, nil
		}
		line := p[:i]
		if len(r.buf) > 0 {
			r.buf = append(r.buf, line...)
			line = r.buf
		}
		r.line(bytes.TrimSuffix(line, []byte("\r")))
		r.buf, p = r.buf[:0], p[i+1:]
	}
	return n, nil
}

var (
	dataField  = []byte("data:")
	eventField = []byte("event:")
	done       = []byte("[DONE]")
	usageWord  = []byte("usage")
)

// line reads a line of a stream (https://html.spec.whatwg.org/multipage/server-sent-events.html).
func (r *reader) line(line []byte) {
	if len(line) == 0 {
		r.event()
		return
	}
	if d, ok := bytes.CutPrefix(line, dataField); ok {
		d = bytes.TrimPrefix(d, []byte(" "))
		switch {
		case len(r.data) > 0 || mayTell(d): // of several lines, the first has the brace
			r.data = append(append(r.data, d...), '\n')
		case len(d) < 16 && bytes.Equal(bytes.TrimSpace(d), done):
			r.ended = true
		}
		return
	}
	if name, ok := bytes.CutPrefix(line, eventField); ok { // Anthropic names each event
		switch string(bytes.TrimSpace(name)) {
		case "message_stop":
			r.ended = true
		case "error":
			r.failed = true
		}
	}
}

// mayTell reports whether the first line of an event can tell a usage, an error or the end. Most
// events have a piece of text, and are not parsed.
func mayTell(d []byte) bool {
	switch {
	case len(d) < 2 || d[0] != '{':
		return false
	case d[len(d)-1] != '}': // the event goes on in the next line
		return true
	}
	for _, begin := range [...]string{`{"error"`, `{"type":"error"`, `{"type":"message_stop"`} {
		if len(d) >= len(begin) && string(d[:len(begin)]) == begin {
			return true
		}
	}
	for {
		i := bytes.Index(d, usageWord) // a search for a quote would stop at each
		if i < 0 {
			return false
		}
		key := i > 0 && d[i-1] == '"'
		if d = d[i+len(usageWord):]; !key {
			continue
		}
		rest, ok := bytes.CutPrefix(d, []byte(`":`))
		if ok && bytes.HasPrefix(bytes.TrimLeft(rest, " "), []byte("null")) {
			continue
		}
		return true
	}
}

// event reads the event that has ended.
func (r *reader) event() {
	d := r.data
	r.data = r.data[:0]
	switch {
	case len(d) == 0:
	case !r.marked && bytes.Contains(d, []byte(`"usageMetadata"`)):
		r.last = append(r.last[:0], d...)
	default:
		r.parse(d)
	}
}

func (r *reader) parse(d []byte) {
	var a wireAnswer
	if json.Unmarshal(d, &a) != nil {
		r.broken = true
		return
	}
	r.note(&a)
}

// note merges a whole answer, or an event.
func (r *reader) note(a *wireAnswer) {
	switch {
	case a.Type == "message_stop":
		r.ended = true
	case a.Type == "error" || a.Error != nil && a.Usage == nil && a.Response == nil && a.Gemini == nil:
		r.failed, r.own = true, a
	case a.Response != nil:
		r.marked = true
		r.bill.add(a.Response)
		r.ended = r.ended || strings.HasPrefix(a.Type, "response.") && over(strings.TrimPrefix(a.Type, "response."))
	case a.Message != nil:
		r.marked = true
		r.bill.add(a.Message)
		r.bill.out = false // message_start has a first figure only
	case r.bill.add(a):
		r.closed = a.Choices != nil && len(*a.Choices) == 0 || a.Feedback != nil
		for _, c := range a.Candidates {
			r.closed = r.closed || c.Finish != ""
		}
	}
}

// over reports whether a response with that status has ended.
func over(status string) bool {
	switch status {
	case "completed", "incomplete", "failed", "cancelled":
		return true
	}
	return false
}

// whole reads a whole answer. Gemini's stream without alt=sse is a list. JSON that is cut off is no
// JSON, so the end of the body need not have come.
func (r *reader) whole() {
	body := bytes.TrimSpace(r.buf)
	r.buf = nil
	if len(body) == 0 {
		return
	}
	list := make([]wireAnswer, 1)
	var err error
	if body[0] == '[' {
		err = json.Unmarshal(body, &list)
	} else {
		err = json.Unmarshal(body, &list[0])
	}
	if r.broken = err != nil; r.broken {
		return
	}
	r.ended = true
	for i := range list {
		r.note(&list[i])
		r.ended = r.ended && (list[i].Status == "" || over(list[i].Status))
	}
}

// result returns the usage that the answer has told, and whether it has told one. eof says that the
// body came to its end. Nothing is written afterwards.
func (r *reader) result(eof bool) (Usage, bool) {
	switch {
	case r.broken:
	case r.stream:
		if eof && len(r.buf) > 0 { // the last line has no end
			r.line(bytes.TrimSuffix(r.buf, []byte("\r")))
		}
		r.event()
		if len(r.last) > 0 {
			r.parse(r.last)
		}
		r.last = nil
		r.ended = r.ended || eof && !r.marked && r.closed
	default:
		r.whole()
	}
	u := r.bill.Usage
	if !r.bill.in || !u.valid() {
		return Usage{}, false
	}
	u.Final = r.bill.out && r.ended && !r.failed && !r.broken
	return u, true
}

// refused reports whether the answer is an error in the form of a dialect, so that the provider
// wrote it and no proxy before it. It is asked after result.
func (r *reader) refused(d dialect) bool {
	if r.broken || r.own == nil || r.own.Error == nil || r.own.Error.Message == "" {
		return false
	}
	switch d {
	case messages:
		return r.own.Type == "error" && r.own.Error.Type != ""
	case gemini:
		return r.own.Error.Status != ""
	}
	return r.own.Error.Type != ""
}
