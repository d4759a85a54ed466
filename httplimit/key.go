package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/brimgo/brim/internal/caller"
)

// key returns the key of the bucket that a policy has for a request.
func (l *limited) key(p Policy, r *http.Request) string {
	if p.Key != "" {
		return caller.Key(p.Name, p.Key)
	}
	return caller.AddressKey(p.Name, l.client(r))
}

// client returns the address of a request's client, or an invalid one if it has none. net/http
// writes RemoteAddr with a port; other servers, middleware that sets the client's address, and tests
// leave the port out.
func (l *limited) client(r *http.Request) netip.Addr {
	peer, ok := parseNode(r.RemoteAddr)
	if !ok || !l.trusts(peer) {
		return peer
	}
	return l.behind(peer, r)
}

// behind returns the address from which the application's proxies got the request: the last
// address in the field that is not a trusted proxy. The addresses before it were written by the
// client. An element without an address ends the walk: the address that the proxy behind it has
// named is the last one that is known.
func (l *limited) behind(proxy netip.Addr, r *http.Request) netip.Addr {
	name, node := "X-Forwarded-For", func(element string) (string, bool) { return element, true }
	if l.options.Forwarded {
		name, node = "Forwarded", forwardedNode
	}
	for element := range elementsFromEnd(r.Header[name], l.options.Forwarded) {
		text, ok := node(element)
		if !ok {
			break
		}
		addr, ok := parseNode(text)
		if !ok {
			break
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
