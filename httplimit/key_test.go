package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/httplimit"
)

// keyOf returns the key of the one bucket that a request has filled, without the policy "p" before
// it.
func keyOf(t *testing.T, policies httplimit.Policies, o *httplimit.Options, remote string, header http.Header) string {
	t.Helper()
	lim, _ := inMemory(t)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = remote
	for name, values := range header {
		for _, v := range values {
			r.Header.Add(name, v)
		}
	}
	limited(t, lim, policies, o).ServeHTTP(httptest.NewRecorder(), r)
	key := ""
	for e, err := range lim.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			t.Fatalf("the request filled %q and %q, want one bucket", key, e.Key)
		}
		key = e.Key
	}
	key, ok := strings.CutPrefix(key, "p:")
	if !ok {
		t.Errorf("key %q; want the name of the policy before it", key)
	}
	return key
}

func TestAddresses(t *testing.T) {
	proxies := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48"),
		netip.MustParsePrefix("::ffff:192.168.0.0/112"),
	}
	const proxy = "10.0.0.1:1"
	var direct httplimit.Clients
	trusted := httplimit.Clients{TrustedProxies: proxies}
	rfc7239 := httplimit.Clients{TrustedProxies: proxies, Forwarded: true}
	xff := func(lines ...string) http.Header { return http.Header{"X-Forwarded-For": lines} }
	fwd := func(lines ...string) http.Header { return http.Header{"Forwarded": lines} }
	for _, tc := range []struct {
		clients   httplimit.Clients
		remote    string
		header    http.Header
		want, why string
	}{
		{direct, "192.0.2.1:1234", nil, "192.0.2.1", "an IPv4 address is a client"},
		{direct, "[2001:db8:1:2:3:4:5:6]:1234", nil, "2001:db8:1:2::/64", "a client has all addresses of a /64"},
		{
			direct, "[::ffff:192.0.2.1]:1234", nil, "192.0.2.1",
			"a mapped address is an IPv4 address; all of them share one /64",
		},
		{
			direct, "[fe80::1%eth0]:1234", nil, "fe80::1%eth0",
			"neighbours on a link have one network, and the interface tells the links apart",
		},
		{direct, "192.0.2.1", nil, "192.0.2.1", "some servers and test recorders leave the port out"},
		{
			direct, "2001:db8:1:2:3:4:5:6", nil, "2001:db8:1:2::/64",
			"some servers and test recorders leave the port out",
		},
		{
			direct, "[2001:db8:1:2:3:4:5:6]", nil, "2001:db8:1:2::/64",
			"the brackets belong to the notation with a port",
		},
		{
			direct, "::ffff:192.0.2.1", nil, "192.0.2.1",
			"an IPv4 client has one bucket, however the server writes its address",
		},
		{
			direct, "fe80::1%eth0", nil, "fe80::1%eth0",
			"neighbours on a link have one network, and the interface tells the links apart",
		},
		{
			trusted, "10.0.0.1", xff("192.0.2.7"), "192.0.2.7",
			"the peer is a trusted proxy, however the server writes its address",
		},
		{direct, "@", nil, "unknown", "all clients without an address share one bucket"},
		{direct, "", nil, "unknown", "all clients without an address share one bucket"},
		{direct, "localhost:80", nil, "unknown", "only addresses tell clients apart"},
		{direct, proxy, xff("192.0.2.1"), "10.0.0.1", "any client can send the field"},
		{trusted, "203.0.113.1:1", xff("192.0.2.1"), "203.0.113.1", "any client can send the field"},
		{trusted, proxy, xff("192.0.2.1"), "192.0.2.1", "the proxy wrote the address that it saw"},
		{
			trusted, proxy, xff("198.51.100.7, 192.0.2.1"), "192.0.2.1",
			"the client wrote the addresses before the last",
		},
		{
			trusted, proxy, xff("198.51.100.7, 192.0.2.1, 10.1.1.1"), "192.0.2.1",
			"the client is the last address that is no proxy",
		},
		{trusted, proxy, xff("192.0.2.1", "192.0.2.2, 10.2.2.2"), "192.0.2.2", "several fields form one list"},
		{trusted, proxy, xff("10.3.3.3, 10.2.2.2"), "10.3.3.3", "the first proxy made the request itself"},
		{trusted, proxy, nil, "10.0.0.1", "the proxy made the request itself"},
		{
			trusted, "[2001:db8:ffff::1]:1", xff("2001:db8:1:2::9"), "2001:db8:1:2::/64",
			"the rules for IPv4 hold for IPv6",
		},
		{
			trusted, "[::ffff:10.0.0.1]:1", xff("::ffff:192.0.2.1"), "192.0.2.1",
			"mapped addresses are compared as IPv4 addresses",
		},
		{trusted, "192.168.1.1:1", xff("192.0.2.1"), "192.0.2.1", "a mapped network stands for the IPv4 network"},
		{trusted, proxy, xff("192.0.2.1:4711"), "192.0.2.1", "some proxies write the port"},
		{trusted, proxy, xff("[2001:db8:1:2::9]:4711"), "2001:db8:1:2::/64", "some proxies write the port"},
		{
			trusted, proxy, xff("192.0.2.1, garbage, 10.1.1.1"), "10.1.1.1",
			"the proxy that wrote it is the last known address",
		},
		{trusted, proxy, xff(""), "10.0.0.1", "the field holds no address"},
		{trusted, proxy, fwd("for=192.0.2.1"), "10.0.0.1", "the proxies do not write it, so the client did"},
		{
			rfc7239, proxy, fwd("for=198.51.100.7;proto=http, for=192.0.2.1;by=10.0.0.1"), "192.0.2.1",
			"RFC 7239 defines the field",
		},
		{rfc7239, proxy, fwd("Proto=https;FOR=192.0.2.1"), "192.0.2.1", "parameter names are not case-sensitive"},
		{rfc7239, proxy, fwd(`for="[2001:db8:1:2::9]:4711"`), "2001:db8:1:2::/64", "an IPv6 address must be quoted"},
		{rfc7239, proxy, fwd(`for="192.0.2.\1"`), "192.0.2.1", "a quoted string may hold escapes"},
		{
			rfc7239, proxy, fwd(`host="a,for=192.0.2.66";for=192.0.2.1`), "192.0.2.1",
			"a comma within quotes separates no elements, or a client could add an element",
		},
		{
			rfc7239, proxy,
			http.Header{"X-Forwarded-For": {"192.0.2.66"}, "Forwarded": {"for=192.0.2.1"}},
			"192.0.2.1",
			"the proxies do not write X-Forwarded-For",
		},
		{rfc7239, proxy, fwd("for=192.0.2.1, for=unknown, for=10.1.1.1"), "10.1.1.1", "the proxy hides the client"},
		{rfc7239, proxy, fwd("for=_hidden"), "10.0.0.1", "the proxy hides the client"},
		{
			rfc7239, proxy, fwd("for=192.0.2.1, proto=http"), "10.0.0.1",
			"a proxy that writes no address hides the client",
		},
		{rfc7239, proxy, fwd("for=198.51.100.7", "for=192.0.2.1"), "192.0.2.1", "several fields form one list"},
		{
			rfc7239, proxy, fwd(`for="192.0.2.1, for=192.0.2.2`), "192.0.2.2",
			"the client left it open; it must not reach the element that the proxy wrote",
		},
		{
			rfc7239, proxy, fwd(`for="x\", for="[2001:db8:1:2::9]:80"`), "2001:db8:1:2::/64",
			"the quotes of the proxy belong together, whatever the client wrote before them",
		},
		{
			rfc7239, proxy, fwd(`="=,;", for=192.0.2.2, for=10.1.1.1`), "192.0.2.2",
			"the last proxy has named the client; what the client wrote ends the walk",
		},
		{
			rfc7239, proxy, fwd(`for=192.0.2.1, host="a\",for=192.0.2.66";for=192.0.2.2`), "192.0.2.2",
			"it does not end the string, so the comma behind it is not a border",
		},
		{
			rfc7239, proxy, fwd(`for=192.0.2.1, host="a\\";for=192.0.2.2`), "192.0.2.2",
			"the quote behind it ends the string",
		},
		{rfc7239, proxy, fwd("for=192.0.2.1, ,, "), "192.0.2.1", "a list may have them"},
		{rfc7239, proxy, fwd("; ;for=192.0.2.1;"), "192.0.2.1", "an element may have them"},
		{trusted, proxy, xff("198.51.100.7, 1.2.3.4,,"), "1.2.3.4", "a list may have them"},
		{
			trusted, proxy, xff("192.0.2.1" + strings.Repeat(" ", 1016) + ",10.1.1.1"), "10.1.1.1",
			"no proxy writes more than 1 KiB, so the client did",
		},
		{
			trusted, proxy, xff("198.51.100.7,192.0.2.1" + strings.Repeat(" ", 1015) + ",10.1.1.1"), "192.0.2.1",
			"1 KiB is read",
		},
		{
			trusted, proxy, xff("192.0.2.1" + strings.Repeat(",10.1.1.1", 63)), "192.0.2.1",
			"they are as many as are read",
		},
		{trusted, proxy, xff("192.0.2.1" + strings.Repeat(",10.1.1.1", 64)), "10.1.1.1", "no more than 64 are read"},
		{rfc7239, proxy, fwd(`for="192.0.2.1\`), "10.0.0.1", "nobody can tell which part the client wrote"},
		{rfc7239, proxy, fwd("192.0.2.1"), "10.0.0.1", "the field is malformed"},
		{rfc7239, proxy, fwd(`for="192.0.2.1"x`), "10.0.0.1", "the field is malformed"},
		{rfc7239, proxy, fwd(`for="[2001:db8::1"`), "10.0.0.1", "the node holds no address"},
	} {
		got := keyOf(t, httplimit.PerClient("p", tens), &httplimit.Options{Clients: tc.clients}, tc.remote, tc.header)
		if got != "ip:"+tc.want {
			t.Errorf("%s, %v: key %q; want %q\nwhy: %s", tc.remote, tc.header, got, tc.want, tc.why)
		}
	}
}

// TestHops counts proxies from the end of the field.
func TestHops(t *testing.T) {
	for _, tc := range []struct {
		name, why string
		hops      int
		field     []string
		want      string
	}{
		{"one", "the proxy has named the client", 1, []string{"198.51.100.9, 192.0.2.1"}, "192.0.2.1"},
		{"two", "the outer proxy has named the client", 2, []string{"198.51.100.9, 192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{"two fields", "several fields form one list", 2, []string{"192.0.2.1", "10.0.0.2"}, "192.0.2.1"},
		{"too few", "the request came past a proxy: the first that was named is the client", 3, []string{"192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{"malformed", "the address that the proxy behind it has named is the last one known", 2, []string{"192.0.2.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"none", "no proxy has named anybody", 1, nil, "10.0.0.1"},
	} {
		o := &httplimit.Options{Clients: httplimit.Clients{TrustedHops: tc.hops}}
		got := keyOf(t, httplimit.PerClient("p", tens), o, "10.0.0.1:1", http.Header{"X-Forwarded-For": tc.field})
		if got != "ip:"+tc.want {
			t.Errorf("%s: key %q; want %q\nwhy: %s", tc.name, got, tc.want, tc.why)
		}
	}
}

// TestClientsKey: a program that makes its own keys tells clients apart as the handlers do.
func TestClientsKey(t *testing.T) {
	clients := httplimit.Clients{TrustedProxies: tenNet, IPv6Prefix: 56}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.0.0.1:1"
	r.Header.Set("X-Forwarded-For", "2001:db8:1:2ff::7")
	if got := clients.Key(r); got != "2001:db8:1:200::/56" {
		t.Errorf("key %q", got)
	}
	if got := keyOf(t, httplimit.PerClient("p", tens), &httplimit.Options{Clients: clients}, r.RemoteAddr, r.Header); got != "ip:2001:db8:1:200::/56" {
		t.Errorf("the handler has key %q", got)
	}
	if a, b := httplimit.Storable("\xff"), httplimit.Storable("\xfe"); a == b || httplimit.Storable("x") != "key:x" {
		t.Errorf("Storable: %q, %q, %q", a, b, httplimit.Storable("x"))
	}
}

func TestByHeader(t *testing.T) {
	p := httplimit.ByHeader("p", "X-API-Key", tens)
	value := func(v string) http.Header { return http.Header{"X-Api-Key": {v}} }
	if got := keyOf(t, p, nil, "192.0.2.1:1", value("alpha")); got != "key:alpha" {
		t.Errorf("key %q; want the value of the field", got)
	}
	if got := keyOf(t, p, nil, "192.0.2.1:1", nil); got != "ip:192.0.2.1" {
		t.Errorf("without the field: key %q; want the address", got)
	}
	// A value that no store can keep must not make the store fail: with FailOpen, the client
	// would get past the limit.
	seen := map[string]bool{}
	for _, v := range []string{strings.Repeat("x", 10_000), strings.Repeat("y", 10_000), "\xff", "\xfe", "a\x00b"} {
		got := keyOf(t, p, nil, "192.0.2.1:1", value(v))
		if !strings.HasPrefix(got, "hash:") || len(got) != 69 || seen[got] {
			t.Errorf("key %q; want a hash that no other value has", got)
		}
		seen[got] = true
	}
}

var tenNet = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}

// FuzzForwarded checks that no field makes the parser panic or loop, that each request gets an
// address, and that whatever a client writes before the element of the last proxy changes nothing.
func FuzzForwarded(f *testing.F) {
	for _, s := range []string{
		`for=1.2.3.4;by="a,b", for="[::1]:80"`, `;;,,for=`, `"`, `for="\`, `a=b c=d`, `"\\`, `for="`, `\",`, "1.2.3.4,,", ",",
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, s string, forwarded bool) {
		key := func(lines ...string) string {
			o := &httplimit.Options{Clients: httplimit.Clients{Forwarded: forwarded, TrustedProxies: tenNet}}
			header := http.Header{"Forwarded": lines, "X-Forwarded-For": lines}
			return keyOf(t, httplimit.PerClient("p", tens), o, "10.0.0.1:1", header)
		}
		if got := key(s); !strings.HasPrefix(got, "ip:") || strings.Contains(got, "unknown") {
			t.Errorf("key %q; want an address", got)
		}
		named := "192.0.2.1"
		if forwarded {
			named = `by="_x\",\\";for="192.0.2.1:80"`
		}
		hops := named + ", " + strings.ReplaceAll(named, "192.0.2.1", "10.1.1.1")
		for _, lines := range [][]string{{s + "," + named}, {s, named}, {s + ", " + hops}, {s, hops + " , "}} {
			if got := key(lines...); got != "ip:192.0.2.1" {
				t.Errorf("%q: key %q; want the client that the last proxy named", lines, got)
			}
		}
	})
}

// hostile returns fields of a megabyte that a client can send.
func hostile() map[string]string {
	fields := map[string]string{}
	for _, s := range []string{",", ";", `"`, `\`, "=", " ", `"\`, `\"`, "for=,", "a=b;", `a="";`, "for=10.1.1.1,", "1.2.3.4 ", ":", "["} {
		fields[s] = strings.Repeat(s, 1<<20/len(s))
	}
	return fields
}

// TestHostileFields sees that the time to read a field does not grow faster than the field. A
// parser that reads the rest of the field for each comma needs many seconds.
func TestHostileFields(t *testing.T) {
	for name, field := range hostile() {
		for _, forwarded := range []bool{false, true} {
			o := &httplimit.Options{Clients: httplimit.Clients{Forwarded: forwarded, TrustedProxies: tenNet}}
			header := http.Header{"Forwarded": {field}, "X-Forwarded-For": {field}}
			began := time.Now()
			key := keyOf(t, httplimit.PerClient("p", tens), o, "10.0.0.1:1", header)
			if took := time.Since(began); took > time.Second {
				t.Errorf("%q, Forwarded %v: %v for key %q", name, forwarded, took, key)
			}
		}
	}
}
