package main

import (
	"os"
	"strings"
	"testing"

	"github.com/brimgo/brim/spend"
)

// The drawing in the documentation is what the code decides today, and shows what the text says.
func TestDrawingIsCurrent(t *testing.T) {
	var now strings.Builder
	if err := draw(&now); err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile("../spend.svg")
	if err != nil || string(drawn) != now.String() {
		t.Errorf("docs/spend.svg is not current; run: go run ./docs/drawspend > docs/spend.svg (%v)", err)
	}
	eur := spend.Money{Minor: limit, Currency: "EUR"}
	leaky, err := spent(spend.Leaky("month", eur, window))
	if err != nil {
		t.Fatal(err)
	}
	if worst := leaky[30*24-1]; worst < 199*limit/100 || worst > 2*limit {
		t.Errorf("a leaky bucket let %d through in its worst period; want about twice %d", worst, limit)
	}
}
