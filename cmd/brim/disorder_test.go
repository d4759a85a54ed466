package main

import (
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
)

// partOf writes a part of the lines of the day to a log, for tests that decide each line many
// times.
func partOf(t *testing.T, every int) (path string) {
	t.Helper()
	f, err := os.Open(nasa)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var part strings.Builder
	for i, line := range slices.Collect(strings.Lines(string(text))) {
		if i%every == 0 {
			part.WriteString(line)
		}
	}
	path = filepath.Join(t.TempDir(), "part.log")
	if err := os.WriteFile(path, []byte(part.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The order of the lines of a log changes no advice: neither if its halves are swapped, nor if it
// is shuffled within ten minutes.
func TestDisorder(t *testing.T) {
	text, err := os.ReadFile(partOf(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(text)))
	half := len(lines) / 2
	logs := map[string][]string{
		"in order": lines, "halves swapped": append(slices.Clone(lines[half:]), lines[:half]...), "shuffled": shuffled(t, lines),
	}
	limit := []string{"--capacity", "5", "--leak-rate", "0.1", "--json"}
	var want sizeJSON
	var wantReplay replayJSON
	for _, name := range []string{"in order", "halves swapped", "shuffled"} {
		path := filepath.Join(t.TempDir(), "access.log")
		if err := os.WriteFile(path, []byte(strings.Join(logs[name], "")), 0o600); err != nil {
			t.Fatal(err)
		}
		var got sizeJSON
		cli(t, "size", path, "--json").decode(t, &got)
		if got.Late != 0 || (got.Disorder == 0) != (name == "in order") {
			t.Errorf("size, %s: %d lines are out of order, and %d late", name, got.Disorder, got.Late)
		}
		r := cli(t, append([]string{"replay", path}, limit...)...)
		var replayed replayJSON
		r.decode(t, &replayed)
		if name == "in order" {
			want, wantReplay = got, replayed
			continue
		}
		if !slices.Equal(got.Limits, want.Limits) || *got.Limit != *want.Limit {
			t.Errorf("size, %s: the advice is %+v; in order, it is %+v", name, got.Limit, want.Limit)
		}
		if name == "halves swapped" { // replay sorts within the window alone, and tells the remedy
			if replayed.Late < 1000 || !strings.Contains(r.stderr, "--reorder 12h43m27s sorts all lines") {
				t.Errorf("replay, %s: %d lines are late: %s", name, replayed.Late, r.stderr)
			}
			r = cli(t, append([]string{"replay", path, "--reorder", "24h"}, limit...)...)
			replayed = replayJSON{}
			r.decode(t, &replayed)
		}
		if replayed.Accepted != wantReplay.Accepted || replayed.Late != 0 || r.stderr != "" {
			t.Errorf("replay, %s: %d are accepted; in order, %d: %s", name, replayed.Accepted, wantReplay.Accepted, r.stderr)
		}
		if as := cli(t, append([]string{"replay", path, "--reorder", "0s"}, limit...)...); !strings.Contains(as.stderr, "after newer ones") {
			t.Errorf("replay --reorder 0s, %s: %q does not warn", name, as.stderr)
		}
	}
}

// shuffled returns the lines of a log, each up to ten minutes late.
func shuffled(t *testing.T, lines []string) []string {
	t.Helper()
	r, err := trace.NewReader(strings.NewReader(strings.Join(lines, "")), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		text  string
		comes int64
	}
	var all []line
	random := rand.New(rand.NewPCG(1, 2))
	for {
		a, err := r.Next()
		if err == io.EOF {
			break
		}
		if errors.As(err, new(*simulate.LineError)) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line{lines[a.Line-1], a.Time + random.Int64N((10 * time.Minute).Microseconds())})
	}
	slices.SortStableFunc(all, func(x, y line) int { return cmp.Compare(x.comes, y.comes) })
	var texts []string
	for _, l := range all {
		texts = append(texts, l.text)
	}
	return texts
}
