package postgres

import (
	"embed"

	"github.com/brimgo/brim/internal/pgname"
)

//go:embed sql/*.sql
var files embed.FS

// statements are the store's statements for one table.
type statements struct {
	tryOne, tryUpdate, tryMany, tryFast, putMany string
	lock, read, write, remove                    string
	scan, prune, pages                           string
}

func newStatements(names pgname.Names) *statements {
	text := func(name string) string {
		raw, err := files.ReadFile("sql/" + name + ".sql")
		if err != nil {
			panic(err) // embedded: it is there, or the program would not have been built
		}
		return names.Render(string(raw), "{{'table'}}", pgname.Literal(names.Qualified()))
	}
	return &statements{
		tryOne: text("try_one"), tryUpdate: text("try_update"), tryMany: text("try_many"), tryFast: text("try_fast"), putMany: text("put_many"),
		lock: text("lock"), read: text("read"), write: text("write"), remove: text("delete"),
		scan: text("scan"), prune: text("prune"), pages: text("pages"),
	}
}
