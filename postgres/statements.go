package postgres

import (
	"embed"
	"path"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
)

//go:embed sql
var files embed.FS

// statements are the store's statements for one table.
type statements struct {
	tryOne, tryUpdate, tryMany, tryFast, putMany string
	lock, read, write, remove                    string
	scan, prune, pages                           string
}

func newStatements(names pgname.Names) *statements {
	render := renderer(names)
	text := func(name string) string { return render(read("sql", name+".sql")) }
	return &statements{
		tryOne: text("try_one"), tryUpdate: text("try_update"), tryMany: text("try_many"), tryFast: text("try_fast"),
		putMany: text("put_many"), lock: text("lock"), read: text("read"), write: text("write"), remove: text("delete"),
		scan: text("scan"), prune: text("prune"), pages: text("pages"),
	}
}

// renderer returns the function that puts the fragments and names into a statement.
func renderer(names pgname.Names) func(sql string) string {
	const dir = "sql/fragments"
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err) // embedded: the program would not have been built without it
	}
	fragments := []pgname.Fragment{pgrun.Clock()}
	for _, e := range entries {
		fragments = append(fragments, pgname.ParseFragment(read(dir, e.Name())))
	}
	return func(sql string) string {
		return names.Render(pgname.Expand(sql, fragments...), "{{'table'}}", pgname.Literal(names.Qualified()))
	}
}

func read(dir, name string) string {
	text, err := files.ReadFile(path.Join(dir, name))
	if err != nil {
		panic(err) // embedded: the program would not have been built without it
	}
	return string(text)
}
