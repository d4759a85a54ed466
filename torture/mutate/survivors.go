package mutate

import (
	"fmt"
	"os"
	"slices"

	"github.com/brimgo/brim/internal/table"
)

// survivor is a row of survivors.md.
type survivor struct{ pkg, fn, change, reason string }

// readSurvivors reads a file of survivors.
func readSurvivors(path string) ([]survivor, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := table.ReadMarkdown(string(text))
	if err != nil {
		return nil, err
	}
	var all []survivor
	for _, row := range t.Rows {
		s := survivor{row[0], row[1], row[2], row[3]}
		if s.reason == "" {
			return nil, fmt.Errorf("mutate: %s: a survivor of %s has no reason: %s", path, s.fn, s.change)
		}
		all = append(all, s)
	}
	return all, nil
}

// known divides the survivors of a package into mutants and rows without a mutant.
func known(all []survivor, pkg string, mutants []*Mutant) (judged map[*Mutant]bool, stale []survivor) {
	judged = make(map[*Mutant]bool)
	for _, s := range all {
		if s.pkg != pkg {
			continue
		}
		i := slices.IndexFunc(mutants, func(m *Mutant) bool { return m.Func == s.fn && m.Change == s.change })
		if i < 0 {
			stale = append(stale, s)
			continue
		}
		judged[mutants[i]] = true
	}
	return judged, stale
}
