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
const columns = `e.at, e.dated, e.seq, e.part, e.amount, e.used, e.held, e.spends,
	e.currency, e.kind, e.id, e.spend, e.tags, e.refused`

// statements are the ledger's statements for one schema and table.
type statements struct {
	lock, lockKnown, owners, accounts, requests, watched             string
	entries, since, history, holds, list                             string
	save, append, answer, spends, hold, unhold, drop, unused, forget string
}

// newStatements renders the statements. note ends each of them. The server keeps a plan for
// each text. The ledger's own transactions forbid plans that read whole tables, and a caller's
// do not, so the two must not share a text.
func newStatements(names pgname.Names, note string) *statements {
	text := func(name string) string {
		raw, err := files.ReadFile("sql/" + name + ".sql")
		if err != nil {
			panic(err) // embedded: the program would not have been built without it
		}
		return names.Render(pgname.Expand(string(raw), pgrun.Clock()), "{{columns}}", columns) + note
	}
	return &statements{
		lock: text("lock"), lockKnown: text("lock_known"), owners: text("owners"),
		accounts: text("accounts"), requests: text("requests"), watched: text("watched"),
		entries: text("entries"), since: text("since"), history: text("history"), holds: text("holds"),
		list: text("list"), save: text("save"), append: text("append"), answer: text("answer"), spends: text("spends"),
		hold: text("hold"), unhold: text("unhold"), drop: text("drop"), unused: text("unused"), forget: text("forget"),
	}
}
