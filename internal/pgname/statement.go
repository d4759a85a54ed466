package pgname

import "strings"

// Statement makes a statement for these names from the text of its file: it puts the fragments
// into the text, replaces the placeholders, and labels it. See [Expand] and [Names.Render]. Every
// statement of the backends is made here.
//
// The search_path of a session can name a schema with operators and functions of its own. The
// server takes those of pg_catalog, which it searches first, wherever the types match exactly. It
// takes others for types that match only by a conversion: float8 * numeric has no operator in
// pg_catalog. So the texts cast each constant to the type that its operator or function has in
// pg_catalog, and write pg_catalog before unnest, whose parameter matches any array.
func (n Names) Statement(label, sql string, fragments []Fragment, more ...string) string {
	return labelled(label, n.Render(Expand(sql, fragments...), more...))
}

// labelled replaces the comments in front of a statement, which are for readers of its file, by a
// short one that tells operators of a server whose statement it is: in pg_stat_statements, in
// pg_stat_activity and in the log. The comment stands behind the first word, because a server may
// keep a statement without the comments in front of it.
func labelled(label, sql string) string {
	for strings.HasPrefix(sql, "--") {
		_, sql, _ = strings.Cut(sql, "\n")
	}
	end := strings.IndexAny(sql, " \n")
	if end < 0 {
		end = len(sql)
	}
	return sql[:end] + " /* brim:" + label + " */" + sql[end:]
}
