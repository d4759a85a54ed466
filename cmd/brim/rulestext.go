package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/brimgo/brim/spend"
)

// differ reports whether two budgets differ.
func differ(x, y spend.Budget) (bool, error) {
	was, err := x.MarshalJSON()
	if err != nil {
		return false, err
	}
	is, err := y.MarshalJSON()
	return !bytes.Equal(was, is), err
}

// linesOf writes a budget as YAML, with a line for each rule. Escapes stand for characters that
// could control a terminal.
func linesOf(b spend.Budget, revision bool) ([]string, error) {
	text, err := b.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var j struct {
		Budget, Currency json.RawMessage
		Retired          json.RawMessage
		Rules            []json.RawMessage
		Plans            map[string][]json.RawMessage
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("budget: %s", j.Budget), fmt.Sprintf("currency: %s", j.Currency)}
	if revision {
		lines = append(lines, fmt.Sprintf("revision: %d", b.Revision))
	}
	if j.Retired != nil {
		lines = append(lines, fmt.Sprintf("retired: %s", j.Retired))
	}
	lines = append(lines, "rules:")
	for _, rule := range j.Rules {
		lines = append(lines, fmt.Sprintf("  - %s", rule))
	}
	if len(j.Plans) > 0 {
		lines = append(lines, "plans:")
	}
	for _, plan := range slices.Sorted(maps.Keys(j.Plans)) {
		name, err := json.Marshal(plan)
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("  %s:", name))
		for _, rule := range j.Plans[plan] {
			lines = append(lines, fmt.Sprintf("    - %s", rule))
		}
	}
	for i, line := range lines {
		lines[i] = oneLine(line)
	}
	return lines, nil
}

// diff merges two texts. A line begins with "- " if only the first text has it, with "+ " if only
// the second one has it, and else with two blanks.
func diff(was, is []string) (lines []string) {
	common := make([][]int, len(was)+1) // the most lines that was[i:] and is[j:] can share
	for i := len(was); i >= 0; i-- {
		common[i] = make([]int, len(is)+1)
		for j := len(is) - 1; j >= 0 && i < len(was); j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); was[i] == is[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	for i, j := 0, 0; i < len(was) || j < len(is); {
		switch {
		case i < len(was) && j < len(is) && was[i] == is[j]:
			lines = append(lines, "  "+was[i])
			i, j = i+1, j+1
		case j == len(is) || i < len(was) && common[i+1][j] >= common[i][j+1]:
			lines = append(lines, "- "+was[i])
			i++
		default:
			lines = append(lines, "+ "+is[j])
			j++
		}
	}
	return lines
}
