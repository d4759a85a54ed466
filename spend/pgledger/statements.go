package pgledger

import (
	"embed"

	"github.com/brimgo/brim/internal/pgname"
)

//go:embed sql/*.sql
var files embed.FS

// columns are those of an entry, in the order in which scanEntry reads them. Of an account's entries the account is known.
const columns = `e.at, e.dated, e.seq, e.part, e.amount, e.used, e.held, e.spends, e.currency, e.kind, e.id, e.spend, e.tags, e.refused`

// statements are the ledger's for one schema and table.
type statements struct {
	lock, lockKnown, owners, accounts, requests, watched             string
	entries, since, history, holds, list                             string
	save, append, answer, spends, hold, unhold, drop, unused, forget string
}

// newStatements reads the statements. note ends each of them: the server keeps a plan for each text, and those that are made in
// transactions of the ledger's own, which forbid plans that read whole tables, must not be shared with those of a caller's.
func newStatements(names pgname.Names, note string) *statements {
	text := func(name string) string {
		raw, err := files.ReadFile("sql/" + name + ".sql")
		if err != nil {
			panic(err) // embedded: it is there, or the program would not have been built
		}
		return names.Render(string(raw), "{{columns}}", columns) + note
	}
	return &statements{
		lock: text("lock"), lockKnown: text("lock_known"), owners: text("owners"), accounts: text("accounts"), requests: text("requests"),
		watched: text("watched"), entries: text("entries"), since: text("since"), history: text("history"), holds: text("holds"),
		list: text("list"), save: text("save"), append: text("append"), answer: text("answer"), spends: text("spends"),
		hold: text("hold"), unhold: text("unhold"), drop: text("drop"), unused: text("unused"), forget: text("forget"),
	}
}
