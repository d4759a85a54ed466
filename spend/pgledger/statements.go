package pgledger

import (
	"embed"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
)

//go:embed sql/*.sql
var files embed.FS

// columns are the columns of an entry in the order of entryRow.fields. Every reader knows the
// account.
const columns = `-- columns(e)
	{{instant({e}.at)}}, {{instant({e}.dated)}}, {e}.seq, {e}.part, {e}.amount, {e}.used, {e}.held, {e}.spends,
	{e}.spend_amount, {e}.currency, {e}.kind, {e}.id, {e}.spend, {e}.tags, {e}.refused, {e}.credited`

// statements are the ledger's statements for one schema and table.
type statements struct {
	plan, take, takeSpends, create, lock, probe, owners string
	accounts, requests, watched                         string
	tryAccount, tryRequest                              string
	entries, since, history, holds, list                string
	store, spends, unhold, drop, unused, forget         string
}

// newStatements renders the statements. The plans that the server keeps for them never read a whole
// table: they follow plan.sql, or are sent by [pgrun.Runner.QueryByIndex] and its kin.
func newStatements(names pgname.Names) *statements {
	fragments := append(pgrun.Fragments(), pgname.ParseFragment(columns))
	text := func(name string) string {
		raw, err := files.ReadFile("sql/" + name + ".sql")
		if err != nil {
			panic(err) // embedded: the program would not have been built without it
		}
		return names.Statement("ledger."+name, string(raw), fragments)
	}
	return &statements{
		plan: text("plan"), take: text("take"), takeSpends: text("take_spends"), create: text("create"), lock: text("lock"), probe: text("probe"),
		tryAccount: text("try_account"), tryRequest: text("try_request"), owners: text("owners"),
		accounts: text("accounts"), requests: text("requests"), watched: text("watched"),
		entries: text("entries"), since: text("since"), history: text("history"), holds: text("holds"),
		list: text("list"), store: text("store"), spends: text("spends"), unhold: text("unhold"),
		drop: text("drop"), unused: text("unused"), forget: text("forget"),
	}
}
