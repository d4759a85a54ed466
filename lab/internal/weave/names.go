package weave

import (
	"go/ast"
	"go/parser"
	"go/token"
)

// kind is the kind of a synchronized variable.
type kind uint8

const (
	none    kind = iota
	mutex        // points do not lie under it
	long         // a mutex that becomes a turn.Mutex
	once         // a sync.Once
	cond         // a sync.Cond
	group        // a sync.WaitGroup
	atomic       // a variable of an atomic type
	pointer      // a pointer to a variable of an atomic type
)

// weaver knows the synchronized fields and variables of a package by their names. A name stands for
// one kind in a package.
type weaver struct {
	fset  *token.FileSet
	files []file
	kinds map[string]kind
	long  map[string]bool
}

type file struct {
	name, text string
	tree       *ast.File
}

func newWeaver(longNames []string) *weaver {
	w := &weaver{fset: token.NewFileSet(), kinds: make(map[string]kind), long: make(map[string]bool)}
	for _, name := range longNames {
		w.long[name] = true
	}
	return w
}

// read parses a file and takes note of its synchronized fields, variables and parameters.
func (w *weaver) read(name, text string) error {
	tree, err := parser.ParseFile(w.fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	w.files = append(w.files, file{name, text, tree})
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			w.declare(n.Names, n.Type)
		case *ast.ValueSpec:
			w.declare(n.Names, n.Type)
		case *ast.AssignStmt: // p := &x.field
			id, _ := n.Lhs[0].(*ast.Ident)
			addr, _ := n.Rhs[0].(*ast.UnaryExpr)
			if id != nil && addr != nil && addr.Op == token.AND && w.kindOf(addr.X) == atomic {
				w.kinds[id.Name] = pointer
			}
		}
		return true
	})
	return nil
}

func (w *weaver) declare(names []*ast.Ident, typ ast.Expr) {
	k := none
	switch name := typeName(typ); name {
	case "sync.Mutex", "sync.RWMutex":
		k = mutex
	case "sync.Once":
		k = once
	case "sync.Cond":
		k = cond
	case "sync.WaitGroup":
		k = group
	default:
		if len(name) > 7 && name[:7] == "atomic." {
			k = atomic
			if _, ok := typ.(*ast.StarExpr); ok {
				k = pointer
			}
		}
	}
	for _, id := range names {
		switch {
		case k == mutex && w.long[id.Name]:
			w.kinds[id.Name] = long
		case k != none:
			w.kinds[id.Name] = k
		}
	}
}

// typeName returns "package.Name" of a type, of the elements of an array or of what a pointer leads
// to.
func typeName(typ ast.Expr) string {
	switch t := typ.(type) {
	case *ast.SelectorExpr:
		if pkg, ok := t.X.(*ast.Ident); ok {
			return pkg.Name + "." + t.Sel.Name
		}
	case *ast.ArrayType:
		return typeName(t.Elt)
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.IndexExpr:
		return typeName(t.X)
	}
	return ""
}

// kindOf returns the kind of a variable: that of its last name.
func (w *weaver) kindOf(x ast.Expr) kind {
	switch x := x.(type) {
	case *ast.Ident:
		return w.kinds[x.Name]
	case *ast.SelectorExpr:
		return w.kinds[x.Sel.Name]
	case *ast.IndexExpr:
		return w.kindOf(x.X)
	}
	return none
}
