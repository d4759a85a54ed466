//go:build linux

package mutate

import (
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/attack"
)

const example = "testdata/module"

// TestMutants lists the mutants of the example.
func TestMutants(t *testing.T) {
	p, err := Load(example, "./shelf")
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string][]string)
	for _, m := range p.Mutants {
		if p.Compiles(m) {
			got[m.Func] = append(got[m.Func], m.Change)
		}
	}
	for _, c := range []struct {
		fn   string
		want []string
	}{
		{"Width", []string{"`Width = 7` → `Width = 8`"}},
		{"Fits", []string{
			"`return used+n <= size` → `return used+n < size`",
			"`return used+n <= size` → `return used+n > size`",
			"`return used+n <= size` → `return used-n <= size`",
		}},
		{"Open", []string{
			"`return key != nil && *key == day || hour > 12` → `return key != nil && *key == day && hour > 12`",
			"`return key != nil && *key == day || hour > 12` → `return !(key != nil && *key == day) || hour > 12`",
			"`return key != nil && *key == day || hour > 12` → `return key != nil || *key == day || hour > 12`",
			"`return key != nil && *key == day || hour > 12` → `return key == nil && *key == day || hour > 12`",
			"`return key != nil && *key == day || hour > 12` → `return key != nil && *key != day || hour > 12`",
			"`return key != nil && *key == day || hour > 12` → `return key != nil && *key == day || hour >= 12`",
			"`return key != nil && *key == day || hour > 12` → `return key != nil && *key == day || hour <= 12`",
			"`return key != nil && *key == day || hour > 12` → `return key != nil && *key == day || hour > 13`",
		}},
		{"Least", []string{
			"`return min(a, b, 2.5)` → `return max(a, b, 2.5)`",
			"`return min(a, b, 2.5)` → `return min(a, b, 3.5)`",
		}},
		{"Count", []string{
			"`i++` → `i--`",
			"`i := 0` → `i := 1`",
			"`i < len(words)` → `i <= len(words)`",
			"`i < len(words)` → `i >= len(words)`",
			"`n++` → removed",
			"`n++` → `n--`",
			"`words[i] == \"\"` → `words[i] != \"\"`",
			"`continue` → removed",
			"`words[i] == \".\"` → `words[i] != \".\"`",
			"`break` → removed",
		}},
		{"(*Shelf).Put", []string{
			"`s.mu.Lock()` → removed",
			"`defer s.mu.Unlock()` → removed",
			"`s.used += n` → removed",
			"`s.used += n` → `s.used -= n`",
			"`s.used+n > Width` → `s.used+n >= Width`",
			"`s.used+n > Width` → `s.used+n <= Width`",
			"`s.used+n > Width` → `s.used-n > Width`",
			"`return false` → removed",
			"`return false` → `return true`",
			"`return true` → `return false`",
		}},
		{"Positive", []string{
			"`n > 0` → `n >= 0`", "`n > 0` → `n <= 0`", "`n > 0` → `n > 1`", "`sum += n` → removed", "`sum += n` → `sum -= n`",
		}},
		{"Unseen", []string{"`return n * 3` → `return n / 3`", "`return n * 3` → `return n * 4`"}},
		{"Idle", []string{"`return n % 3` → `return n * 3`", "`return n % 3` → `return n % 4`"}},
		{"Once", []string{
			"`done := false` → `done := true`", "`!done` → `done`",
			"`n += 2` → removed", "`n += 2` → `n -= 2`", "`n += 2` → `n += 3`",
			"`done = true` → removed", "`done = true` → `done = false`",
		}},
	} {
		slices.Sort(c.want)
		slices.Sort(got[c.fn])
		if !slices.Equal(got[c.fn], c.want) {
			t.Errorf("%s has the mutants\n%q\nwant\n%q", c.fn, got[c.fn], c.want)
		}
		delete(got, c.fn)
	}
	if len(got) > 0 {
		t.Errorf("these mutants should not be: %q", got)
	}
}

