// Package pgname names brim's tables in PostgreSQL. It checks the configured schema and table,
// quotes them, and puts them, and the SQL that statements share, into statements. The backends
// and the migrator use one package, so that they cannot disagree.
package pgname

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Names that are used where none is configured.
const (
	DefaultSchema = "brim"
	DefaultTable  = "buckets"
)

// Latest is the version of the last migration of package migrations, which the backends do not
// import.
const Latest = 3

const (
	maxSchema = 63 // PostgreSQL cuts longer identifiers off, and two schemas could become one
	maxTable  = 48 // leaves room for the names that are derived from the table's
)

// Names are a schema and a table that were checked. The zero value is not valid; use [New].
type Names struct {
	schema, table string
}

// New checks the names; an empty one means its default. New takes names byte for byte: the name
// Limits is not the name limits.
func New(schema, table string) (Names, error) {
	n := Names{schema: schema, table: table}
	if n.schema == "" {
		n.schema = DefaultSchema
	}
	if n.table == "" {
		n.table = DefaultTable
	}
	if err := check("schema", n.schema, maxSchema); err != nil {
		return Names{}, err
	}
	if err := check("table", n.table, maxTable); err != nil {
		return Names{}, err
	}
	return n, nil
}

func check(kind, name string, limit int) error {
	switch {
	case len(name) > limit:
		return fmt.Errorf("%s name has %d bytes; it may have at most %d", kind, len(name), limit)
	case strings.IndexByte(name, 0) >= 0, !utf8.ValidString(name):
		return fmt.Errorf("%s name %q is not UTF-8 without NUL, which PostgreSQL requires", kind, name)
	case kind == "schema" && strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("schema name %q starts with pg_, which PostgreSQL keeps for itself", name)
	}
	return nil
}

// Schema returns the name of the schema as it stands in the catalog, unquoted.
func (n Names) Schema() string { return n.schema }

// Table returns the name of the table of buckets as it stands in the catalog, unquoted.
func (n Names) Table() string { return n.table }

// Versions returns the unquoted name of the table that records which migrations were applied.
// It is in the same schema.
func (n Names) Versions() string { return n.table + "_migrations" }

// Qualified returns the table of buckets, quoted and with its schema, for use in a statement.
func (n Names) Qualified() string { return Quote(n.schema) + "." + Quote(n.table) }

// QualifiedVersions returns the table of applied migrations, quoted and with its schema, for
// use in a statement.
func (n Names) QualifiedVersions() string { return Quote(n.schema) + "." + Quote(n.Versions()) }

// ledger are the suffixes of the tables that package spend keeps beside the buckets, of three
// indexes and of a view.
var ledger = [...]string{"accounts", "accounts_due", "entries", "entries_dated", "requests", "requests_at", "spends", "holds", "rules", "ledger"}

// Ledger returns the tables of package spend, unquoted. They are in the same schema.
func (n Names) Ledger() (tables []string) {
	for _, name := range ledger {
		if name != "accounts_due" && name != "entries_dated" && name != "requests_at" && name != "ledger" {
			tables = append(tables, n.table+"_"+name)
		}
	}
	return tables
}

// functions are the functions by which sessions share buckets. No name continues another one's with
// a low line, so the functions of two tables never have one name.
var functions = [...]string{
	"decide", "parse_limit", "period_start", "period_at", "apply_limit", "try_fillup", "fillup", "able_to_accept",
	"drain", "state", "block", "unblock",
}

// function returns the unquoted name of a function for the table: the name itself for the default
// table, and else with the table's behind it, as in try_fillup_limits.
func (n Names) function(name string) string {
	if n.table == DefaultTable {
		return name
	}
	return name + "_" + n.table
}

// dollar returns a quote for the body of a function in which the names stand.
func (n Names) dollar() string {
	tag := "brim"
	for strings.Contains(n.schema+" "+n.table, "$"+tag+"$") {
		tag += "_"
	}
	return "$" + tag + "$"
}

// Entries returns the table of entries, unquoted.
func (n Names) Entries() string { return n.table + "_entries" }

// QualifiedEntries returns the table of entries, quoted and with its schema, for use in a
// statement.
func (n Names) QualifiedEntries() string { return Quote(n.schema) + "." + Quote(n.Entries()) }

// Render replaces the placeholders in a statement:
//
//	{{schema}}    the schema, quoted as an identifier
//	{{table}}     the table of buckets, quoted as an identifier, without its schema
//	{{versions}}  the table of applied migrations, likewise
//	{{'schema'}}  the schema as a string literal
//	{{accounts}}, {{entries}}, {{requests}}, {{spends}}, {{holds}}, {{rules}}
//	              the tables of package spend, named after the table of buckets
//	{{accounts_due}}, {{entries_dated}}, {{requests_at}}
//	              indexes on the tables of accounts, entries and requests
//	{{ledger}}    a view of the entries
//	{{decide}}, {{try_fillup}} and so on
//	              the functions on buckets
//	{{$}}         the dollar quote around the body of a function
//
// The pairs in more are further placeholders, each with its replacement. Render does not look
// at a replacement again, so a name that reads like a placeholder stays as it is.
func (n Names) Render(sql string, more ...string) string {
	pairs := append([]string{
		"{{schema}}", Quote(n.schema),
		"{{table}}", Quote(n.table),
		"{{versions}}", Quote(n.Versions()),
		"{{'schema'}}", Literal(n.schema),
		"{{$}}", n.dollar(),
	}, more...)
	for _, name := range functions {
		pairs = append(pairs, "{{"+name+"}}", Quote(n.function(name)))
	}
	for _, name := range ledger {
		pairs = append(pairs, "{{"+name+"}}", Quote(n.table+"_"+name))
	}
	return strings.NewReplacer(pairs...).Replace(sql)
}

// Quote makes an identifier of a name.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Literal makes a string literal of s. The literal has no dollar sign, so it cannot end a
// dollar-quoted body around it. Its meaning does not depend on standard_conforming_strings.
func Literal(s string) string {
	if !strings.ContainsAny(s, `\$`) {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return "E'" + strings.NewReplacer("'", "''", `\`, `\\`, "$", `\x24`).Replace(s) + "'"
}
