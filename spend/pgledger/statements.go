package pgledger

import (
	"embed"
	"io/fs"
	"strings"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
)

//go:embed sql/*.sql
var files embed.FS

// fragments are pieces that several statements share.
var fragments = []string{
	// The columns of an entry in the order of entryRow.fields. Every reader knows the account.
	`-- columns(e)
	{{instant({e}.at)}}, {{instant(COALESCE({e}.dated, {e}.at))}}, {e}.seq, COALESCE({e}.part, {e}.seq),
	COALESCE({e}.used, 0::bigint), COALESCE({e}.held, 0::bigint), COALESCE({e}.amount, {e}.used, {e}.held, 0::bigint),
	COALESCE({e}.spend_amount, {e}.amount, {e}.used, {e}.held, 0::bigint),
	COALESCE({e}.asked, 0::bigint), COALESCE({e}.least, 0::bigint), COALESCE({e}.ttl, 0::bigint), {{instant({e}.expires)}}, {e}.kind,
	COALESCE({e}.spends, 0::smallint), COALESCE({e}.pending, 0::smallint), {e}.currency, {{octets({e}.id)}},
	{{octets(COALESCE({e}.spend, {e}.id))}}, {e}.tags, {e}.refused, {e}.credited`,
	// The columns of an entry that one of two parts has found, in the order of listed.fields.
	`-- listed(e)
	{e}.corrects, {{columns({e})}}`,
	// The ids of the accounts of a request, and nulls.
	`-- ids(r)
	pg_catalog.array_cat(ARRAY[{r}.account, {r}.also], {r}.more)`,
	// The keys of the accounts of a request, in their order.
	`-- owners(r)
	SELECT k.key FROM pg_catalog.unnest({{ids({r})}}) WITH ORDINALITY AS u (id, i)
	CROSS JOIN LATERAL (SELECT k.key FROM {{schema}}.{{accounts}} AS k WHERE k.id = u.id OFFSET 0) AS k ORDER BY u.i`,
	// The keys $1 of accounts, and those of the accounts of spends.
	`-- keys(spends)
	pg_catalog.array_cat($1::text[], ARRAY(SELECT o.key FROM {{schema}}.{{requests}} AS r CROSS JOIN LATERAL ({{owners(r)}}) AS o
	                                       WHERE r.id = ANY ({spends}::bytea[])))`,
	// The columns of a request in the order of scanRequest, with its spend as it is now.
	`-- request(r)
	{{octets({r}.id)}}, {{instant({r}.at)}}, ARRAY({{owners({r})}}), {{octets({r}.content)}}, {{octets({r}.answer)}},
	encode(COALESCE((SELECT s.spend FROM {{schema}}.{{spends}} AS s WHERE s.id = {r}.id), {r}.spend), 'hex'::text)`,
	// The columns of rules in the order of revision.fields, and of none.
	`-- revision(r, text)
	{r}.budget, {r}.seq, {r}.revision, {{instant({r}.at)}}, {r}.held, {r}."by", {r}.reason, {{octets({r}.digest)}}, {text}`,
	`-- no_rules()
	''::text, 0::bigint, 0::bigint, NULL::text, false, ''::text, ''::text, NULL::text, NULL::text`,
}

// alone are the keys $1 of accounts, in the statements of a batch without spends.
const alone = `-- keys(spends)
	$1::text[]`

// newStatements renders the statements, by the names of their files. The plans that the server
// keeps for them never read a whole table: they follow plan.sql, or are sent by
// [pgrun.Runner.QueryByIndex] and its kin. A statement that looks for the accounts of spends has a
// second form, alone, that lacks the argument: to begin such a search that finds nothing takes the
// server some microseconds, and a charge names no spend.
func newStatements(names pgname.Names) map[string]string {
	shared := pgrun.Fragments()
	for _, text := range fragments {
		shared = append(shared, pgname.ParseFragment(text))
	}
	bare := append([]pgname.Fragment{pgname.ParseFragment(alone)}, shared...)
	paths, _ := fs.Glob(files, "sql/*.sql") // embedded, as the files are
	all := make(map[string]string)
	for _, path := range paths {
		raw, _ := files.ReadFile(path)
		name := strings.TrimSuffix(strings.TrimPrefix(path, "sql/"), ".sql")
		forms := map[string]string{name: string(raw)}
		if name == "accounts" {
			forms["take"] = string(raw) + "FOR NO KEY UPDATE OF a{{skip}}"
		}
		for name, sql := range forms {
			label, skip := "ledger."+name, ""
			for _, form := range []string{"", ", skipping"} {
				all[name+form] = names.Statement(label, sql, shared, "{{skip}}", skip)
				all[name+form+", alone"] = names.Statement(label, sql, bare, "{{skip}}", skip)
				skip = " SKIP LOCKED"
			}
		}
	}
	return all
}
