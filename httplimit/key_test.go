package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim"
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
	xff := func(lines ...string) http.Header { return http.Header{"X-Forwarded-For": lines} }
	fwd := func(lines ...string) http.Header { return http.Header{"Forwarded": lines} }
	for _, tc := range []struct {
		name, why string
		trust     bool // the option TrustedProxies names the proxies
		forwarded bool // the option Forwarded
		remote    string
		header    http.Header
		want      string
	}{
		{name: "IPv4", why: "an IPv4 address is a client", remote: "192.0.2.1:1234", want: "ip:192.0.2.1"},
		{
			name:   "IPv6",
			why:    "a client has all addresses of a /64",
			remote: "[2001:db8:1:2:3:4:5:6]:1234", want: "ip:2001:db8:1:2::/64",
		},
		{
			name:   "mapped",
			why:    "it is an IPv4 address; all mapped addresses share one /64",
			remote: "[::ffff:192.0.2.1]:1234", want: "ip:192.0.2.1",
		},
		{
			name:   "zone",
			why:    "neighbours on a link have one network, and the interface tells the links apart",
			remote: "[fe80::1%eth0]:1234", want: "ip:fe80::1%eth0",
		},
		{
			name:   "IPv4 without a port",
			why:    "some servers and test recorders leave the port out",
			remote: "192.0.2.1", want: "ip:192.0.2.1",
		},
		{
			name:   "IPv6 without a port",
			why:    "some servers and test recorders leave the port out",
			remote: "2001:db8:1:2:3:4:5:6", want: "ip:2001:db8:1:2::/64",
		},
		{
			name:   "IPv6 in brackets without a port",
			why:    "the brackets belong to the notation with a port",
			remote: "[2001:db8:1:2:3:4:5:6]", want: "ip:2001:db8:1:2::/64",
		},
		{
			name:   "mapped without a port",
			why:    "an IPv4 client has one bucket, however the server writes its address",
			remote: "::ffff:192.0.2.1", want: "ip:192.0.2.1",
		},
		{
			name:   "zone without a port",
			why:    "neighbours on a link have one network, and the interface tells the links apart",
			remote: "fe80::1%eth0", want: "ip:fe80::1%eth0",
		},
		{
			name:  "a proxy without a port",
			why:   "the peer is a trusted proxy, however the server writes its address",
			trust: true, remote: "10.0.0.1", header: xff("192.0.2.7"), want: "ip:192.0.2.7",
		},
		{
			name:   "a Unix socket",
			why:    "all clients without an address share one bucket",
			remote: "@", want: "ip:unknown",
		},
		{
			name:   "nothing",
			why:    "all clients without an address share one bucket",
			remote: "", want: "ip:unknown",
		},
		{
			name:   "a host name",
			why:    "only addresses tell clients apart",
			remote: "localhost:80", want: "ip:unknown",
		},
		{
			name:   "no proxy is trusted",
			why:    "any client can send the field",
			remote: "10.0.0.1:1", header: xff("192.0.2.1"), want: "ip:10.0.0.1",
		},
		{
			name:  "not from a proxy",
			why:   "any client can send the field",
			trust: true, remote: "203.0.113.1:1", header: xff("192.0.2.1"), want: "ip:203.0.113.1",
		},
		{
			name:  "from a proxy",
			why:   "the proxy wrote the address that it saw",
			trust: true, remote: "10.0.0.1:1", header: xff("192.0.2.1"), want: "ip:192.0.2.1",
		},
		{
			name:  "spoofed",
			why:   "the client wrote the addresses before the last",
			trust: true, remote: "10.0.0.1:1", header: xff("198.51.100.7, 192.0.2.1"),
			want: "ip:192.0.2.1",
		},
		{
			name:  "two proxies",
			why:   "the client is the last address that is no proxy",
			trust: true, remote: "10.0.0.1:1", header: xff("198.51.100.7, 192.0.2.1, 10.1.1.1"),
			want: "ip:192.0.2.1",
		},
		{
			name:  "two fields",
			why:   "several fields form one list",
			trust: true, remote: "10.0.0.1:1", header: xff("192.0.2.1", "192.0.2.2, 10.2.2.2"),
			want: "ip:192.0.2.2",
		},
		{
			name:  "only proxies",
			why:   "the first proxy made the request itself",
			trust: true, remote: "10.0.0.1:1", header: xff("10.3.3.3, 10.2.2.2"), want: "ip:10.3.3.3",
		},
		{
			name:  "no field",
			why:   "the proxy made the request itself",
			trust: true, remote: "10.0.0.1:1", want: "ip:10.0.0.1",
		},
		{
			name:  "an IPv6 proxy and client",
			why:   "the rules for IPv4 hold for IPv6",
			trust: true, remote: "[2001:db8:ffff::1]:1", header: xff("2001:db8:1:2::9"),
			want: "ip:2001:db8:1:2::/64",
		},
		{
			name:  "a mapped proxy",
			why:   "mapped addresses are compared as IPv4 addresses",
			trust: true, remote: "[::ffff:10.0.0.1]:1", header: xff("::ffff:192.0.2.1"),
			want: "ip:192.0.2.1",
		},
		{
			name:  "a mapped network",
			why:   "it stands for the IPv4 network",
			trust: true, remote: "192.168.1.1:1", header: xff("192.0.2.1"), want: "ip:192.0.2.1",
		},
		{
			name:  "with a port",
			why:   "some proxies write the port",
			trust: true, remote: "10.0.0.1:1", header: xff("192.0.2.1:4711"), want: "ip:192.0.2.1",
		},
		{
			name:  "IPv6 with a port",
			why:   "some proxies write the port",
			trust: true, remote: "10.0.0.1:1", header: xff("[2001:db8:1:2::9]:4711"),
			want: "ip:2001:db8:1:2::/64",
		},
		{
			name:  "garbage",
			why:   "the proxy that wrote it is the last known address",
			trust: true, remote: "10.0.0.1:1", header: xff("192.0.2.1, garbage, 10.1.1.1"),
			want: "ip:10.1.1.1",
		},
		{
			name:  "empty",
			why:   "the field holds no address",
			trust: true, remote: "10.0.0.1:1", header: xff(""), want: "ip:10.0.0.1",
		},
		{
			name:  "the other field",
			why:   "the proxies do not write it, so the client did",
			trust: true, remote: "10.0.0.1:1", header: fwd("for=192.0.2.1"), want: "ip:10.0.0.1",
		},

		{
			name:  "Forwarded",
			why:   "RFC 7239 defines the field",
			trust: true, forwarded: true, remote: "10.0.0.1:1",
			header: fwd("for=198.51.100.7;proto=http, for=192.0.2.1;by=10.0.0.1"), want: "ip:192.0.2.1",
		},
		{
			name:  "Forwarded, any case",
			why:   "parameter names are not case-sensitive",
			trust: true, forwarded: true, remote: "10.0.0.1:1", header: fwd("Proto=https;FOR=192.0.2.1"),
			want: "ip:192.0.2.1",
		},
		{
			name:  "Forwarded, quoted",
			why:   "an IPv6 address must be quoted",
			trust: true, forwarded: true, remote: "10.0.0.1:1",
			header: fwd(`for="[2001:db8:1:2::9]:4711"`), want: "ip:2001:db8:1:2::/64",
		},
		{
			name:  "Forwarded, escaped",
			why:   "a quoted string may hold escapes",
			trust: true, forwarded: true, remote: "10.0.0.1:1", header: fwd(`for="192.0.2.\1"`),
			want: "ip:192.0.2.1",
		},
		{
			name:  "Forwarded, a comma within quotes",
			why:   "it separates no elements, or a client could add an element",
			trust: true, forwarded: true,
			remote: "10.0.0.1:1", header: fwd(`host="a,for=192.0.2.66";for=192.0.2.1`), want: "ip:192.0.2.1",
		},
		{
			name:  "Forwarded, X-Forwarded-For too",
			why:   "the proxies do not write X-Forwarded-For",
			trust: true, forwarded: true, remote: "10.0.0.1:1",
			header: http.Header{"X-Forwarded-For": {"192.0.2.66"}, "Forwarded": {"for=192.0.2.1"}},
			want:   "ip:192.0.2.1",
		},
		{
			name:  "Forwarded, unknown",
			why:   "the proxy hides the client",
			trust: true, forwarded: true, remote: "10.0.0.1:1",
			header: fwd("for=192.0.2.1, for=unknown, for=10.1.1.1"), want: "ip:10.1.1.1",
		},
		{
			name:  "Forwarded, obfuscated",
			why:   "the proxy hides the client",
			trust: true, forwarded: true, remote: "10.0.0.1:1", header: fwd("for=_hidden"),
			want: "ip:10.0.0.1",
		},
		{
			name:  "Forwarded, no for",
			why:   "a proxy that writes no address hides the client",
			trust: true, forwarded: true, remote: "10.0.0.1:1", header: fwd("for=192.0.2.1, proto=http"),
			want: "ip:10.0.0.1",
		},
		{
			name:  "Forwarded, two fields",
			why:   "several fields form one list",
			trust: true, forwarded: true, remote: "10.0.0.1:1",
			header: fwd("for=198.51.100.7", "for=192.0.2.1"), want: "ip:192.0.2.1",
		},
		{
			name:  "Forwarded, a stray quote",
			why:   "the client left it open; it must not reach the element that the proxy wrote",
			trust: true, forwarded: true, remote: "10.0.0.1:1",
			header: fwd(`for="192.0.2.1, for=192.0.2.2`), want: "ip:192.0.2.2",
		},
		{
			name:  "Forwarded, a stray quote before a quoted node",
			why:   "the quotes of the proxy belong together, whatever the client wrote before them",
			trust: true, forwarded: true, remote: "10.0.0.1:1",
			header: fwd(`for="x\", for="[2001:db8:1:2::9]:80"`), want: "ip:2001:db8:1:2::/64",
		},
		{
			name:  "Forwarded, garbage behind two proxies",
			why:   "the last proxy has named the client; what the client wrote ends the walk",
			trust: true, forwarded: true, remote: "10.0.0.1:1",
			header: fwd(`="=,;", for=192.0.2.2, for=10.1.1.1`), want: "ip:192.0.2.2",
		},
		{
			name:  "Forwarded, an escaped quote",
			why:   "it does not end the string, so the comma behind it is not a border",
			trust: true, forwarded: true, remote: "10.0.0.1:1",
			header: fwd(`for=192.0.2.1, host="a\",for=192.0.2.66";for=192.0.2.2`), want: "ip:192.0.2.2",
		},
		{
			name:  "Forwarded, an escaped backslash",
			why:   "the quote behind it ends the string",
			trust: true, forwarded: true, remote: "10.0.0.1:1",
			header: fwd(`for=192.0.2.1, host="a\\";for=192.0.2.2`), want: "ip:192.0.2.2",
		},
		{
			name:  "Forwarded, empty elements",
			why:   "a list may have them",
			trust: true, forwarded: true, remote: "10.0.0.1:1", header: fwd("for=192.0.2.1, ,, "), want: "ip:192.0.2.1",
		},
		{
			name:  "Forwarded, empty pairs",
			why:   "an element may have them",
			trust: true, forwarded: true, remote: "10.0.0.1:1", header: fwd("; ;for=192.0.2.1;"), want: "ip:192.0.2.1",
		},
		{
			name:  "empty elements",
			why:   "a list may have them",
			trust: true, remote: "10.0.0.1:1", header: xff("198.51.100.7, 1.2.3.4,,"), want: "ip:1.2.3.4",
		},
		{
			name:  "a long element",
			why:   "no proxy writes more than 1 KiB, so the client did",
			trust: true, remote: "10.0.0.1:1", header: xff("192.0.2.1" + strings.Repeat(" ", 1016) + ",10.1.1.1"), want: "ip:10.1.1.1",
		},
		{
			name:  "the longest element",
			why:   "1 KiB is read",
			trust: true, remote: "10.0.0.1:1", header: xff("198.51.100.7,192.0.2.1" + strings.Repeat(" ", 1015) + ",10.1.1.1"),
			want: "ip:192.0.2.1",
		},
		{
			name:  "64 elements",
			why:   "they are as many as are read",
			trust: true, remote: "10.0.0.1:1", header: xff("192.0.2.1" + strings.Repeat(",10.1.1.1", 63)), want: "ip:192.0.2.1",
		},
		{
			name:  "65 elements",
			why:   "no more than 64 are read",
			trust: true, remote: "10.0.0.1:1", header: xff("192.0.2.1" + strings.Repeat(",10.1.1.1", 64)), want: "ip:10.1.1.1",
		},
		{
			name:  "Forwarded, ends in an escape",
			why:   "nobody can tell which part the client wrote",
			trust: true, forwarded: true, remote: "10.0.0.1:1", header: fwd(`for="192.0.2.1\`),
			want: "ip:10.0.0.1",
		},
		{
			name:  "Forwarded, no pair",
			why:   "the field is malformed",
			trust: true, forwarded: true, remote: "10.0.0.1:1", header: fwd("192.0.2.1"),
			want: "ip:10.0.0.1",
		},
		{
			name:  "Forwarded, no separator",
			why:   "the field is malformed",
			trust: true, forwarded: true, remote: "10.0.0.1:1", header: fwd(`for="192.0.2.1"x`),
			want: "ip:10.0.0.1",
		},
		{
			name:  "Forwarded, an open bracket",
			why:   "the node holds no address",
			trust: true, forwarded: true, remote: "10.0.0.1:1", header: fwd(`for="[2001:db8::1"`),
			want: "ip:10.0.0.1",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := &httplimit.Options{Clients: httplimit.Clients{Forwarded: tc.forwarded}}
			if tc.trust {
				o.Clients.TrustedProxies = proxies
			}
			if got := keyOf(t, httplimit.PerClient("p", tens), o, tc.remote, tc.header); got != tc.want {
				t.Errorf("key %q; want %q\nwhy: %s", got, tc.want, tc.why)
			}
		})
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

func BenchmarkHostileFields(b *testing.B) {
	lim, _ := inMemory(b)
	for name, field := range hostile() {
		b.Run(name, func(b *testing.B) {
			o := &httplimit.Options{Clients: httplimit.Clients{Forwarded: true, TrustedProxies: tenNet}}
			h := limited(b, lim, httplimit.PerClient("p", brim.Limit{Capacity: 1 << 50}), o)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = "10.0.0.1:1"
			r.Header["Forwarded"] = []string{field}
			w := discard{http.Header{}}
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
