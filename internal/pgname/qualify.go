package pgname

import (
	"slices"
	"strings"
)

// Qualify writes pg_catalog before every operator, function, type and collation of a statement. A
// session can have a search_path on which another schema comes before pg_catalog; that schema
// could define, say, its own <= for float8, and every bucket would accept any amount.
//
// OPERATOR(pg_catalog.+) has one precedence, whatever the operator, so Qualify puts parentheses
// around each operation. It reads the SQL of brim's own files: a function's name has no space
// before its parenthesis, and an alias has one. GREATEST, COALESCE, CASE, IS NULL and ORDER BY do
// not look at the search_path. IN, BETWEEN, LIKE, USING and IS DISTINCT FROM do, and cannot be
// qualified; see "Parser" in the manual of PostgreSQL, chapter 4.2, for OPERATOR.
func Qualify(sql string) string {
	q := qualifier{tokens: tokenize(sql)}
	return q.level("")
}

// token is a piece of SQL with the white space and the comments before it.
type token struct {
	space, text string
	kind        kind
}

type kind uint8

const (
	word     kind = iota // a name, keyword, number, parameter, placeholder or literal
	operator             // such as <=
	open                 // ( [ or CASE
	end                  // ) ] or END
	mark                 // , . ; : ::
)

const operatorChars = "+-*/<>=~!@#%^&|`?"

// tokenize splits SQL.
func tokenize(sql string) (list []token) {
	for at := 0; at < len(sql); {
		start := at
		for at < len(sql) && (strings.IndexByte(" \t\n", sql[at]) >= 0 || strings.HasPrefix(sql[at:], "--")) {
			if sql[at] == '-' {
				at += len(line(sql[at:]))
			} else {
				at++
			}
		}
		t := token{space: sql[start:at]}
		start = at
		switch rest := sql[at:]; {
		case rest == "":
			t.kind = mark
		case strings.HasPrefix(rest, "{{"):
			at += strings.Index(rest, "}}") + 2
		case rest[0] == '\'' || rest[0] == '"':
			at += 2 + strings.IndexByte(rest[1:], rest[0])
		case strings.HasPrefix(rest, "::"):
			t.kind, at = mark, at+2
		case strings.IndexByte(",.;:", rest[0]) >= 0:
			t.kind, at = mark, at+1
		case rest[0] == '(' || rest[0] == '[':
			t.kind, at = open, at+1
		case rest[0] == ')' || rest[0] == ']':
			t.kind, at = end, at+1
		case strings.IndexByte(operatorChars, rest[0]) >= 0:
			t.kind, at = operator, at+span(rest, func(c byte) bool { return strings.IndexByte(operatorChars, c) >= 0 })
		default:
			at += max(1, span(rest, func(c byte) bool {
				return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
			}))
			if n := number(rest); n > 0 {
				at = start + n
			}
		}
		t.text = sql[start:at]
		switch t.text {
		case "CASE":
			t.kind = open
		case "END":
			t.kind = end
		}
		list = append(list, t)
	}
	return list
}

func line(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return s[:i+1]
	}
	return s
}

