package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/brimgo/brim/internal/clientkey"
)

// ByHeader returns a Key that is the value of a header field, for instance of an API key. A
// request without the field has the bucket of its client's address.
//
// The application must have checked the value before: a client that can choose any value gets a
// new bucket for each request. The store keeps the value as a part of the bucket's key. If the
// value is a secret, write a Key that hashes it.
func ByHeader(name string) func(*http.Request) string {
	prefix := strings.ToLower(name) + ":"
	return func(r *http.Request) string {
		value := r.Header.Get(name)
		if value == "" {
			return ""
		}
		return prefix + value
	}
}

// key returns the key of a request's bucket.
func (l *limited) key(r *http.Request) string {
	if l.options.Key != nil {
		if key := l.options.Key(r); key != "" {
			return clientkey.Storable(key)
		}
	}
	return l.address(r)
}

// address returns the key for the client's address. net/http writes RemoteAddr with a port; other
// servers, middleware that sets the client's address, and tests leave the port out.
func (l *limited) address(r *http.Request) string {
	client, ok := parseNode(r.RemoteAddr)
	if !ok {
		return clientkey.Unknown
	}
	if len(l.trusted) > 0 && l.trusts(client) {
		client = l.behind(client, r)
	}
	return clientkey.OfAddress(client)
}

// behind returns the address from which the application's proxies got the request: the last
// address in the field that is not a trusted proxy. The addresses before it were written by the
// client.
func (l *limited) behind(proxy netip.Addr, r *http.Request) netip.Addr {
	nodes := forwardedFor(r.Header)
	if l.options.Forwarded {
		nodes = forwarded(r.Header)
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		addr, ok := parseNode(nodes[i])
		if !ok {
			break // no address, so the proxy that wrote the node is the last known address
		}
		proxy = addr
		if !l.trusts(addr) {
			break
		}
	}
	return proxy
}

func (l *limited) trusts(addr netip.Addr) bool {
	for _, network := range l.trusted {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// networks checks TrustedProxies and converts IPv4-mapped IPv6 networks to IPv4 networks.
func networks(prefixes []netip.Prefix) (all []netip.Prefix, err error) {
	for _, p := range prefixes {
		if !p.IsValid() {
			return nil, errors.New("httplimit: a network of TrustedProxies is invalid; " +
				`use for instance netip.MustParsePrefix("10.0.0.0/8")`)
		}
		if p.Addr().Is4In6() {
			if p.Bits() < 96 {
				return nil, fmt.Errorf("httplimit: %v of TrustedProxies holds all IPv4 addresses; "+
					"write the IPv4 network of the proxies", p)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}
