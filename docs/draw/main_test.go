package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The pictures in the guide are what the code draws now.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	if err := write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for name := range pictures {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(filepath.Join("..", name))
		if err != nil || string(kept) != string(got) {
			t.Errorf("docs/%s is not what is drawn (%v); in docs/draw, run: go run . ..", name, err)
		}
	}
}
