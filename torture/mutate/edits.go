package mutate

import (
	"slices"
	"strings"
)

// edits are insertions and replacements in a file. None of them changes the number of lines.
type edits struct {
	before, after map[int]string // texts to insert at an offset, in front of a node or behind one
	instead       map[int]replacement
}

type replacement struct {
	length int
	text   string
}

// insert adds text to the insertions of a map.
func insert(into map[int]string, offset int, text string) {
	if text != "" {
		into[offset] += text
	}
}

func newEdits() edits {
	return edits{before: make(map[int]string), after: make(map[int]string), instead: make(map[int]replacement)}
}

// apply returns src with the edits. Where a node ends and another begins, the end comes first.
func (e edits) apply(src []byte) string {
	var at []int
	for o := range e.before {
		at = append(at, o)
	}
	for o := range e.after {
		at = append(at, o)
	}
	for o := range e.instead {
		at = append(at, o)
	}
	slices.Sort(at)
	var b strings.Builder
	from := 0
	for _, o := range slices.Compact(at) {
		b.Write(src[from:o])
		b.WriteString(e.after[o])
		b.WriteString(e.before[o])
		r := e.instead[o]
		b.WriteString(r.text)
		from = o + r.length
	}
	b.Write(src[from:])
	return b.String()
}
