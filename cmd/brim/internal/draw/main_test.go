package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// docs is the folder of the documentation, seen from this package.
var docs = filepath.Join("..", "..", "..", "..", "docs")

// TestPicturesAreCurrent compares the pictures of the documentation with those that the program
// writes.
func TestPicturesAreCurrent(t *testing.T) {
	dir := t.TempDir()
	if err := drawAll(t.Context(), dir); err != nil {
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
