package weave

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"slices"
	"strings"
)

// splice is a change of a file's text: the bytes from one offset to another are replaced.
type splice struct {
	from, to int
	text     string
}

// edit weaves one file.
type edit struct {
	*weaver
	file
	splices []splice
	fn      string // the function around
	sites   int    // points of that function so far
	err     error
	done    map[ast.Node]bool // woven already, with a node around it
}

const runtimePath = "github.com/brimgo/brim/lab/sched/turn"

// weave returns the woven text of a file.
func (w *weaver) weave(f file) ([]byte, error) {
	e := &edit{weaver: w, file: f, done: make(map[ast.Node]bool)}
	e.insert(f.tree.Name.End(), `; import weft "`+runtimePath+`"`)
	for _, d := range f.tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			e.fn, e.sites = fn.Name.Name, 0
		}
		ast.Inspect(d, e.visit)
	}
	var b strings.Builder
	at := 0
	slices.SortStableFunc(e.splices, func(a, b splice) int { return a.from - b.from })
	for _, s := range e.splices {
		if s.from < at {
			return nil, fmt.Errorf("weave: %s: two changes of one place: %q", f.name, s.text)
		}
		b.WriteString(f.text[at:s.from])
		b.WriteString(s.text)
		at = s.to
	}
	b.WriteString(f.text[at:])
	b.WriteString("\nvar _ = weft.Woven\n")
	for _, imp := range f.tree.Imports { // one that the woven text may not need any more
		switch imp.Path.Value {
		case `"sync"`:
			b.WriteString("var _ sync.Locker\n")
		case `"hash/maphash"`:
			b.WriteString("var _ maphash.Seed\n")
		case `"runtime"`:
			b.WriteString("var _ = runtime.Gosched\n")
		}
	}
	text := []byte(b.String())
	if _, err := format.Source(text); err != nil {
		e.err = errors.Join(e.err, fmt.Errorf("weave: %s: %w\n%s", f.name, err, text))
	}
	return text, e.err
}

func (e *edit) offset(p token.Pos) int { return e.fset.Position(p).Offset }

func (e *edit) source(n ast.Node) string { return e.text[e.offset(n.Pos()):e.offset(n.End())] }

func (e *edit) insert(at token.Pos, text string) { e.replace(at, at, text) }

func (e *edit) replace(from, to token.Pos, text string) {
	e.splices = append(e.splices, splice{e.offset(from), e.offset(to), text})
}

// site returns the quoted name of the next point.
func (e *edit) site(op string) string {
	e.sites++
	return fmt.Sprintf("%q", fmt.Sprintf("%s:%s:%d %s", e.name, e.fn, e.sites, op))
}

func (e *edit) fail(n ast.Node, what string) {
	e.err = errors.Join(e.err, fmt.Errorf("weave: %s: %s", e.fset.Position(n.Pos()), what))
}

func (e *edit) visit(n ast.Node) bool {
	if e.done[n] {
		return true
	}
	switch n := n.(type) {
	case *ast.SelectStmt:
		e.selects(n)
	case *ast.GoStmt:
		e.goes(n)
	case *ast.SendStmt:
		e.insert(n.Pos(), "weft.Send("+e.site("send")+", ")
		e.replace(n.Chan.End(), n.Value.Pos(), ", ")
		e.insert(n.End(), ")")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			e.replace(n.OpPos, n.X.Pos(), "weft.Recv("+e.site("receive")+", ")
			e.insert(n.End(), ")")
		}
	case *ast.CallExpr:
		e.calls(n)
	case *ast.Field:
		e.field(n)
	}
	return true
}

// field changes the type of a mutex that is held long, and of a sync.Once.
func (e *edit) field(n *ast.Field) {
	for _, id := range n.Names {
		switch name := typeName(n.Type); {
		case name == "sync.Mutex" && e.kinds[id.Name] == long:
			e.replace(n.Type.Pos(), n.Type.End(), "weft.Mutex")
		case name == "sync.Once":
			e.replace(n.Type.Pos(), n.Type.End(), "weft.Once")
		}
	}
}

// goes weaves a go statement. The function is evaluated at once, as its arguments would be.
func (e *edit) goes(n *ast.GoStmt) {
	for _, arg := range n.Call.Args {
		if id, ok := arg.(*ast.Ident); !ok || id.Name != "true" && id.Name != "false" {
			e.fail(n, "an argument of a go statement that is not a constant")
		}
	}
	e.done[n.Call] = true
	e.replace(n.Go, n.Call.Pos(), "{ weftF := ")
	e.insert(n.Call.Fun.End(), "; weft.Go("+e.site("go")+", func() { weftF")
	e.insert(n.End(), " }) }")
}

// selects weaves a select. One with a default does not block, and its operations stay.
func (e *edit) selects(n *ast.SelectStmt) {
	site := e.site("select")
	var cases []string
	blocks := true
	for _, s := range n.Body.List {
		blocks = blocks && s.(*ast.CommClause).Comm != nil
	}
	for i, s := range n.Body.List {
		c := s.(*ast.CommClause)
		if c.Comm == nil {
			continue
		}
		ast.Inspect(c.Comm, func(n ast.Node) bool { e.done[n] = true; return true })
		if !blocks {
			continue
		}
		var recv *ast.UnaryExpr
		if x, ok := c.Comm.(*ast.ExprStmt); ok {
			recv, _ = x.X.(*ast.UnaryExpr)
		}
		if recv == nil {
			e.fail(c, "a case of a select that is more than a receive")
			continue
		}
		cases = append(cases, "weft.Case("+e.source(recv.X)+")")
		e.replace(c.Comm.Pos(), c.Comm.End(), fmt.Sprint(i))
	}
	if !blocks {
		e.insert(n.Pos(), "weft.Point("+site+"); ")
		return
	}
	e.replace(n.Select, n.Body.Lbrace, "switch weft.Select("+site+", "+strings.Join(cases, ", ")+") ")
	e.insert(n.Body.Rbrace, "; default: panic(\"no case\") ") // a select that ends a function needs no return
}
