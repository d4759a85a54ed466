package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/brimgo/brim/store"
)

// ByHeader is a Key by the value of a header field, an API key for instance. A request without it has the bucket of its
// client's address.
//
// The field must be one that was checked before: whoever can choose its value can have a new bucket for every request. The value
// is stored as part of the bucket's key; where it is a secret, use a Key of your own that hashes it.
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

// longest is the length of a key that is kept as it is: it leaves room for the Limiter's prefix.
const longest = store.MaxKeyLen / 2

// key is the bucket of a request.
func (l *limited) key(r *http.Request) string {
	if l.options.Key != nil {
		if key := l.options.Key(r); key != "" {
			return storable(key)
		}
	}
	return l.address(r)
}

// storable hashes a key that a store could not keep: a client must neither fail the store with it nor get past the limit.
func storable(key string) string {
	if len(key) <= longest && store.ValidateKey(key) == nil {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// address names the bucket of the client's address. Clients whose address is not known, those of a Unix socket for instance,
// share one.
func (l *limited) address(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "ip:unknown"
	}
	client := peer.Addr().Unmap().WithZone("")
	if len(l.trusted) > 0 && l.trusts(client) {
		client = l.behind(client, r)
	}
	if client.Is4() {
		return "ip:" + client.String()
	}
	network, err := client.Prefix(64)
	if err != nil {
		return "ip:unknown"
	}
	return "ip:" + network.String()
}

// behind is the address that the application's proxies say the request came from: the last one that is not theirs. Whatever
// stands before that one was written by the client itself.
func (l *limited) behind(proxy netip.Addr, r *http.Request) netip.Addr {
	nodes := forwardedFor(r.Header)
	if l.options.Forwarded {
		nodes = forwarded(r.Header)
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		addr, ok := parseNode(nodes[i])
		if !ok {
			break // no address: all that is known is the proxy that says so
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

// networks checks the networks of proxies, and writes those of mapped addresses as the IPv4 networks that they are.
func networks(prefixes []netip.Prefix) (all []netip.Prefix, err error) {
	for _, p := range prefixes {
		if !p.IsValid() {
			return nil, fmt.Errorf("httplimit: a network of TrustedProxies is invalid; it looks like netip.MustParsePrefix(\"10.0.0.0/8\")")
		}
		if p.Addr().Is4In6() {
			if p.Bits() < 96 {
				return nil, fmt.Errorf("httplimit: %v of TrustedProxies is all of IPv4 and more; write the IPv4 network that is meant", p)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}
