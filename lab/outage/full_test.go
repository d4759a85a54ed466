package outage

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
)

// TestFull has an attacker with the 65,536 networks of 64 bits of one /48 send a hundred requests a
// second, for ten minutes, to a limit of ten a minute over a store of 10,000 buckets. Ninety of
// them come from one network after the other, and ten from one that changes at half time, when the
// store is full. A hundred honest clients send one request each.
func TestFull(t *testing.T) {
	const (
		length  = 600 // seconds
		half    = length / 2
		honest  = 100
		changes = 90
		greedy  = 10
	)
	perMinute := brim.Over(10, time.Minute)
	for name, failure := range map[string]httplimit.Failure{"FailOpen": httplimit.FailOpen, "FailClosed": httplimit.FailClosed} {
		t.Run(name, func(t *testing.T) {
			clock := brimtest.NewClock(time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC))
			s := memory.New(&memory.Options{MaxBuckets: 10_000, Clock: clock.Now})
			limited, err := httplimit.New(brim.New(s, nil), httplimit.PerClient("full", perMinute), &httplimit.Options{OnUnavailable: failure})
			if err != nil {
				t.Fatal(err)
			}
			passed := make(map[netip.Addr]int)
			handler := limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				passed[netip.MustParseAddrPort(r.RemoteAddr).Addr()]++
			}))
			request := func(from netip.Addr) {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.RemoteAddr = netip.AddrPortFrom(from, 1).String()
				handler.ServeHTTP(httptest.NewRecorder(), r)
			}
			network := func(n int) netip.Addr {
				return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 6: byte(n >> 8), 7: byte(n), 15: 1})
			}
			client := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}) }
			next := 0
			for second := range length {
				for range changes {
					next++
					request(network(next))
				}
				for range greedy {
					request(network((1<<16 - 1) * (second / half)))
				}
				if every := length / honest; second%every == every-1 {
					request(client(second / every))
				}
				clock.Advance(time.Second)
			}

			served, most, all := 0, 0, 0
			for from, n := range passed {
				if from.Is4() {
					served += n
				}
				most, all = max(most, n), all+n
			}
			allowed := 2 * (perMinute.Capacity + perMinute.LeakRate*half)
			fmt.Fprintf(t.Output(), "%-10s  %d of %d honest clients passed; at most %d requests of one network (allowed %.0f); %d of all %d\n",
				name, served, honest, most, allowed, all, length*(changes+greedy)+honest)
			if served < 9*honest/10 {
				t.Errorf("%d of %d honest clients passed; want at least %d", served, honest, 9*honest/10)
			}
			if float64(most) > allowed {
				t.Errorf("%d requests of one network passed; want at most %.0f, twice its limit", most, allowed)
			}
		})
	}
}
