package httplimit

import (
	"cmp"
	"fmt"
	"math"
	"net/http"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/caller"
	"github.com/brimgo/brim/store"
)

// Policy is one of the limits that apply to a request. Each caller has a bucket of its own under
// each policy.
type Policy struct {
	// Name tells the policy from all others. It is part of the key of each bucket, so two policies
	// share a bucket only if they have the same name, and Limiters over the same store with the
	// same prefix. It belongs to one middleware of a Limiter; see [Options.Shared]. It is also the
	// name of the policy in [DraftFields]. It is required, and has 1 to 64 bytes of printable ASCII
	// without a colon.
	Name string
	// Key tells callers apart, for instance by their account. If it is "", the caller is the
	// client's address, by [Options.Clients]. All requests without an address share a bucket, for
	// instance those that come over a Unix socket: a Key must tell their clients apart. A key that
	// no store can keep, because it is too long or not UTF-8, is replaced by its hash.
	Key string
	// Limit is the limit of each caller. Under [brim.Nobody] a request is answered with status 429
	// without Retry-After. A policy under [brim.Unlimited] admits every request without the store,
	// and is in no fields.
	Limit brim.Limit
	// Cost returns the cost of a request in units of the limit; nil means 1. See [ContentLength].
	// To limit by the number of items in a body, read the body in a handler in front of the limit,
	// and pass the number through the request's context.
	Cost func(r *http.Request) float64
	// Unit is the quota unit in [DraftFields], for instance "content-bytes"; "" means requests.
	Unit string
	// CountIf reports whether a request counts under this policy, by the status of its answer: for
	// logins that failed, status == http.StatusUnauthorized. The policy is asked before the handler
	// and filled after it. nil counts each request before the handler. A handler that panics has
	// answered with status 500, unless it had written another.
	//
	// Requests that run at once are all asked before the first of them counts, so a burst of m
	// parallel requests can pass where one unit is left; all of them that count do count, and the
	// bucket is full then. Strict closes that gap.
	CountIf func(status int) bool
	// Strict charges each request before the handler, and gives the units back after it if CountIf
	// says that the request does not count. However many run at once, no more are admitted than the
	// limit has room for. A request takes up room while it runs, so the limit also bounds the
	// requests of a caller that run at once and will not count. If the process is killed, the units
	// of its requests leak like others.
	//
	// Units that may have leaked meanwhile are not given back, so a request that does not count
	// costs up to LeakRate times the time that it took. Nothing is given back of a charge that the
	// store has not decided itself, as during an outage behind local.Fallback. Without CountIf,
	// Strict means nothing.
	Strict bool
}

// Policies selects the policies of requests. [PerClient], [ByHeader] and [All] make some, and a
// [PolicyFunc] is a function of the application.
type Policies interface {
	// Select returns the policies of a request. They are decided together: the request is admitted
	// if it fits under all of them, and it is counted under none of them otherwise. Without
	// policies, the request is admitted.
	//
	// Select is called on the goroutine of the request, so it must be safe for concurrent use. If
	// it returns an error, the request is answered with status 500, whatever
	// [Options.OnUnavailable] says: a client that can provoke the error must not get past the
	// limit. To admit the request in spite of an error, return no policy.
	Select(r *http.Request) ([]Policy, error)
}

// PolicyFunc is a function of the application as [Policies].
type PolicyFunc func(r *http.Request) ([]Policy, error)

// Select calls f.
func (f PolicyFunc) Select(r *http.Request) ([]Policy, error) { return f(r) }

// named is Policies whose names are known before there is a request.
type named struct {
	PolicyFunc
	names []string
}

// PerClient returns a policy with the same limit for each client. A client is an address: see
// [Policy.Key].
func PerClient(name string, limit brim.Limit) Policies {
	all := []Policy{{Name: name, Limit: limit}}
	return named{func(*http.Request) ([]Policy, error) { return all, nil }, []string{name}}
}

// ByHeader returns a policy whose key is the value of a header field, for instance of an API key. A
// request without the field has the bucket of its client's address.
//
// The application must have checked the value before: a client that can choose any value gets a new
// bucket for each request. The store keeps the value as a part of the bucket's key. If the value is
// a secret, write a Policies whose Key is its hash.
func ByHeader(name, field string, limit brim.Limit) Policies {
	return named{func(r *http.Request) ([]Policy, error) {
		return []Policy{{Name: name, Key: r.Header.Get(field), Limit: limit}}, nil
	}, []string{name}}
}

// All returns the policies of all members, in order.
func All(members ...Policies) Policies {
	var names []string
	for _, p := range members {
		if n, ok := p.(named); ok {
			names = append(names, n.names...)
		}
	}
	return named{func(r *http.Request) (all []Policy, err error) {
		for _, p := range members {
			some, err := p.Select(r)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	}, names}
}

// ContentLength returns a Cost of one unit per byte of the request's body, from its field
// Content-Length (RFC 9110, section 8.6). A body of unknown length costs the given number of
// units.
//
// ContentLength does not read the body, and it does not limit the bytes that a handler reads.
func ContentLength(unknown float64) func(*http.Request) float64 {
	return func(r *http.Request) float64 {
		if r.ContentLength < 0 {
			return unknown
		}
		return float64(r.ContentLength)
	}
}

// costOf returns the cost of a request in units: 1 if cost is nil.
func costOf(r *http.Request, cost func(*http.Request) float64) float64 {
	if cost == nil {
		return 1
	}
	return cost(r)
}

// after reports whether the policy is only asked before the handler.
func (p *Policy) after() bool { return p.CountIf != nil && !p.Strict }

// part is the part of one policy in the decision about a request.
type part struct {
	Policy
	bucket brim.Bucket
	cost   float64
	state  brim.State
}

// parts returns one part for each policy of the request, undecided.
func (l *limited) parts(r *http.Request) ([]part, error) {
	policies, err := l.policies.Select(r)
	if err != nil {
		return nil, err
	}
	all := make([]part, len(policies))
	for i, p := range policies {
		if err := cmp.Or(caller.ValidateName(p.Name), l.owner.Use(p.Name)); err != nil {
			return nil, err
		}
		if !printable(p.Unit) {
			return nil, fmt.Errorf("the unit of policy %s is %q; it must be printable ASCII", p.Name, p.Unit)
		}
		cost := costOf(r, p.Cost)
		if p.Limit.Capacity == 0 { // Nobody and Unlimited ask for no size
			cost = min(cost, store.MaxAmount)
		}
		all[i] = part{Policy: p, bucket: p.Limit.For(l.key(p, r)), cost: cost}
	}
	return all, nil
}

// fits returns how many requests of the same cost would still fit. A policy under which a request
// costs nothing never stands in its way.
func (p *part) fits() float64 {
	if p.cost == 0 {
		return math.Inf(1)
	}
	return p.state.Remaining() / p.cost
}
