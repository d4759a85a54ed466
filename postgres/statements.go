package postgres

import (
	"embed"
	"path"
	"strconv"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
)

//go:embed sql
var files embed.FS

// statements are the store's statements for one table.
type statements struct {
	tryOne, tryUpdate, tryMany, tryFast, putMany string
	lock, read, write, remove                    string
	readOne                                      string // read for one key
	probe, page, prune, pages, size, bytes       string
}

// newStatements renders the statements of a generation. The server keeps a plan for each text. Each
// text contains the number of its generation, so the next generation gets new plans.
func newStatements(names pgname.Names, generation int) *statements {
	render := renderer(names)
	note := ""
	if generation > 0 {
		note = "-- plans of generation " + strconv.Itoa(generation) + "\n"
	}
	text := func(name string) string { return render(name, read("sql", name+".sql")) + note }
	return &statements{
		tryOne: text("try_one"), tryUpdate: text("try_update"), tryMany: text("try_many"), tryFast: text("try_fast"),
		putMany: text("put_many"), lock: text("lock"), read: text("read"), write: text("write"), remove: text("delete"),
		readOne: text("read") + "-- for one key\n", // planned without QueryByIndex
		probe:   text("probe"), page: text("page"), prune: text("prune"), pages: text("pages"), size: text("size"),
		bytes: text("bytes"),
	}
}

// renderer returns the function that makes a statement of the text in a file.
func renderer(names pgname.Names) func(name, sql string) string {
	const dir = "sql/fragments"
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err) // embedded: the program would not have been built without it
	}
	fragments := pgrun.Fragments()
	for _, e := range entries {
		fragments = append(fragments, pgname.ParseFragment(read(dir, e.Name())))
	}
	return func(name, sql string) string {
		return names.Statement("buckets."+name, sql, fragments,
			"{{'table'}}", pgname.Literal(names.Qualified()), "{{'name'}}", pgname.Literal(names.Table()))
	}
}

func read(dir, name string) string {
	text, err := files.ReadFile(path.Join(dir, name))
	if err != nil {
		panic(err) // embedded: the program would not have been built without it
	}
	return string(text)
}
