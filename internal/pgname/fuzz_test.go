package pgname

import (
	"strings"
	"testing"
)

// FuzzNew checks arbitrary names. Quoted, they must end where they began, so that no name can add
// SQL to a statement.
func FuzzNew(f *testing.F) {
	for _, s := range []string{"", "brim", `a"b`, `"`, `""`, "a;b", "pg_x", "\x00", "\xff", strings.Repeat("x", 64), "é"} {
		f.Add(s, "buckets")
		f.Add("brim", s)
	}
	f.Fuzz(func(t *testing.T, schema, table string) {
		n, err := New(schema, table)
		if err != nil {
			if n != (Names{}) {
				t.Errorf("%q, %q: %+v, %v", schema, table, n, err)
			}
			return
		}
		for _, c := range []struct{ quoted, name string }{
			{n.Qualified(), n.Table()}, {n.QualifiedVersions(), n.Versions()},
		} {
			rest := c.quoted
			for i, want := range []string{n.Schema(), c.name} {
				if i > 0 {
					rest = strings.TrimPrefix(rest, ".")
				}
				var got string
				if got, rest = unquote(rest); got != want || len(got) > 63 {
					t.Errorf("%q, %q: part %d of %s is %q; want %q", schema, table, i, c.quoted, got, want)
				}
			}
			if rest != "" {
				t.Errorf("%q, %q: %q follows the quoted names in %s", schema, table, rest, c.quoted)
			}
		}
	})
}

// unquote reads a quoted identifier as PostgreSQL does, and returns the rest of the text.
func unquote(s string) (name, rest string) {
	s, ok := strings.CutPrefix(s, `"`)
	for ok {
		part, after, found := strings.Cut(s, `"`)
		if name += part; !found {
			return "", s
		}
		if s, ok = strings.CutPrefix(after, `"`); ok {
			name += `"`
		}
	}
	return name, s
}
