package pgledger

import (
	"embed"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
)

//go:embed sql/*.sql
var files embed.FS

// fragments are pieces that several statements share.
var fragments = []string{
	// The columns of an entry in the order of entryRow.fields. Every reader knows the account.
	`-- columns(e)
	{{instant({e}.at)}}, {{instant({e}.dated)}}, {e}.seq, {e}.part, {e}.used, {e}.held, {e}.amount, {e}.spend_amount,
	{e}.kind, {e}.spends, {e}.currency, {{octets({e}.id)}}, {{octets({e}.spend)}}, {e}.tags, {e}.refused, {e}.credited`,
	// The keys of the accounts of a request, in their order.
	`-- owners(r)
	SELECT k.key FROM pg_catalog.unnest(pg_catalog.array_cat(ARRAY[{r}.account], {r}.also)) WITH ORDINALITY AS u (id, i)
	CROSS JOIN LATERAL (SELECT k.key FROM {{schema}}.{{accounts}} AS k WHERE k.id = u.id OFFSET 0) AS k ORDER BY u.i`,
	// The columns of a request in the order of scanRequest, with its spend as it is now.
	`-- request(r)
	{{octets({r}.id)}}, {{instant({r}.at)}}, ARRAY({{owners({r})}}), {{octets({r}.content)}}, {{octets({r}.answer)}},
	encode(COALESCE((SELECT s.spend FROM {{schema}}.{{spends}} AS s WHERE s.id = {r}.id), {r}.spend), 'hex'::text)`,
}

// statements are the ledger's statements for one schema and table.
type statements struct {
	plan, accounts, take, create, begun, owners, requests, watched, probe string
	tryAccount, tryRequest                                                string
	entries, since, history, holds, list                                  string
	save, append, answer, open, unhold, spends, drop, unused, forget      string
}

// newStatements renders the statements. The plans that the server keeps for them never read a whole
// table: they follow plan.sql, or are sent by [pgrun.Runner.QueryByIndex] and its kin.
func newStatements(names pgname.Names) *statements {
	shared := pgrun.Fragments()
	for _, text := range fragments {
		shared = append(shared, pgname.ParseFragment(text))
	}
	labelled := func(label, name, more string) string {
		raw, err := files.ReadFile("sql/" + name + ".sql")
		if err != nil {
			panic(err) // embedded: the program would not have been built without it
		}
		return names.Statement("ledger."+label, string(raw)+more, shared)
	}
	text := func(name string) string { return labelled(name, name, "") }
	return &statements{
		plan: text("plan"), accounts: text("accounts"), take: labelled("take", "accounts", "FOR NO KEY UPDATE OF a"),
		create: text("create"), begun: text("begun"), owners: text("owners"), requests: text("requests"), watched: text("watched"),
		probe: text("probe"), tryAccount: text("try_account"), tryRequest: text("try_request"),
		entries: text("entries"), since: text("since"), history: text("history"), holds: text("holds"), list: text("list"),
		save: text("save"), append: text("append"), answer: text("answer"), open: text("open"), unhold: text("unhold"),
		spends: text("spends"), drop: text("drop"), unused: text("unused"), forget: text("forget"),
	}
}
