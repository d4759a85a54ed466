package pgname

import (
	"regexp"
	"strings"
)

// Fragment is a piece of SQL that several statements share. In a statement, {{leaked(t, $4,
// c.now)}} stands for the fragment called leaked. Its SQL names each parameter in braces, as in
// {row}.level, and may use other fragments.
type Fragment struct {
	name   string
	params []string
	sql    string
}

// ParseFragment reads a fragment from the text of its file. The file begins with a comment
// whose first line is "-- name(parameter, parameter)"; the SQL follows the comment.
func ParseFragment(text string) Fragment {
	first, _, _ := strings.Cut(text, "\n")
	name, params, _ := strings.Cut(strings.TrimPrefix(first, "-- "), "(")
	params, _, _ = strings.Cut(params, ")")
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return Fragment{name: name, params: split(params), sql: strings.TrimSpace(text)}
}

// call matches a fragment without another inside it.
var call = regexp.MustCompile(`\{\{(\w+)\(([^{}]*)\)\}\}`)

// Expand puts fragments into a statement, the innermost first. It leaves a call of an unknown
// fragment, or one with the wrong number of arguments, as it is.
func Expand(sql string, fragments ...Fragment) string {
	expand := func(text string) string {
		m := call.FindStringSubmatch(text)
		args := split(m[2])
		for _, f := range fragments {
			if f.name != m[1] || len(f.params) != len(args) {
				continue
			}
			var pairs []string
			for i, p := range f.params {
				pairs = append(pairs, "{"+p+"}", args[i])
			}
			return strings.NewReplacer(pairs...).Replace(f.sql)
		}
		return text
	}
	for {
		next := call.ReplaceAllStringFunc(sql, expand)
		if next == sql {
			return sql
		}
		sql = next
	}
}

// split separates arguments at the commas that stand outside parentheses.
func split(args string) (list []string) {
	if args == "" {
		return nil
	}
	depth, start := 0, 0
	for i, c := range args {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				list = append(list, strings.TrimSpace(args[start:i]))
				start = i + 1
			}
		}
	}
	return append(list, strings.TrimSpace(args[start:]))
}
