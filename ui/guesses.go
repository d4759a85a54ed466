package ui

import (
	"maps"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/brimgo/brim/internal/caller"
	"github.com/brimgo/brim/store"
)

// The limits of guesses: ten a minute from one address, and a hundred in all.
var (
	guessesOfOne = store.Limit{Capacity: 10, LeakRate: 10.0 / 60}
	guessesOfAll = store.Limit{Capacity: 100, LeakRate: 100.0 / 60}
)

// guesses counts the requests with an Authorization that gives no access, in buckets of this
// process. A request with access is never counted and never refused, whoever guesses from the same
// address.
type guesses struct {
	clock func() time.Time

	mu  sync.Mutex
	all store.Record
	by  map[string]*store.Record // by address; at most as many as the guesses that all has room for in two minutes
}

// refused counts a guess. If it does not fit, refused returns the answer to it, and sets
// Retry-After.
func (g *guesses) refused(w http.ResponseWriter, r *http.Request) *failure {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // all without an address are one
	wait := g.count(caller.Address(from.Addr(), caller.DefaultBits))
	if wait == 0 {
		return nil
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	return &failure{
		status: http.StatusTooManyRequests, title: "Too many guesses",
		detail: "Too many requests had a wrong token. A request with the right token is answered all the same.",
	}
}

// count puts a guess into both buckets, and returns 0, or the time until one would fit.
func (g *guesses) count(address string) time.Duration {
	now := g.clock().UnixMicro()
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.by[address]
	if one == nil {
		one = new(store.NewRecord(now))
	}
	res, _ := store.Decide(store.Txn{
		{Bucket: store.Bucket{Key: address, Limit: guessesOfOne}, Amount: 1, Mode: store.IfFits},
		{Bucket: store.Bucket{Key: "all", Limit: guessesOfAll}, Amount: 1, Mode: store.IfFits},
	}, []*store.Record{one, &g.all}, now, store.DefaultMaxSkew)
	if !res.Accepted {
		return max(res.States[0].RetryAfter, res.States[1].RetryAfter)
	}
	maps.DeleteFunc(g.by, func(_ string, r *store.Record) bool { return r.LevelAt(now) == 0 })
	g.by[address] = one
	return 0
}