func span(s string, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

// number returns the length of a number such as 1e6 or 0.5 at the beginning of s.
func number(s string) int {
	if s[0] < '0' || s[0] > '9' {
		return 0
	}
	return span(s, func(c byte) bool { return c == '.' || c == 'e' || c >= '0' && c <= '9' })
}

// keywords are the words that end an expression, or stand before a parenthesis without being a
// function.
var keywords = strings.Fields(`SELECT FROM WHERE AND OR NOT WHEN THEN ELSE AS ON SET BY LIMIT OFFSET IS NULL
	UNION ALL WITH MATERIALIZED INSERT INTO VALUES CONFLICT DO UPDATE DELETE RETURNING ORDER GROUP HAVING JOIN
	LEFT CROSS INNER LATERAL ORDINALITY USING FOR OF SKIP LOCKED NO KEY SHARE DISTINCT ASC DESC NOTHING
	COALESCE GREATEST LEAST ARRAY ANY EXISTS ROW CASE NULLS FIRST LAST`)

// prefixes are the keywords that begin an operand.
var prefixes = strings.Fields("COALESCE GREATEST LEAST ARRAY ANY EXISTS ROW NULL")

// types are the names of types that stand in statements as they are in the catalog. Others, such
// as bigint, are keywords of SQL.
var types = strings.Fields("text float8 timestamptz int4 int8 bytea jsonb tid regclass bool")

// qualifier rewrites tokens.
type qualifier struct {
	tokens []token
	at     int
}

func (q *qualifier) peek() token {
	if q.at < len(q.tokens) {
		return q.tokens[q.at]
	}
	return token{kind: end}
}

func (q *qualifier) next() token {
	t := q.peek()
	q.at++
	return t
}

// level rewrites the tokens up to the one that closes the level, which it leaves.
func (q *qualifier) level(opener string) string {
	var out strings.Builder
	assigns := false // within SET, the first = of each item is no operator
	fresh := false
	for q.at < len(q.tokens) {
		switch t := q.peek(); {
		case t.kind == end:
			return out.String()
		case t.kind == mark, t.kind == word && slices.Contains(keywords, t.text) && !slices.Contains(prefixes, t.text):
			q.at++
			out.WriteString(t.space + t.text)
			switch t.text {
			case "SET":
				assigns, fresh = true, true
			case "FROM", "WHERE", "RETURNING":
				assigns = false
			case ",":
				fresh = assigns
			}
		case fresh:
			fresh = false
			out.WriteString(q.operand())
			if t := q.peek(); t.text == "=" {
				q.at++
				out.WriteString(t.space + t.text)
			}
		case opener == "" && t.text == "*", t.text == "*" && q.star():
			q.at++
			out.WriteString(t.space + t.text)
		default:
			out.WriteString(q.expression(0))
		}
	}
	return out.String()
}

// star reports that the * at hand stands for all columns.
func (q *qualifier) star() bool { return q.at > 0 && q.tokens[q.at-1].text == "." }

// precedence returns the binding strength of a binary operator; see the table in chapter 4.1.6 of
// PostgreSQL's manual.
func precedence(op string) int {
	switch op {
	case "*", "/", "%":
		return 4
	case "+", "-":
		return 3
	case "<", ">", "=", "<=", ">=", "<>":
		return 1
	}
	return 2
}

// expression rewrites operands and the operators between them that bind at least as strong as
// least.
func (q *qualifier) expression(least int) string {
	left := q.operand()
	for {
		t := q.peek()
		if t.kind != operator || precedence(t.text) < least {
			return left
		}
		q.at++
		right := q.expression(precedence(t.text) + 1)
		space, bare := cut(left)
		left = space + "(" + bare + t.space + "OPERATOR(pg_catalog." + t.text + ")" + right + ")"
	}
}

// cut separates the white space and the comments before a piece of SQL from it.
func cut(sql string) (space, rest string) {
	t := tokenize(sql)[0]
	return t.space, sql[len(t.space):]
}

// operand rewrites a name, a literal, a call, a CASE or a parenthesis, with its casts and
// subscripts.
func (q *qualifier) operand() string {
	t := q.next()
	var out strings.Builder
	out.WriteString(t.space)
	switch {
	case t.kind == operator && q.peek().space == "" && number(q.peek().text+" ") > 0:
		out.WriteString(t.text + q.next().text) // a negative number
	case t.kind == operator:
		return t.space + "(OPERATOR(pg_catalog." + t.text + ") " + q.expression(5) + ")"
	case t.kind == open:
		out.WriteString(t.text + q.level(t.text))
		closed := q.next()
		out.WriteString(closed.space + closed.text)
	case slices.Contains(types, t.text) && strings.HasPrefix(q.peek().text, "'"):
		literal := q.next()
		out.WriteString("pg_catalog." + t.text + literal.space + literal.text) // timestamptz 'epoch'
	case t.text == "interval" && strings.HasPrefix(q.peek().text, "'"):
		literal := q.next()
		out.WriteString(t.text + literal.space + literal.text)
	case q.isCall(t):
		out.WriteString("pg_catalog." + t.text)
	default:
		out.WriteString(t.text)
	}
	for {
		switch t := q.peek(); {
		case t.text == "." || t.text == "::":
			q.at++
			out.WriteString(t.space + t.text)
			name := q.next()
			if t.text == "::" && slices.Contains(types, name.text) {
				out.WriteString("pg_catalog.")
			}
			out.WriteString(name.space + name.text)
		case t.kind == open && t.text != "CASE" && (t.space == "" || q.joins()):
			q.at++
			out.WriteString(t.space + t.text + q.level(t.text))
			closed := q.next()
			out.WriteString(closed.space + closed.text)
		case t.text == "COLLATE":
			q.at++
			name := q.next()
			out.WriteString(t.space + t.text + name.space + "pg_catalog." + name.text)
		default:
			return out.String()
		}
	}
}

// joins reports that a parenthesis after a space belongs to the keyword before it, as in ANY (...).
func (q *qualifier) joins() bool { return slices.Contains(prefixes, q.tokens[q.at-1].text) }

// isCall reports that t names a function, which has its parenthesis at once. The parser itself
// qualifies unnest with several arguments, and does not know it with a schema.
func (q *qualifier) isCall(t token) bool {
	p := q.peek()
	if t.kind != word || p.text != "(" || p.space != "" || slices.Contains(keywords, t.text) {
		return false
	}
	if t.text != "unnest" {
		return true
	}
	depth := 0
	for _, next := range q.tokens[q.at:] {
		switch {
		case next.kind == open:
			depth++
		case next.kind == end:
			depth--
		}
		if depth == 0 {
			break
		}
		if depth == 1 && next.text == "," {
			return false
		}
	}
	return true
}