// TestCatches attacks the example. Its tests kill all mutants but the equivalent one and those of
// the function whose test asserts nothing.
func TestCatches(t *testing.T) {
	p, err := Load(example, "./shelf")
	if err != nil {
		t.Fatal(err)
	}
	var mutants []*Mutant
	for _, m := range p.Mutants {
		if p.Compiles(m) {
			mutants = append(mutants, m)
		}
	}
	h := &Hunt{Package: p, Lab: newLab(t.TempDir()), Short: true}
	if err := h.Prepare(); err != nil {
		t.Fatal(err)
	}
	alive, err := h.Own(mutants)
	if err != nil {
		t.Fatal(err)
	}
	idle := []string{
		"Positive: `n > 0` → `n >= 0`",
		"Idle: `return n % 3` → `return n * 3`",
		"Idle: `return n % 3` → `return n % 4`",
	}
	unseen := []string{"Unseen: `return n * 3` → `return n / 3`", "Unseen: `return n * 3` → `return n * 4`"}
	same(t, alive, slices.Concat(idle, unseen), "the package's own tests leave no others alive")
	alive, err = h.Others(alive)
	if err != nil {
		t.Fatal(err)
	}
	same(t, alive, idle, "a test of another package kills the mutants of Unseen")
	if h.Killed != len(mutants)-len(idle) || h.Late != 2 {
		t.Errorf("%d of %d are killed, %d of them because a test did not end; want all but %d, and 2 that loop for ever",
			h.Killed, len(mutants), h.Late, len(idle))
	}
}

// TestSwitchedAsCompiled: a mutant that is switched on fails the same tests as one that is compiled
// by itself. At night the test has all mutants of the example, and else one of a seed.
func TestSwitchedAsCompiled(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(example, "./shelf")
	if err != nil {
		t.Fatal(err)
	}
	h := &Hunt{Package: p, Lab: newLab(t.TempDir()), Short: true}
	if err := h.Prepare(); err != nil {
		t.Fatal(err)
	}
	n := 1
	if attack.Night() {
		n = len(p.Mutants)
	}
	for _, i := range seed.Rand().Perm(len(p.Mutants)) {
		m := p.Mutants[i]
		if m.alone || !p.Compiles(m) {
			continue
		}
		if n--; n < 0 {
			break
		}
		switched, err := h.against(m, []*binary{h.own})
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := h.compiled(m, h.own)
		if err != nil {
			t.Fatal(err)
		}
		if switched != compiled {
			t.Errorf("%v: switched on, the tests end with outcome %d, and compiled, with %d; repeat: %s",
				m, switched, compiled, seed.Repeat("mutate", "TestSwitchedAsCompiled"))
		}
	}
}

// TestSubtests: a slow test is divided into the subtests that its output names, and run with a
// pattern that fits nothing else.
func TestSubtests(t *testing.T) {
	out := `=== RUN   TestA
=== RUN   TestA/fast
=== RUN   TestA/slow
=== RUN   TestA/slow/one
=== RUN   TestA/a/b
=== RUN   TestA/{1.5_2}
    --- PASS: TestA/fast (0.00s)
=== RUN   TestA/fast
`
	outer := &test{name: "TestA"}
	parts := subtests(outer, []byte(out))
	const want = `^TestA$/^fast$|^TestA$/^slow$|^TestA$/^a$/^b$|^TestA$/^\{1\.5_2\}$`
	if got := pattern(parts); got != want {
		t.Errorf("the subtests are %s, want %s", got, want)
	}
	if parts := subtests(parts[1], []byte(out)); len(parts) != 1 || pattern(parts) != "^TestA$/^slow$/^one$" {
		t.Errorf("the subtests of a subtest are %s, want one", pattern(parts))
	}
}

// TestWithin: the tests that are worth most come first, and the others as long as there is time.
func TestWithin(t *testing.T) {
	tests := []*test{{took: 3 * time.Second}, {took: 2 * time.Second}, {took: time.Second}}
	for most, want := range map[time.Duration]int{
		0: 3, time.Second: 0, 4 * time.Second: 1, 5 * time.Second: 2, 6 * time.Second: 3,
	} {
		if got := len(within(tests, most)); got != want {
			t.Errorf("%d tests take no more than %v, want %d", got, most, want)
		}
	}
}

// TestKnown divides the rows of survivors.md.
func TestKnown(t *testing.T) {
	m := &Mutant{Func: "f", Change: "`a` → `b`"}
	rows := []survivor{
		{"store", "f", "`a` → `b`", "equivalent"},
		{"store", "f", "`a` → `c`", "equivalent"},
		{"spend", "f", "`a` → `d`", "equivalent"},
	}
	judged, stale := known(rows, "store", []*Mutant{m})
	if len(judged) != 1 || !judged[m] || !slices.Equal(stale, rows[1:2]) {
		t.Errorf("judged %v, stale %v; want the mutant, and the second row", judged, stale)
	}
}

func same(t *testing.T, got []*Mutant, want []string, why string) {
	t.Helper()
	var names []string
	for _, m := range got {
		names = append(names, m.String())
	}
	slices.Sort(names)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(names, want) {
		t.Errorf("%q survive, want %q; why: %s", names, want, why)
	}
}
