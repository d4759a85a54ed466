package pgledger

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/docpage"
	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/migrations"
)

// TestKinds compares the numbers of kinds with those of the view, which the migrations make.
func TestKinds(t *testing.T) {
	files, err := migrations.Files(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(files, "0002_ledger.up.sql")
	if list := "'{" + strings.Join(kinds, ",") + "}'"; err != nil || !strings.Contains(string(text), list) {
		t.Errorf("the view has another list of kinds than %s, %v", list, err)
	}
}

// TestIDs stores IDs of every form: each comes back, no two are the same bytes, and a UUID takes
// 16.
func TestIDs(t *testing.T) {
	const uuid = "0190b2a4-5c1e-7abc-8def-001122334455"
	plain := strings.ReplaceAll(uuid, "-", "")
	seen := make(map[string]string)
	for _, c := range []struct {
		id, why string
		size    int
	}{
		{"", "a declined entry has no spend", 0},
		{"pay-1", "any text", 5},
		{uuid, "a UUID", 16},
		{plain, "a UUID without its dashes", 17},
		{strings.ToUpper(uuid), "capitals are another ID", 36},
		{strings.ToUpper(plain), "capitals are another ID", 32},
		{uuid[:35] + "x", "no UUID", 36},
		{uuid[:9] + "-" + uuid[10:], "dashes in wrong places", 36},
		{"sixteen bytes ID", "a text as long as a UUID", 18},
		{"a text, 17 bytes.", "a text as long as a UUID without dashes", 17},
		{"a text, 18 bytes..", "a text as long as the one of 16 bytes", 18},
		{strings.Repeat("00", 16), "zeros", 17},
		{plain[:30], "fewer digits", 30},
	} {
		raw := idBytes(c.id)
		if got := idText(raw); got != c.id || len(raw) != c.size {
			t.Errorf("%s: %q takes %d bytes and comes back as %q; want %d bytes", c.why, c.id, len(raw), got, c.size)
		}
		if other, known := seen[string(raw)]; known {
			t.Errorf("%s: %q is stored like %q", c.why, c.id, other)
		}
		seen[string(raw)] = c.id
	}
	lacks := docpage.Lacks("../../docs/internals/ledger.md",
		fmt.Sprintf("| a UUID in lower case, with its dashes | its %d bytes |", len(idBytes(uuid))),
		fmt.Sprintf("| 32 hexadecimal digits in lower case | a zero, and %d bytes |", len(idBytes(plain))-1),
		fmt.Sprintf("| another text of 16 bytes | %s zeros, and the text |", map[int]string{18: "two"}[len(idBytes("sixteen bytes ID"))]),
	)
	if lacks != "" {
		t.Error(lacks)
	}
}

// TestPage: docs/internals/spend.md names every statement, and docs/internals/ledger.md tells the
// number of tables and of the holds in a row of an account.
func TestPage(t *testing.T) {
	names, err := pgname.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	words := map[int]string{4: "four", 6: "six"}
	lacks := docpage.Lacks("../../docs/internals/ledger.md",
		"in "+words[len(names.Ledger())]+" tables", "up to "+words[mostHolds]+" open holds",
		map[int]string{4: "the fifth and further open holds"}[mostHolds])
	if lacks != "" {
		t.Error(lacks)
	}
	var says []string
	entries, err := fs.ReadDir(files, "sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		says = append(says, "`"+strings.TrimSuffix(e.Name(), ".sql")+"`")
	}
	if lacks = docpage.Lacks("../../docs/internals/spend.md", says...); lacks != "" {
		t.Error(lacks)
	}
}
