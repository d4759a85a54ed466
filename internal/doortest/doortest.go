// Package doortest is a suite for the middlewares through which requests come in, of HTTP and of
// gRPC: a promise of both is tested at both.
package doortest

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/memory"
)

// Policy is a policy of either middleware.
type Policy struct {
	Name, Key string
	Limit     brim.Limit
	Cost      float64 // 0 means that there is no function
	CountIf   func(Outcome) bool
	Strict    bool
}

// Outcome is the outcome of a request. A handler returns one of the first three.
type Outcome string

// The outcomes.
const (
	Served   Outcome = "served"
	Failed   Outcome = "failed"   // a login with a wrong password: 401 or UNAUTHENTICATED
	Panicked Outcome = "panicked" // 500 or UNKNOWN
	Refused  Outcome = "refused"
)

// Door is a middleware under test.
type Door struct {
	// Handle sends a request through middlewares with these policies, the outermost first, to a
	// handler.
	Handle func(t *testing.T, lim *brim.Limiter, nested [][]Policy) (send func(handler func() Outcome) Outcome)
	// Policy is the door's own type of policies, and Own are the fields that the other doors lack.
	Policy reflect.Type
	Own    []string
}

// limit has room for two units, and never leaks.
var limit = brim.Limit{Capacity: 2}

func fails(o Outcome) bool  { return o == Failed || o == Panicked }
func serves(o Outcome) bool { return o == Served }

// request is one of a case, with the levels of the case's buckets while and after it runs.
type request struct {
	handler, want Outcome
	during, after []float64 // during is nil if the handler must not run
}

