package postgres

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/pgname"
)

// TestFunctionsShareFragments: the functions of the migrations have the text of the fragments that
// the statements use. A migration is a text that no release changes, so it contains them instead of
// being rendered from them.
func TestFunctionsShareFragments(t *testing.T) {
	text, err := os.ReadFile("../migrations/0003_functions.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	words := func(sql string) string { return strings.Join(strings.Fields(sql), " ") }
	used := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^ *-- ((\w+)\(.*\)):$`).FindAllSubmatchIndex(text, -1) {
		call, rest := string(text[m[2]:m[3]]), words(string(text[m[1]:]))
		used[string(text[m[4]:m[5]])] = true
		if want := words(pgname.Expand("{{"+call+"}}", fragments()...)); !strings.HasPrefix(rest, want) {
			t.Errorf("behind %s stands\n%.300s\nwant\n%s", call, rest, want)
		}
	}
	for _, name := range []string{"intact", "in_period", "leaked", "time_to_store"} {
		if !used[name] {
			t.Errorf("no function uses the fragment %s", name)
		}
	}
}
