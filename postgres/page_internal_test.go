package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/docpage"
)

// TestPage: docs/internals/postgres.md names every statement, and tells the constants by which a
// lane chooses among them.
func TestPage(t *testing.T) {
	says := []string{
		fmt.Sprintf("among its last %s answers", docpage.Thousands(recent)),
		fmt.Sprintf("while fewer than one answer in %d is", rare),
	}
	entries, err := files.ReadDir("sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".sql"); ok && !strings.HasPrefix(name, "check_") {
			says = append(says, "`"+name+"`")
		}
	}
	if lacks := docpage.Lacks("../docs/internals/postgres.md", says...); lacks != "" {
		t.Error(lacks)
	}
}
