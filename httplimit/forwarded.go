package httplimit

import (
	"iter"
	"net/netip"
	"strings"
)

// maxElements is the number of elements that are read of a field, and maxElement the length of the
// longest, in bytes. A client can send a field as long as a server's headers may be.
const (
	maxElements = 64
	maxElement  = 1024
)

// elementsFromEnd yields the elements of a list from its end, without empty ones (RFC 9110, section
// 5.6.1). Several fields form one list. If the elements may hold quoted strings, a comma within one
// does not end an element. An element that is too long ends the list.
//
// The proxies have written the end of the list, and the client may have written anything before it.
// So a list is cut from its end: a quote that the client has left open cannot change the elements
// behind it.
func elementsFromEnd(lines []string, quoted bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		read := 0
		for i := len(lines) - 1; i >= 0; i-- {
			rest, more := lines[i], true
			for more {
				if read++; read > maxElements {
					return
				}
				before := max(0, len(rest)-maxElement-1)
				comma := lastComma(rest[before:], quoted)
				if more = comma >= 0; !more && len(rest) > maxElement {
					return
				}
				element := strings.Trim(rest[before+comma+1:], " \t")
				rest = rest[:before+max(0, comma)]
				if element != "" && !yield(element) {
					return
				}
			}
		}
	}
}

// lastComma returns the index of the last comma in s, or -1 if there is none. If quoted, it passes
// over the commas in quoted strings: it enters one at the closing quote and leaves it at the next
// quote that is not escaped.
func lastComma(s string, quoted bool) int {
	if !quoted {
		return strings.LastIndexByte(s, ',')
	}
	inside := false
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case s[i] == ',' && !inside:
			return i
		case s[i] == '"':
			before := strings.TrimRight(s[:i], `\`)
			if escaped := (i-len(before))%2 == 1; !inside || !escaped {
				inside = !inside
			}
			i = len(before) // the backslashes need no second look
		}
	}
	return -1
}

// forwardedNode returns the parameter "for" of an element of Forwarded (RFC 7239, section 4), and
// false if there is none or the element is malformed. An element is a list of pairs separated by
// semicolons. The value of a pair may be a quoted string.
func forwardedNode(s string) (node string, ok bool) {
	for {
		s = strings.TrimLeft(s, " \t")
		if s != "" && s[0] != ';' { // a pair may be empty
			end := strings.IndexAny(s, " \t,;\"=")
			if end < 0 || s[end] != '=' {
				return "", false
			}
			name := s[:end]
			var value string
			if value, s, ok = cutValue(s[end+1:]); !ok {
				return "", false
			}
			if strings.EqualFold(name, "for") {
				node = value
			}
			s = strings.TrimLeft(s, " \t")
		}
		if s == "" {
			return node, node != ""
		}
		if s[0] != ';' {
			return "", false
		}
		s = s[1:]
	}
}

// cutValue cuts a token or a quoted string off the front of s.
func cutValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, " \t,;\"")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

// parseNode parses an address with or without a port: 192.0.2.1, 192.0.2.1:80, 2001:db8::1,
// [2001:db8::1] and [2001:db8::1]:80. It returns false for a node without an address, for
// instance "unknown".
func parseNode(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap(), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.Addr{}, false
		}
	}
	addr, err := netip.ParseAddr(s)
	return addr.Unmap(), err == nil
}
