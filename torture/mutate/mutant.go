package mutate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mutant is one change of a package.
type Mutant struct {
	ID     int    // the number of its switch
	Func   string // the function or the variable that it changes
	Change string // "`before` → `after`", different for each mutant of a function

	file     *file
	from, to int    // the part of the file that text replaces
	text     string // in parentheses where it is an expression
	alone    bool   // has no switch: compiled by itself
}

// source returns the file with the change.
func (m *Mutant) source() []byte {
	return slices.Concat(m.file.src[:m.from], []byte(m.text), m.file.src[m.to:])
}

// String names the mutant as survivors.md does.
func (m *Mutant) String() string { return m.Func + ": " + m.Change }

// line returns the number of the line where the change begins, from 1.
func (m *Mutant) line() int { return 1 + strings.Count(string(m.file.src[:m.from]), "\n") }

// nameEach numbers the changes of a function that read the same, in the order of the file.
func nameEach(mutants []*Mutant) {
	sorted := slices.Clone(mutants)
	slices.SortStableFunc(sorted, func(a, b *Mutant) int {
		return cmp.Or(cmp.Compare(a.file.path, b.file.path), cmp.Compare(a.from, b.from))
	})
	seen := make(map[string]int)
	for _, m := range sorted {
		name := m.String()
		if seen[name]++; seen[name] > 1 {
			m.Change += fmt.Sprintf(", number %d", seen[name])
		}
	}
}

// Texts longer than longest are shown with so many characters on both sides of the change.
const (
	longest = 110
	around  = 40
)

// describe returns the change of a text into another. If the other is "", the text was removed.
func describe(before, after string) string {
	a, b := oneLine(before), oneLine(after)
	switch {
	case len(b) == 0 && len(a) > longest:
		return "`" + string(a[:longest]) + "…` → removed"
	case len(b) == 0:
		return "`" + string(a) + "` → removed"
	case len(a) > longest:
		a, b = part(a, b), part(b, a)
	}
	return "`" + string(a) + "` → `" + string(b) + "`"
}

// oneLine returns a text with every space and line break as one space.
func oneLine(text string) []rune { return []rune(strings.Join(strings.Fields(text), " ")) }

// part returns the part of a text in which it differs from another.
func part(text, other []rune) []rune {
	from, behind := 0, 0
	for from < min(len(text), len(other)) && text[from] == other[from] {
		from++
	}
	for behind < min(len(text), len(other))-from && text[len(text)-1-behind] == other[len(other)-1-behind] {
		behind++
	}
	shown := text[max(0, from-around):min(len(text), len(text)-behind+around)]
	return []rune("…" + string(shown) + "…")
}
