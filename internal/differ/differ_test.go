package differ

import (
	"testing"
	"time"
)

type inner struct{ N int }

// all has a String method that leaves its fields out.
type all struct {
	inner
	F    float64
	S    string
	At   time.Time
	List []inner
	Map  map[string]int
	P    *inner
	Any  any
	Func func()
	wait time.Duration
}

func (all) String() string { return "all" }

func TestFields(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	full := func() all {
		return all{
			inner: inner{1}, F: 2, S: "s", At: noon, List: []inner{{3}, {4}}, Map: map[string]int{"a": 5, "b": 6}, P: &inner{7},
			Any: 8, wait: time.Second,
		}
	}
	for name, c := range map[string]struct {
		change func(*all)
		want   string
	}{
		"nothing":             {func(*all) {}, ""},
		"embedded":            {func(a *all) { a.N = 2 }, "inner.N: got 2, want 1"},
		"two":                 {func(a *all) { a.F, a.S = 2.5, "" }, "F: got 2.5, want 2\nS: got \"\", want \"s\""},
		"time":                {func(a *all) { a.At = noon.Add(time.Microsecond) }, "At: got 2026-01-01 12:00:00.000001 +0000 UTC, want 2026-01-01 12:00:00 +0000 UTC"},
		"another form of it":  {func(a *all) { a.At = noon.In(time.FixedZone("east", 3600)) }, ""},
		"an element":          {func(a *all) { a.List[1].N = 0 }, "List[1].N: got 0, want 4"},
		"an element too few":  {func(a *all) { a.List = a.List[:1] }, "List[1]: got nothing, want differ.inner{N:4}"},
		"an element too many": {func(a *all) { a.List = append(a.List, inner{}) }, "List[2]: got differ.inner{N:0}, want nothing"},
		"nil for a list":      {func(a *all) { a.List = nil }, "List: got []differ.inner(nil), want []differ.inner{differ.inner{N:3}, differ.inner{N:4}}"},
		"a key":               {func(a *all) { a.Map["a"] = 0 }, "Map[a]: got 0, want 5"},
		"a key too few":       {func(a *all) { delete(a.Map, "a") }, "Map[a]: got nothing, want 5"},
		"a key too many":      {func(a *all) { a.Map["c"] = 1 }, "Map[c]: got 1, want nothing"},
		"behind a pointer":    {func(a *all) { a.P = &inner{} }, "P.N: got 0, want 7"},
		"nil for a pointer":   {func(a *all) { a.P = nil }, "P: got nothing, want differ.inner{N:7}"},
		"of another type":     {func(a *all) { a.Any = 8.0 }, "Any's type: got float64, want int"},
		"unexported":          {func(a *all) { a.wait = 0 }, "wait: got 0, want 1000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			got := full()
			c.change(&got)
			if d := Fields(got, full()); d != c.want {
				t.Errorf("%s\nwant %s", d, c.want)
			}
		})
	}
	type ring struct {
		n    int
		next *ring
	}
	one, two := &ring{n: 1}, &ring{n: 2}
	one.next, two.next = one, two
	if d := Fields(one, two); d != "n: got 1, want 2" {
		t.Errorf("a ring: %q", d)
	}
	if Fields(func() {}, func() {}) == "" || Fields((func())(nil), (func())(nil)) != "" {
		t.Error("functions are equal only if both are nil, as reflect.DeepEqual has it")
	}
}
