//go:build linux

package mutate

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Hunt runs the tests of a package against its mutants.
type Hunt struct {
	Package *Package
	Lab     *lab
	Short   bool                             // run the package's own tests with -short
	Slowest time.Duration                    // divides tests that take longer without a mutant; 0 for none
	Most    time.Duration                    // tests of a binary against a mutant, if they take so long without it; 0 for all
	Log     func(format string, args ...any) // hears of each mutant that is alive, if it is not nil

	flag   string // for the go command: the overlay with all mutants
	own    *binary
	others []*binary // of packages that use this one; nil until they are needed

	mutex  sync.Mutex
	Killed int
	Late   int // of the killed ones, those whose tests did not end
}

// Prepare compiles the package's tests with all mutants, and runs each of them without one.
func (h *Hunt) Prepare() error {
	p := h.Package
	var err error
	if h.flag, err = p.schema(h.Lab.path("overlay")); err != nil {
		return err
	}
	if h.own, err = h.Lab.build(p.Module, p.Path, p.dir, h.Short, h.flag); err != nil {
		return err
	}
	if h.own == nil {
		return fmt.Errorf("mutate: %s has no tests", p.Path)
	}
	return h.Lab.record(h.own, len(p.Mutants), h.Slowest)
}

// Own runs the package's own tests against mutants, and returns those that survive.
func (h *Hunt) Own(mutants []*Mutant) (alive []*Mutant, err error) {
	return h.attack(mutants, func(m *Mutant) (outcome, error) {
		if m.alone {
			return h.compiled(m, h.own)
		}
		return h.against(m, []*binary{h.own})
	})
}

// Others runs the tests of the packages that use this one.
func (h *Hunt) Others(mutants []*Mutant) (alive []*Mutant, err error) {
	if len(mutants) > 0 && h.others == nil {
		if err := h.prepareOthers(); err != nil {
			return nil, err
		}
	}
	return h.attack(mutants, func(m *Mutant) (outcome, error) {
		if !m.alone {
			return h.against(m, h.others)
		}
		for _, b := range h.others {
			if got, err := h.compiled(m, b); err != nil || got != passed {
				return got, err
			}
		}
		return passed, nil
	})
}

func (h *Hunt) attack(mutants []*Mutant, run func(*Mutant) (outcome, error)) (alive []*Mutant, err error) {
	err = each(mutants, func(m *Mutant) error {
		got, err := run(m)
		if err != nil {
			return fmt.Errorf("%v: %w", m, err)
		}
		h.mutex.Lock()
		defer h.mutex.Unlock()
		switch got {
		case passed:
			alive = append(alive, m)
			if h.Log != nil {
				h.Log("alive: %v", m)
			}
		case late:
			h.Late++
			fallthrough
		default:
			h.Killed++
		}
		return nil
	})
	slices.SortFunc(alive, func(a, b *Mutant) int { return cmp.Compare(a.ID, b.ID) })
	return alive, err
}

// prepareOthers compiles the tests of the packages of the module that use this one.
func (h *Hunt) prepareOthers() error {
	p := h.Package
	all, err := list(p.Module, "-test", "./...")
	if err != nil {
		return err
	}
	h.others = []*binary{}
	for _, l := range all {
		uses := slices.ContainsFunc(l.Deps, func(d string) bool { return d == p.Path || strings.HasPrefix(d, p.Path+" ") })
		pkg, ok := strings.CutSuffix(l.ImportPath, ".test")
		if !ok || !uses || pkg == p.Path {
			continue
		}
		b, err := h.Lab.build(p.Module, pkg, l.Dir, true, h.flag)
		if err != nil {
			return err
		}
		if b == nil {
			continue
		}
		if err := h.Lab.record(b, len(p.Mutants), h.Slowest); err != nil {
			return err
		}
		h.others = append(h.others, b)
	}
	return nil
}

// against runs the tests in which a mutant makes a difference. The most promising tests of every
// binary come first.
func (h *Hunt) against(m *Mutant, bins []*binary) (outcome, error) {
	var first, rest [][]*test
	for _, b := range bins {
		var tests []*test
		for _, t := range b.tests {
			if t.seen[m.ID] != 0 {
				tests = append(tests, t)
			}
		}
		best, others := split(tests)
		first, rest = append(first, best), append(rest, within(others, h.Most))
	}
	byTime := func(a, b []*test) int { return cmp.Compare(together(a), together(b)) }
	slices.SortFunc(first, byTime)
	slices.SortFunc(rest, byTime)
	for _, tests := range append(first, rest...) {
		if len(tests) == 0 {
			continue
		}
		got, err := h.try(m, tests[0].bin, tests)
		if err != nil || got != passed {
			return got, err
		}
	}
	return passed, nil
}

// split orders tests by their worth, and returns the three that are worth most, and the others.
func split(tests []*test) (best, others []*test) {
	worth := make(map[*test]float64)
	for _, t := range tests {
		worth[t] = t.worth()
	}
	slices.SortStableFunc(tests, func(a, b *test) int { return cmp.Compare(worth[b], worth[a]) })
	n := min(3, len(tests))
	return tests[:n], tests[n:]
}

// within returns the first tests that take no longer than most together, or all if most is 0.
func within(tests []*test, most time.Duration) []*test {
	for i := range tests {
		if most > 0 && together(tests[:i+1]) > most {
			return tests[:i]
		}
	}
	return tests
}

// together returns the time of tests without a mutant.
func together(tests []*test) time.Duration {
	var d time.Duration
	for _, t := range tests {
		d += t.took
	}
	return d
}

var failure = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// try runs tests with a mutant.
func (h *Hunt) try(m *Mutant, b *binary, tests []*test) (outcome, error) {
	limit := 3*time.Second + 5*together(tests)
	got, out, err := h.Lab.run(b, tests, limit, "BRIM_MUTANT="+strconv.Itoa(m.ID))
	for _, f := range failure.FindAllSubmatch(out, -1) {
		for _, t := range tests {
			if t.name == string(f[1]) {
				t.kills.Add(1)
			}
		}
	}
	return got, err
}

// compiled runs the tests of a binary that is compiled anew with one mutant.
func (h *Hunt) compiled(m *Mutant, b *binary) (outcome, error) {
	flag, err := overlay(h.Lab.path("overlay"), map[string][]byte{m.file.path: m.source()})
	if err != nil {
		return 0, err
	}
	changed, err := h.Lab.build(h.Package.Module, b.pkg, b.dir, slices.Contains(b.flags, "-test.short"), flag)
	if errors.Is(err, errNotBuilt) { // a test no longer compiles
		return failed, nil
	}
	if err != nil {
		return 0, err
	}
	best, others := split(slices.Clone(b.tests))
	return h.try(m, changed, append(best, within(others, h.Most)...))
}
