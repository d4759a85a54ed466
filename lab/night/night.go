package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/seed"
)

// part is a test with a budget.
type part struct {
	name  string
	unit  string   // of the budget: attempts on each subject of the test
	want  int      // the budget
	slice int      // attempts of one "go test"
	dir   string   // of the module, in the repository
	pkg   string   // in the module
	run   string   // the pattern of "go test -run"
	env   []string // besides the seed and the number of attempts
	tags  string   // of the build
	fuzz  bool     // run names a fuzz target, and an attempt is a minute
}

// slice is a line of the file: a "go test" that has ended.
type slice struct {
	Part    string  `json:"part"`
	Seed    uint64  `json:"seed"`
	Count   int     `json:"count"` // of attempts
	Seconds float64 `json:"seconds"`
	Log     string  `json:"log,omitempty"`    // of the test: the number of its attempts
	Failed  string  `json:"failed,omitempty"` // the output of a test that has failed
}

// night is a file of slices.
type night struct {
	path   string
	seed   uint64 // of all parts
	slices []slice
}

// open reads the file, if there is one.
func open(path string) (*night, error) {
	n := &night{path: path}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var s slice
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, fmt.Errorf("%s: line %d is no slice; mend or remove it: %w", path, len(n.slices)+1, err)
		}
		n.slices = append(n.slices, s)
	}
	if len(n.slices) > 0 {
		n.seed = n.slices[0].Seed // its part was at position 0
		return n, nil
	}
	n.seed, err = seed.New()
	return n, err
}

// add appends a slice to the file. A program that is killed meanwhile leaves the former file.
func (n *night) add(s slice) error {
	n.slices = append(n.slices, s)
	var text bytes.Buffer
	for _, s := range n.slices {
		line, err := json.Marshal(s)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	if err := os.WriteFile(n.path+".new", text.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(n.path+".new", n.path)
}

// progress returns the number of attempts of a part that ended well, and the slice that failed.
func (n *night) progress(p part) (position int, failed *slice) {
	for i, s := range n.slices {
		switch {
		case s.Part != p.name:
		case s.Failed != "":
			failed = &n.slices[i]
		default:
			position += s.Count
		}
	}
	return position, failed
}

// tester runs attempts of a part from a seed on. It returns the log of the test, and the output if
// the test failed.
type tester func(ctx context.Context, p part, seed uint64, count int) (log, failed string)

// run runs the slices that the parts lack, and begins none after a time. The next slice is one of
// the part that has done the smallest share of its budget, so that a short night leaves no part
// out. A part ends with the first slice that fails.
func (n *night) run(ctx context.Context, until time.Time, list []part, test tester) error {
	for ctx.Err() == nil && time.Now().Before(until) {
		next, least := part{}, 1.0
		for _, p := range list {
			position, failed := n.progress(p)
			if share := float64(position) / float64(p.want); failed == nil && share < least {
				next, least = p, share
			}
		}
		if least == 1 {
			return nil
		}
		if err := n.runSlice(ctx, next, test); err != nil {
			return err
		}
	}
	return nil
}

// runSlice runs the next slice of a part. One that is interrupted leaves no line.
func (n *night) runSlice(ctx context.Context, p part, test tester) error {
	position, _ := n.progress(p)
	s := slice{Part: p.name, Seed: n.seed + uint64(position), Count: min(p.slice, p.want-position)}
	start := time.Now()
	s.Log, s.Failed = test(ctx, p, s.Seed, s.Count)
	if ctx.Err() != nil {
		return nil
	}
	s.Seconds = time.Since(start).Round(time.Second / 10).Seconds()
	fmt.Fprintf(os.Stderr, "%s %s: %d more of %d %s, %.1f s; %s\n",
		time.Now().Format(time.TimeOnly), p.name, s.Count, p.want, p.unit, s.Seconds, s.Log)
	if s.Failed != "" {
		fmt.Fprintf(os.Stderr, "%s\nFAILED: %s\n", s.Failed, p.command(s.Seed, s.Count))
	}
	return n.add(s)
}

// table returns the progress of the parts as a table, and reports whether none of them has failed.
// Parts of a group that are equally far share a row.
func (n *night) table(list []part) (text string, ok bool) {
	ok = true
	rows, names := []string{}, make(map[string][]string)
	for _, p := range list {
		position, failed := n.progress(p)
		outcome := "nothing found"
		switch {
		case failed != nil:
			outcome, ok = fmt.Sprintf("failed: `%s`", p.command(failed.Seed, failed.Count)), false
		case position == 0:
			outcome = "not begun"
		}
		group, name, _ := strings.Cut(p.name, ": ")
		row := fmt.Sprintf("%d of %d %s | %s |", position, p.want, p.unit, outcome)
		key := group + " | " + row
		if names[key] == nil {
			rows = append(rows, key)
		}
		names[key] = append(names[key], name)
	}
	text = fmt.Sprintf("Seed %d\n\n| part | position | outcome |\n| --- | --- | --- |\n", n.seed)
	for _, key := range rows {
		group, row, _ := strings.Cut(key, " | ")
		if all := strings.Join(names[key], ", "); all != "" {
			group += ": " + all
		}
		text += "| " + group + " | " + row + "\n"
	}
	return text, ok
}
