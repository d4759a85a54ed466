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

// statements are the store's statements for one table; docs/internals/postgres.md tells when each
// goes out.
type statements struct {
	updateOne, updateMany, insert    string
	lock, lockSkip, write, remove    string // lockSkip leaves out the rows that others hold
	read                             string
	insertOne, readOne               string // for one key, planned without QueryByIndex
	page, prune, pages, shape, bytes string
	secured                          string
}

// newStatements renders the statements of a generation. The server keeps a plan for each text. Each
// text contains the number of its generation, so the next generation gets new plans.
func newStatements(names pgname.Names, generation int) *statements {
	render := renderer(names)
	note := ""
	if generation > 0 {
		note = "-- plans of generation " + strconv.Itoa(generation) + "\n"
	}
	const one = "-- for one key\n"
	text := func(name string) string { return render(name) + note }
	return &statements{
		updateOne: text("update_one"), updateMany: text("update_many"), insert: text("insert"),
		lock: text("lock"), lockSkip: render("lock", "{{skip}}", "SKIP LOCKED") + note, write: text("write"), remove: text("delete"),
		read: text("read"), insertOne: text("insert") + one, readOne: text("read") + one,
		page: text("page"), prune: text("prune"), pages: text("pages"), shape: text("shape"), bytes: text("bytes"),
		secured: text("secured"),
	}
}

// renderer returns the function that makes a statement of the text in a file. Pairs are
// placeholders of this text alone, each with its replacement.
func renderer(names pgname.Names) func(name string, pairs ...string) string {
	shared := fragments()
	return func(name string, pairs ...string) string {
		pairs = append(pairs, "{{'table'}}", pgname.Literal(names.Qualified()), "{{'name'}}", pgname.Literal(names.Table()), "{{skip}}", "")
		return names.Statement("buckets."+name, read("sql", name+".sql"), shared, pairs...)
	}
}

// fragments returns the fragments of the store's statements.
func fragments() []pgname.Fragment {
	const dir = "sql/fragments"
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err) // embedded: the program would not have been built without it
	}
	list := append(pgrun.Fragments(), columnFragments()...)
	for _, e := range entries {
		list = append(list, pgname.ParseFragment(read(dir, e.Name())))
	}
	return list
}

func read(dir, name string) string {
	text, err := files.ReadFile(path.Join(dir, name))
	if err != nil {
		panic(err) // embedded: the program would not have been built without it
	}
	return string(text)
}
