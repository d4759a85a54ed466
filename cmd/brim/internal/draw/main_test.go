package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/spend"
)

// docs is the folder of the documentation, seen from this package.
var docs = filepath.Join("..", "..", "..", "..", "docs")

// TestPicturesAreCurrent compares the pictures of the documentation with those that the program
// writes.
func TestPicturesAreCurrent(t *testing.T) {
	dir := t.TempDir()
	var stderr strings.Builder
	if err := run(t.Context(), []string{"-docs", dir}, &stderr); err != nil {
		t.Fatal(err)
	}
	for _, name := range pictureNames(t, dir) {
		drawn, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if kept, err := os.ReadFile(filepath.Join(docs, name)); err != nil || string(kept) != string(drawn) {
			t.Errorf("docs/%s differs from the picture that the program draws (%v); run: make pictures", name, err)
		}
	}
	if kept, drawn := pictureNames(t, docs), pictureNames(t, dir); !slices.Equal(kept, drawn) || len(drawn) != len(guides) {
		t.Errorf("the pictures of docs are %v; the program draws %v", kept, drawn)
	}
}

func TestWrongArguments(t *testing.T) {
	dir := t.TempDir()
	var stderr strings.Builder
	for _, args := range [][]string{{"-docs", filepath.Join(dir, "missing")}, {"extra"}, {"-nonsense"}} {
		if err := run(t.Context(), args, &stderr); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func pictureNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".svg") {
			names = append(names, e.Name())
		}
	}
	return names
}

// The text beside the picture says that a leaky bucket lets about twice its limit through in its
// first period.
func TestLeakyLetsAboutTwiceTheLimitThrough(t *testing.T) {
	leaky, err := spent(t.Context(), spend.Leaky("month", spendLimit, spendWindow))
	if err != nil {
		t.Fatal(err)
	}
	limit := spendLimit.Minor
	if worst := leaky[30*24-1]; worst < 199*limit/100 || worst > 2*limit {
		t.Errorf("a leaky bucket lets %d through in its first period; want about twice %d", worst, limit)
	}
}
