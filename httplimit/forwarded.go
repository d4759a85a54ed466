package httplimit

import (
	"net/http"
	"net/netip"
	"strings"
)

// forwardedFor returns the nodes of X-Forwarded-For in order. Several fields form one list.
func forwardedFor(h http.Header) (nodes []string) {
	for _, line := range h["X-Forwarded-For"] {
		nodes = append(nodes, strings.Split(line, ",")...)
	}
	return nodes
}

// forwarded returns the "for" parameters of Forwarded (RFC 7239, section 4) in order. An element
// without "for" counts as one unknown node. A malformed field counts as a single unknown node,
// too, because nobody can tell which part of the field the client wrote.
func forwarded(h http.Header) (nodes []string) {
	for _, line := range h["Forwarded"] {
		elements, ok := parseForwarded(line)
		if !ok {
			elements = []string{""}
		}
		nodes = append(nodes, elements...)
	}
	return nodes
}

// parseForwarded parses one field: elements separated by commas. An element is a list of pairs
// separated by semicolons. The value of a pair may be a quoted string.
func parseForwarded(s string) (nodes []string, ok bool) {
	node := ""
	for {
		s = strings.TrimLeft(s, " \t")
		name, rest, found := strings.Cut(s, "=")
		switch {
		case s == "" || s[0] == ',' || s[0] == ';': // an empty element or pair
		case !found || strings.ContainsAny(name, " \t,;\""):
			return nil, false
		default:
			var value string
			if value, s, ok = cutValue(rest); !ok {
				return nil, false
			}
			if strings.EqualFold(name, "for") {
				node = value
			}
		}
		s = strings.TrimLeft(s, " \t")
		if s == "" {
			return append(nodes, node), true
		}
		switch s[0] {
		case ',':
			nodes, node = append(nodes, node), ""
		case ';':
		default:
			return nil, false
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
		return ap.Addr().Unmap().WithZone(""), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.Addr{}, false
		}
	}
	addr, err := netip.ParseAddr(s)
	return addr.Unmap().WithZone(""), err == nil
}
