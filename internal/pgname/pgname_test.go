package pgname

import (
	"strings"
	"testing"
)

func TestNew(t *testing.T) {
	for _, c := range []struct {
		name, why     string
		schema, table string
		want          string // of Qualified; empty where the name is refused
	}{
		{"defaults", "an empty name is not configured", "", "", `"brim"."buckets"`},
		{"case and spaces", "names are taken byte for byte", "My Schema", "Bückets", `"My Schema"."Bückets"`},
		{"quotes", "a quote must not end the identifier", `a"b`, `"; DROP TABLE x; --`, `"a""b"."""; DROP TABLE x; --"`},
		{"longest", "PostgreSQL keeps 63 bytes", strings.Repeat("s", 63), "t", `"` + strings.Repeat("s", 63) + `"."t"`},
		{"long schema", "PostgreSQL would cut it off, and two schemas could become one", strings.Repeat("s", 64), "", ""},
		{"long in bytes", "the limit counts bytes, not characters", strings.Repeat("ü", 32), "", ""},
		{"long table", "derived names would be cut off", "", strings.Repeat("t", 49), ""},
		{"NUL", "the protocol ends strings there", "a\x00", "", ""},
		{"not UTF-8", "the server refuses it", "", "\xff", ""},
		{"reserved", "the server refuses it", "pg_x", "", ""},
		{"reserved for schemas only", "a table may have this prefix", "", "pg_x", `"brim"."pg_x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, err := New(c.schema, c.table)
			if c.want == "" {
				if err == nil {
					t.Errorf("accepted: %s", c.why)
				}
				return
			}
			if err != nil || n.Qualified() != c.want {
				t.Errorf("%s, %v, want %s: %s", n.Qualified(), err, c.want, c.why)
			}
		})
	}
}

func TestRender(t *testing.T) {
	n, err := New("{{table}}", `it's "{{schema}}"`)
	if err != nil {
		t.Fatal(err)
	}
	got := n.Render("{{schema}} {{table}} {{versions}} {{'schema'}} {{more}} {{unknown}}", "{{more}}", "{{table}}")
	want := `"{{table}}" "it's ""{{schema}}""" "it's ""{{schema}}""_migrations" '{{table}}' {{table}} {{unknown}}`
	if got != want {
		t.Errorf("got  %s\nwant %s: Render must not look at a replacement again", got, want)
	}
}

// TestFunctionNames: PostgreSQL would cut longer names off, and try_fillup of the default table
// could be fillup of a table called try.
func TestFunctionNames(t *testing.T) {
	n, err := New("", strings.Repeat("t", maxTable))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range functions {
		if got := n.function(name); len(got) > 63 {
			t.Errorf("%s has %d bytes; 63 are the most", got, len(got))
		}
		for _, other := range functions {
			if strings.HasPrefix(other, name+"_") {
				t.Errorf("%s is also %s of the table %s", other, name, strings.TrimPrefix(other, name+"_"))
			}
		}
	}
}

func TestLiteral(t *testing.T) {
	for in, want := range map[string]string{
		"brim":   "'brim'",
		"it's":   "'it''s'",
		`a\b'c`:  `E'a\\b''c'`,
		"$brim$": `E'\x24brim\x24'`,
	} {
		if got := Literal(in); got != want {
			t.Errorf("Literal(%q) is %s, want %s", in, got, want)
		}
	}
}
