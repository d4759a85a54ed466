package main

import (
	"os"
	"strings"
	"testing"
)

// docs/algorithms.md shows the output of the program.
func TestHierarchy(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/algorithms.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "$ go run ./examples/hierarchy\n" + out.String() + "```"; !strings.Contains(string(page), want) {
		t.Errorf("docs/algorithms.md does not show\n%s", out.String())
	}
}
