package docpage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "A batch has at most\n16,384 changes.\n\n| name | bytes | |\n| --- | --- | --- |\n" +
		"| one | 7 | 120 |\n| two | 8 | 1,190 to 2.5 |\n| none | 9 | less |\n| pair | none |\n| pair | 10 |\n| pair | 11 |\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for sentence, lacks := range map[string]bool{
		"at most " + Thousands(16_384) + " changes": false, "at most " + Thousands(16_385) + " changes": true,
		"| one | 7 | 120 |": false, "| one | 7 | 12 |": true, "": true,
	} {
		if got := Lacks(page, "A batch", sentence); strings.Contains(got, sentence) != lacks || (got != "") != lacks {
			t.Errorf("%q: %q; want it to be reported: %t", sentence, got, lacks)
		}
	}
	if Lacks(page+"x", "A batch") == "" {
		t.Error("a page that does not exist has a sentence")
	}
	for _, c := range []struct {
		name string
		cell int
		want []float64
	}{
		{"one", 1, []float64{7}},
		{"one", 2, []float64{120}},
		{"two", 2, []float64{1190, 2.5}},
		{"pair", 1, []float64{10}},
		{"none", 2, nil},
		{"absent", 1, nil},
		{"one", 3, nil},
	} {
		if got, err := Figures(page, c.name, c.cell); !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%s, %d: %v, %v; want %v", c.name, c.cell, got, err, c.want)
		}
	}
	if _, err := Figures(page+"x", "one", 1); err == nil {
		t.Error("a page that does not exist has figures")
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 16_384: "16,384", 1_000_001: "1,000,001"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is written %s; want %s", n, got, want)
		}
	}
}