var cases = []struct {
	field, why string // field is that of a Policy which the case is about, if any
	nested     [][]Policy
	buckets    []string
	requests   []request
}{
	{
		field: "Name", why: "policies of two names share no bucket",
		nested:  [][]Policy{{{Name: "a", Key: "k", Limit: limit}, {Name: "b", Key: "k", Limit: limit}}},
		buckets: []string{"a:key:k", "b:key:k"},
		requests: []request{
			{Served, Served, []float64{1, 1}, []float64{1, 1}},
		},
	},
	{
		field: "Key", why: "callers of two keys share no bucket",
		nested:  [][]Policy{{{Name: "a", Key: "k", Limit: limit}, {Name: "a", Key: "l", Limit: limit}}},
		buckets: []string{"a:key:k", "a:key:l"},
		requests: []request{
			{Served, Served, []float64{1, 1}, []float64{1, 1}},
		},
	},
	{
		field: "Limit", why: "a request that does not fit under one limit counts under none",
		nested:  [][]Policy{{{Name: "wide", Key: "k", Limit: limit}, {Name: "narrow", Key: "k", Limit: brim.Limit{Capacity: 1}}}},
		buckets: []string{"wide:key:k", "narrow:key:k"},
		requests: []request{
			{Served, Served, []float64{1, 1}, []float64{1, 1}},
			{Served, Refused, nil, []float64{1, 1}},
		},
	},
	{
		field: "Limit", why: "nobody is admitted, whatever the other limits say",
		nested:   [][]Policy{{{Name: "free", Key: "k", Limit: brim.Unlimited}, {Name: "closed", Key: "k", Limit: brim.Nobody}}},
		requests: []request{{Served, Refused, nil, nil}},
	},
	{
		field: "Cost", why: "a request takes its cost",
		nested:  [][]Policy{{{Name: "a", Key: "k", Limit: limit, Cost: 1.5}}},
		buckets: []string{"a:key:k"},
		requests: []request{
			{Served, Served, []float64{1.5}, []float64{1.5}},
			{Served, Refused, nil, []float64{1.5}},
		},
	},
	{
		field: "CountIf", why: "the outcome decides whether a request counts; a panic is an outcome",
		nested:  [][]Policy{{{Name: "a", Key: "k", Limit: limit, CountIf: fails}, {Name: "all", Key: "k", Limit: brim.Limit{Capacity: 9}}}},
		buckets: []string{"a:key:k", "all:key:k"},
		requests: []request{
			{Served, Served, []float64{0, 1}, []float64{0, 1}},
			{Failed, Failed, []float64{0, 2}, []float64{1, 2}},
			{Panicked, Panicked, []float64{1, 3}, []float64{2, 3}},
			{Served, Refused, nil, []float64{2, 3}},
		},
	},
	{
		field: "CountIf", why: "a policy alone is asked without a charge, by another call to the store",
		nested:  [][]Policy{{{Name: "a", Key: "k", Limit: limit, Cost: 2, CountIf: serves}}},
		buckets: []string{"a:key:k"},
		requests: []request{
			{Panicked, Panicked, []float64{0}, []float64{0}},
			{Served, Served, []float64{0}, []float64{2}},
			{Failed, Refused, nil, []float64{2}},
		},
	},
	{
		field: "Strict", why: "a request is charged before the handler, and given back if it does not count",
		nested:  [][]Policy{{{Name: "a", Key: "k", Limit: limit, CountIf: fails, Strict: true}}},
		buckets: []string{"a:key:k"},
		requests: []request{
			{Served, Served, []float64{1}, []float64{0}},
			{Failed, Failed, []float64{1}, []float64{1}},
			{Panicked, Panicked, []float64{2}, []float64{2}},
			{Served, Refused, nil, []float64{2}},
		},
	},
	{
		field: "Strict", why: "without CountIf, it means nothing",
		nested:   [][]Policy{{{Name: "a", Key: "k", Limit: limit, Strict: true}}},
		buckets:  []string{"a:key:k"},
		requests: []request{{Panicked, Panicked, []float64{1}, []float64{1}}},
	},
	{
		why:     "middlewares are nested: the outer one has counted what the inner one refuses",
		nested:  [][]Policy{{{Name: "outer", Key: "k", Limit: limit}}, {{Name: "inner", Key: "k", Limit: brim.Limit{Capacity: 1}}}},
		buckets: []string{"outer:key:k", "inner:key:k"},
		requests: []request{
			{Served, Served, []float64{1, 1}, []float64{1, 1}},
			{Served, Refused, nil, []float64{2, 1}},
		},
	},
	{
		why: "the outcome reaches both of two nested middlewares, also that of a panic",
		nested: [][]Policy{
			{{Name: "outer", Key: "k", Limit: limit, CountIf: serves, Strict: true}},
			{{Name: "inner", Key: "k", Limit: limit, CountIf: fails}},
		},
		buckets: []string{"outer:key:k", "inner:key:k"},
		requests: []request{
			{Panicked, Panicked, []float64{1, 0}, []float64{0, 1}},
			{Served, Served, []float64{1, 1}, []float64{1, 1}},
			{Failed, Failed, []float64{2, 1}, []float64{1, 2}},
			{Served, Refused, nil, []float64{1, 2}}, // by the inner one: the outer one gives back
		},
	},
}

// Run sends the requests of all cases through the door. It fails if there is a field of the door's
// policies without a case.
func Run(t *testing.T, d Door) {
	known := slices.Clone(d.Own)
	for _, c := range cases {
		known = append(known, c.field)
		t.Run(c.why, func(t *testing.T) {
			noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
			lim := brim.New(memory.New(&memory.Options{Clock: func() time.Time { return noon }}), nil)
			send := d.Handle(t, lim, c.nested)
			levels := func() (list []float64) {
				for _, key := range c.buckets {
					st, err := lim.State(context.Background(), limit.For(key))
					if err != nil {
						t.Fatal(err)
					}
					list = append(list, st.Level)
				}
				return list
			}
			for i, r := range c.requests {
				got := request{handler: r.handler}
				got.want = send(func() Outcome { got.during = levels(); return r.handler })
				got.after = levels()
				if diff := differ.Fields(got, r); diff != "" {
					t.Errorf("request %d:\n%s", i, diff)
				}
			}
		})
	}
	for i := range d.Policy.NumField() {
		if name := d.Policy.Field(i).Name; !slices.Contains(known, name) {
			t.Errorf("no case is about the field %s of %v", name, d.Policy)
		}
	}
}
