package spend_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMethods: no type of the rooms and of the ledgers has more than 25 methods, so that a reader
// can know all of them. The methods for callers of Budgets are the package itself, and do not
// count.
func TestMethods(t *testing.T) {
	const most = 25
	methods := make(map[string]int)
	for _, room := range []string{
		".", "internal/decide", "internal/figures", "internal/money", "internal/book", "guard",
		"memledger", "boltledger", "pgledger", "sqliteledger",
	} {
		files, err := os.ReadDir(room)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name(), "_test.go") || filepath.Ext(f.Name()) != ".go" {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(room, f.Name()), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if name := receiver(d); name != "" {
					methods[room+" "+name]++
				}
			}
		}
	}
	if methods["internal/figures Tally"] < 10 || methods["pgledger rows"] < 10 {
		t.Errorf("the search for methods is broken: %v", methods)
	}
	for name, n := range methods {
		if n > most {
			t.Errorf("%s has %d methods; it may have %d", name, n, most)
		}
	}
}

// receiver returns the type of a method, or nothing for other declarations and for the exported
// methods of Budgets.
func receiver(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok && (name.Name != "Budgets" || !f.Name.IsExported()) {
		return name.Name
	}
	return ""
}
