package llmlimit

import (
	"bytes"
	"encoding/json"
	"io"
)

// hider reads a stream of Chat Completions without the event that tells the usage. The caller has
// not asked for it: it has no choices, and programs take the first choice of each event.
type hider struct {
	from  io.Reader
	raw   []byte // read, and in no whole event yet
	blank int    // bytes of raw without the end of an event
	out   []byte // for the caller
	err   error
}

// read is Read, with a function that gets all that is read.
func (h *hider) read(p []byte, note func([]byte, error)) (int, error) {
	for len(h.out) == 0 && h.err == nil && len(p) > 0 {
		at := len(h.raw)
		h.raw = append(h.raw, make([]byte, 4<<10)...)
		n, err := h.from.Read(h.raw[at:])
		h.raw, h.err = h.raw[:at+n], err
		note(h.raw[at:], err)
		h.split()
	}
	n := copy(p, h.out)
	h.out = h.out[n:]
	if len(h.out) > 0 {
		return n, nil
	}
	return n, h.err
}

// split moves whole events from raw to out.
func (h *hider) split() {
	h.out = h.out[:0]
	for {
		n := eventLen(h.raw, h.blank)
		if n == 0 {
			break
		}
		if !onlyUsage(h.raw[:n]) {
			h.out = append(h.out, h.raw[:n]...)
		}
		h.raw, h.blank = h.raw[n:], 0
	}
	if h.blank = max(0, len(h.raw)-3); h.err != nil || len(h.raw) > maxBody {
		h.out = append(h.out, h.raw...)
		h.raw, h.blank = nil, 0
	}
}

// eventLen returns the length of the first event in b with the blank line after it, or 0. The first
// bytes of b have no such end.
func eventLen(b []byte, blank int) int {
	for i := blank; ; {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			return 0
		}
		i += n + 1
		switch {
		case bytes.HasPrefix(b[i:], []byte("\n")):
			return i + 1
		case bytes.HasPrefix(b[i:], []byte("\r\n")):
			return i + 2
		}
	}
}

// onlyUsage reports whether an event has a usage and no choices.
func onlyUsage(event []byte) bool {
	d, ok := bytes.CutPrefix(bytes.TrimSpace(event), dataField)
	if d = bytes.TrimSpace(d); !ok || !mayTell(d) {
		return false
	}
	var a struct {
		Choices *[]json.RawMessage `json:"choices"`
		Usage   *json.RawMessage   `json:"usage"`
	}
	return json.Unmarshal(d, &a) == nil && a.Usage != nil && a.Choices != nil && len(*a.Choices) == 0
}
