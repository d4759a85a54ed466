package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/brimgo/brim/internal/caller"
)

// Clients tells the clients of a service apart by their addresses. The zero value takes the address
// of the connection, which is right where no proxy stands in front. It is safe for concurrent use
// while nobody changes it.
type Clients struct {
	// TrustedProxies are the networks of the application's own proxies. If a request comes from
	// one of these networks, the client is the last address in X-Forwarded-For that is not in
	// them. In any other request the field is ignored, because any client can send it. At most the
	// last 64 elements of the field are read, of up to 1 KiB each.
	TrustedProxies []netip.Prefix
	// TrustedHops is the number of the application's own proxies in front of each other, for
	// proxies whose addresses are not known. The client is the address that the outermost of them
	// has named: the TrustedHops-th from the end of X-Forwarded-For. Every request must come
	// through all of them, since a client that reaches the program past them can choose its
	// address. It excludes TrustedProxies.
	TrustedHops int
	// Forwarded reads the field Forwarded (RFC 7239) instead of X-Forwarded-For. Choose the field
	// that the proxies write. The client may have written the other field.
	Forwarded bool
	// IPv6Prefix is the number of bits of an IPv6 address that tell clients apart; 0 means 64. Some
	// providers give each customer 56 or 48 bits, and so 256 or 65,536 networks of 64 bits.
	IPv6Prefix int
}

// Key returns the client of a request, for a Policy's Key: an IPv4 address, the network of an IPv6
// address, or "unknown" if the request has no address, for instance because it came over a Unix
// socket. An address of NAT64 (RFC 6052) or 6to4 (RFC 3056) is the IPv4 address that it stands for,
// and a link-local address is a client by itself, with its zone.
func (c *Clients) Key(r *http.Request) string { return caller.Address(c.address(r), c.IPv6Prefix) }

// Storable returns a key that every store can keep, for a key that a client has chosen and that a
// program hands to a Limiter itself: "key:" and the key, or "hash:" and its SHA-256 if it is longer
// than 256 bytes or not UTF-8. The keys of a [Policy] need it not. Two keys never get the same
// result.
func Storable(key string) string { return caller.Storable(key) }

// key returns the key of the bucket that a policy has for a request.
func (l *limited) key(p Policy, r *http.Request) string {
	if p.Key != "" {
		return caller.Key(p.Name, p.Key)
	}
	return caller.AddressKey(p.Name, l.options.Clients.address(r), l.options.Clients.IPv6Prefix)
}

// address returns the address of a request's client, or an invalid one if it has none. net/http
// writes RemoteAddr with a port; other servers, middleware that sets the client's address, and
// tests leave the port out.
func (c *Clients) address(r *http.Request) netip.Addr {
	peer, ok := parseNode(r.RemoteAddr)
	if !ok || c.TrustedHops == 0 && !c.trusts(peer) {
		return peer
	}
	return c.behind(peer, r)
}

// behind returns the address from which the application's proxies got the request: the last
// address in the field that is not a trusted proxy, or the one that the outermost has named. The
// addresses before it were written by the client. An element without an address ends the walk: the
// address that the proxy behind it has named is the last one that is known.
func (c *Clients) behind(proxy netip.Addr, r *http.Request) netip.Addr {
	name, node := "X-Forwarded-For", func(element string) (string, bool) { return element, true }
	if c.Forwarded {
		name, node = "Forwarded", forwardedNode
	}
	hops := 0
	for element := range elementsFromEnd(r.Header[name], c.Forwarded) {
		text, ok := node(element)
		if !ok {
			break
		}
		addr, ok := parseNode(text)
		if !ok {
			break
		}
		proxy = addr.WithZone("") // a zone means nothing on another machine
		if hops++; hops == c.TrustedHops || c.TrustedHops == 0 && !c.trusts(proxy) {
			break
		}
	}
	return proxy
}

func (c *Clients) trusts(addr netip.Addr) bool {
	addr = addr.WithZone("") // no network holds an address with a zone
	for _, network := range c.TrustedProxies {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// check returns the error of invalid options, or a copy with IPv4-mapped IPv6 networks as IPv4
// networks.
func (c Clients) check() (Clients, error) {
	if err := caller.ValidateBits(c.IPv6Prefix); err != nil {
		return c, fmt.Errorf("httplimit: %w", err)
	}
	switch {
	case c.TrustedHops < 0 || c.TrustedHops > maxElements:
		return c, fmt.Errorf("httplimit: TrustedHops is %d; it must be from 0 to %d", c.TrustedHops, maxElements)
	case c.TrustedHops > 0 && len(c.TrustedProxies) > 0:
		return c, errors.New("httplimit: there are TrustedHops and TrustedProxies; trust proxies by their number or by their networks")
	}
	var all []netip.Prefix
	for _, p := range c.TrustedProxies {
		if !p.IsValid() {
			return c, errors.New("httplimit: a network of TrustedProxies is invalid; " +
				`use for instance netip.MustParsePrefix("10.0.0.0/8")`)
		}
		if p.Addr().Is4In6() {
			if p.Bits() < 96 {
				return c, fmt.Errorf("httplimit: %v of TrustedProxies holds all IPv4 addresses; "+
					"write the IPv4 network of the proxies", p)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		all = append(all, p.Masked())
	}
	c.TrustedProxies = all
	return c, nil
}
