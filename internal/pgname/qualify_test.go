package pgname

import "testing"

func TestQualify(t *testing.T) {
	for _, c := range []struct{ name, why, sql, want string }{
		{
			"precedence", "OPERATOR has one precedence for all, so parentheses keep the meaning", "SELECT a + b * c - d <= e",
			"SELECT (((a OPERATOR(pg_catalog.+) (b OPERATOR(pg_catalog.*) c)) OPERATOR(pg_catalog.-) d) OPERATOR(pg_catalog.<=) e)",
		},
		{"function", "a schema in front could have its own", "SELECT round(x)", "SELECT pg_catalog.round(x)"},
		{
			"syntax", "these are no functions", "SELECT GREATEST(0, COALESCE(a, 1)) FROM u AS t (a)",
			"SELECT GREATEST(0, COALESCE(a, 1)) FROM u AS t (a)",
		},
		{
			"several arrays", "the parser knows this form without a schema alone, and qualifies it itself",
			"FROM unnest(a, b) AS u (x, y), unnest(f(a, b)) AS v (x)", "FROM unnest(a, b) AS u (x, y), pg_catalog.unnest(pg_catalog.f(a, b)) AS v (x)",
		},
		{"types", "bigint is a keyword", "SELECT $1::text[], $2::bigint, timestamptz 'epoch'", "SELECT $1::pg_catalog.text[], $2::bigint, pg_catalog.timestamptz 'epoch'"},
		{
			"assignments", "the first = of an item is none", "UPDATE t SET a = b = c, (d, e) = (SELECT 1, x + 1) WHERE f = g",
			"UPDATE t SET a = (b OPERATOR(pg_catalog.=) c), (d, e) = (SELECT 1, (x OPERATOR(pg_catalog.+) 1)) WHERE (f OPERATOR(pg_catalog.=) g)",
		},
		{
			"case", "CASE and END are parentheses", "a + CASE WHEN b > 0 THEN -1 ELSE -c END",
			"(a OPERATOR(pg_catalog.+) CASE WHEN (b OPERATOR(pg_catalog.>) 0) THEN -1 ELSE (OPERATOR(pg_catalog.-) c) END)",
		},
		{
			"arrays", "subscripts and slices have expressions", "($8::float8[])[i + 1 : j - 1] = ANY (ARRAY(SELECT k))",
			"(($8::pg_catalog.float8[])[(i OPERATOR(pg_catalog.+) 1) : (j OPERATOR(pg_catalog.-) 1)] OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT k)))",
		},
		{"cast of a parenthesis", "the cast binds first", "(-e.pre)::int4 - 1", "(((OPERATOR(pg_catalog.-) e.pre))::pg_catalog.int4 OPERATOR(pg_catalog.-) 1)"},
		{
			"null", "IS binds less than a comparison", "a IS NULL OR b <= GREATEST(c, d) AND NOT e",
			"a IS NULL OR (b OPERATOR(pg_catalog.<=) GREATEST(c, d)) AND NOT e",
		},
		{"collation", "a schema in front could have its own", `ORDER BY k.key COLLATE "C"`, `ORDER BY k.key COLLATE pg_catalog."C"`},
		{"names and comments", "they stay", "-- a + b\nSELECT e.*, {{schema}}.{{table}}, '1 + 1' FROM \"a-b\" -- c <= d\n", "-- a + b\nSELECT e.*, {{schema}}.{{table}}, '1 + 1' FROM \"a-b\" -- c <= d\n"},
		{"comment before an operand", "the parenthesis comes after it", "WHERE -- why\n a = b", "WHERE -- why\n (a OPERATOR(pg_catalog.=) b)"},
		{"numbers", "an exponent and a point belong to them", "SELECT x * 1e6 / 0.5", "SELECT ((x OPERATOR(pg_catalog.*) 1e6) OPERATOR(pg_catalog./) 0.5)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Qualify(c.sql); got != c.want {
				t.Errorf("got  %s\nwant %s\n%s", got, c.want, c.why)
			}
		})
	}
}
