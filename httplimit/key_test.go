package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/brimgo/brim/httplimit"
)

// keyOf returns the one bucket that a request has filled.
func keyOf(t *testing.T, o *httplimit.Options, remote string, header map[string][]string) string {
	t.Helper()
	lim, _ := inMemory(t)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = remote
	for name, values := range header {
		for _, v := range values {
			r.Header.Add(name, v)
		}
	}
	limited(t, lim, tens, httplimit.FailClosed, o).ServeHTTP(httptest.NewRecorder(), r)
	key := ""
	for e, err := range lim.List(t.Context(), "") {
		if err != nil || key != "" {
			t.Fatalf("a second bucket, or %v", err)
		}
		key = e.Key
	}
	return key
}

func TestAddresses(t *testing.T) {
	proxies := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48"), netip.MustParsePrefix("::ffff:192.168.0.0/112"),
	}
	const xff, fwd = "X-Forwarded-For", "Forwarded"
	for _, tc := range []struct {
		name, why string
		trust     bool
		forwarded bool // by the field Forwarded
		remote    string
		header    map[string][]string
		want      string
	}{
		{name: "IPv4", why: "whole", remote: "192.0.2.1:1234", want: "ip:192.0.2.1"},
		{name: "IPv6", why: "a client has a /64", remote: "[2001:db8:1:2:3:4:5:6]:1234", want: "ip:2001:db8:1:2::/64"},
		{name: "mapped", why: "it is an IPv4 address, not one of a single /64 for all of IPv4", remote: "[::ffff:192.0.2.1]:1234", want: "ip:192.0.2.1"},
		{name: "zone", why: "a zone is this machine's and says nothing", remote: "[fe80::1%eth0]:1234", want: "ip:fe80::/64"},
		{name: "a Unix socket", why: "clients whose address is not known share one bucket, rather than none", remote: "@", want: "ip:unknown"},
		{name: "no proxy is trusted", why: "anybody can send the field", remote: "10.0.0.1:1", header: map[string][]string{xff: {"192.0.2.1"}}, want: "ip:10.0.0.1"},
		{name: "not from a proxy", why: "anybody can send the field", trust: true, remote: "203.0.113.1:1", header: map[string][]string{xff: {"192.0.2.1"}}, want: "ip:203.0.113.1"},
		{name: "from a proxy", why: "the address that it saw", trust: true, remote: "10.0.0.1:1", header: map[string][]string{xff: {"192.0.2.1"}}, want: "ip:192.0.2.1"},
		{name: "spoofed", why: "what stands before was written by the client", trust: true, remote: "10.0.0.1:1", header: map[string][]string{xff: {"198.51.100.7, 192.0.2.1"}}, want: "ip:192.0.2.1"},
		{name: "two proxies", why: "the last that is not ours", trust: true, remote: "10.0.0.1:1", header: map[string][]string{xff: {"198.51.100.7, 192.0.2.1, 10.1.1.1"}}, want: "ip:192.0.2.1"},
		{name: "two fields", why: "several fields are one list, the last is the last", trust: true, remote: "10.0.0.1:1", header: map[string][]string{xff: {"192.0.2.1", "192.0.2.2, 10.2.2.2"}}, want: "ip:192.0.2.2"},
		{name: "only proxies", why: "a request of a proxy's own", trust: true, remote: "10.0.0.1:1", header: map[string][]string{xff: {"10.3.3.3, 10.2.2.2"}}, want: "ip:10.3.3.3"},
		{name: "no field", why: "a request of a proxy's own", trust: true, remote: "10.0.0.1:1", want: "ip:10.0.0.1"},
		{name: "an IPv6 proxy and client", why: "the same rules", trust: true, remote: "[2001:db8:ffff::1]:1", header: map[string][]string{xff: {"2001:db8:1:2::9"}}, want: "ip:2001:db8:1:2::/64"},
		{name: "a mapped proxy", why: "mapped addresses are unmapped before they are compared", trust: true, remote: "[::ffff:10.0.0.1]:1", header: map[string][]string{xff: {"::ffff:192.0.2.1"}}, want: "ip:192.0.2.1"},
		{name: "a network given as mapped", why: "it is the IPv4 network", trust: true, remote: "192.168.1.1:1", header: map[string][]string{xff: {"192.0.2.1"}}, want: "ip:192.0.2.1"},
		{name: "with a port", why: "some proxies write it", trust: true, remote: "10.0.0.1:1", header: map[string][]string{xff: {"192.0.2.1:4711"}}, want: "ip:192.0.2.1"},
		{name: "IPv6 with a port", why: "some proxies write it", trust: true, remote: "10.0.0.1:1", header: map[string][]string{xff: {"[2001:db8:1:2::9]:4711"}}, want: "ip:2001:db8:1:2::/64"},
		{name: "garbage", why: "all that is known is the proxy that says so", trust: true, remote: "10.0.0.1:1", header: map[string][]string{xff: {"192.0.2.1, garbage, 10.1.1.1"}}, want: "ip:10.1.1.1"},
		{name: "empty", why: "no address", trust: true, remote: "10.0.0.1:1", header: map[string][]string{xff: {""}}, want: "ip:10.0.0.1"},
		{name: "the other field", why: "the proxies do not write it, so it is the client's", trust: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {"for=192.0.2.1"}}, want: "ip:10.0.0.1"},

		{name: "Forwarded", why: "RFC 7239", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {"for=198.51.100.7;proto=http, for=192.0.2.1;by=10.0.0.1"}}, want: "ip:192.0.2.1"},
		{name: "Forwarded, any case", why: "names of parameters are not case-sensitive", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {"Proto=https;FOR=192.0.2.1"}}, want: "ip:192.0.2.1"},
		{name: "Forwarded, quoted", why: "an IPv6 address must be", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {`for="[2001:db8:1:2::9]:4711"`}}, want: "ip:2001:db8:1:2::/64"},
		{name: "Forwarded, escaped", why: "a quoted string has escapes", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {`for="192.0.2.\1"`}}, want: "ip:192.0.2.1"},
		{
			name: "Forwarded, a comma within quotes", why: "it does not separate: else a client could write an element of its own", trust: true, forwarded: true,
			remote: "10.0.0.1:1", header: map[string][]string{fwd: {`host="a,for=192.0.2.66";for=192.0.2.1`}}, want: "ip:192.0.2.1",
		},
		{name: "Forwarded, X-Forwarded-For too", why: "the proxies do not write it", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{xff: {"192.0.2.66"}, fwd: {"for=192.0.2.1"}}, want: "ip:192.0.2.1"},
		{name: "Forwarded, unknown", why: "the proxy does not say", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {"for=192.0.2.1, for=unknown, for=10.1.1.1"}}, want: "ip:10.1.1.1"},
		{name: "Forwarded, obfuscated", why: "the proxy does not say", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {"for=_hidden"}}, want: "ip:10.0.0.1"},
		{name: "Forwarded, no for", why: "an element without one is a hop that does not say", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {"for=192.0.2.1, proto=http"}}, want: "ip:10.0.0.1"},
		{name: "Forwarded, two fields", why: "one list", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {"for=198.51.100.7", "for=192.0.2.1"}}, want: "ip:192.0.2.1"},
		{name: "Forwarded, unterminated", why: "nobody can say where the client's part ends", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {`for="192.0.2.1, for=192.0.2.2`}}, want: "ip:10.0.0.1"},
		{name: "Forwarded, ends in an escape", why: "nobody can say where the client's part ends", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {`for="192.0.2.1\`}}, want: "ip:10.0.0.1"},
		{name: "Forwarded, no pair", why: "not well-formed", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {"192.0.2.1"}}, want: "ip:10.0.0.1"},
		{name: "Forwarded, no separator", why: "not well-formed", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {`for="192.0.2.1"x`}}, want: "ip:10.0.0.1"},
		{name: "Forwarded, an open bracket", why: "no address", trust: true, forwarded: true, remote: "10.0.0.1:1", header: map[string][]string{fwd: {`for="[2001:db8::1"`}}, want: "ip:10.0.0.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := &httplimit.Options{Forwarded: tc.forwarded}
			if tc.trust {
				o.TrustedProxies = proxies
			}
			if got := keyOf(t, o, tc.remote, tc.header); got != tc.want {
				t.Errorf("bucket %q; want %q: %s", got, tc.want, tc.why)
			}
		})
	}
}

func TestByHeader(t *testing.T) {
	o := &httplimit.Options{Key: httplimit.ByHeader("X-API-Key")}
	value := func(v string) map[string][]string { return map[string][]string{"X-Api-Key": {v}} }
	if got := keyOf(t, o, "192.0.2.1:1", value("alpha")); got != "x-api-key:alpha" {
		t.Errorf("bucket %q", got)
	}
	if got := keyOf(t, o, "192.0.2.1:1", nil); got != "ip:192.0.2.1" {
		t.Errorf("without the field: bucket %q", got)
	}
	// What a store could not keep must not fail it: where failures let requests through, that would be a way past the limit.
	seen := map[string]bool{}
	for _, v := range []string{strings.Repeat("x", 10_000), strings.Repeat("y", 10_000), "\xff", "\xfe", "a\x00b"} {
		got := keyOf(t, o, "192.0.2.1:1", value(v))
		if !strings.HasPrefix(got, "sha256:") || len(got) != 71 || seen[got] {
			t.Errorf("bucket %q; want a hash of its own", got)
		}
		seen[got] = true
	}
}

// No field makes the parser panic or loop.
func FuzzForwarded(f *testing.F) {
	for _, s := range []string{`for=1.2.3.4;by="a,b", for="[::1]:80"`, `;;,,for=`, `"`, `for="\`, `a=b c=d`} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, s string, forwarded bool) {
		o := &httplimit.Options{Forwarded: forwarded, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		header := map[string][]string{"Forwarded": {s}, "X-Forwarded-For": {s}}
		if got := keyOf(t, o, "10.0.0.1:1", header); !strings.HasPrefix(got, "ip:") || strings.Contains(got, "unknown") {
			t.Errorf("bucket %q", got)
		}
	})
}
