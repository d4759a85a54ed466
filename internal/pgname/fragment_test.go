package pgname

import "testing"

func TestExpand(t *testing.T) {
	fragments := []Fragment{
		ParseFragment("-- clock(injected)\n--\n-- The clock.\nCOALESCE({injected}::timestamptz, now())\n"),
		ParseFragment("-- left(row, rate, clock)\n{row}.level - {rate} * ({clock} - {row}.atime)\n"),
		ParseFragment("-- fits(row, n)\n{{left({row}, $4, {{clock($5)}})}} + {n} <= 1"),
		ParseFragment("-- all()\na = 1,\nb = 2\n"),
	}
	for _, c := range []struct{ name, why, sql, want string }{
		{"one", "the arguments stand where the parameters stood", "SELECT {{clock($1)}}", "SELECT COALESCE($1::timestamptz, now())"},
		{"no parameters", "a fragment of several lines stays as it is", "SET {{all()}} WHERE", "SET a = 1,\nb = 2 WHERE"},
		{
			"argument with commas", "commas in parentheses and brackets separate nothing",
			"{{left(t, f(a, b)[1, 2], now)}}", "t.level - f(a, b)[1, 2] * (now - t.atime)",
		},
		{
			"argument over lines", "white space around an argument is not part of it",
			"{{left(t,\n       $4,\n       now)}}", "t.level - $4 * (now - t.atime)",
		},
		{
			"nested", "the innermost is expanded first, in statements and in fragments",
			"{{fits(t, {{clock($9)}})}}",
			"t.level - $4 * (COALESCE($5::timestamptz, now()) - t.atime) + COALESCE($9::timestamptz, now()) <= 1",
		},
		{"unknown name", "the mistake shows in the statement", "{{none(t)}}", "{{none(t)}}"},
		{"too few arguments", "the mistake shows in the statement", "{{fits(t)}}", "{{fits(t)}}"},
		{"a name without parentheses", "it is a table's, for Render", "{{schema}}.{{table}}", "{{schema}}.{{table}}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Expand(c.sql, fragments...); got != c.want {
				t.Errorf("got  %s\nwant %s: %s", got, c.want, c.why)
			}
		})
	}
}
