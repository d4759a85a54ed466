package mutate

import (
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
)

// generator walks a file and makes its mutants, and the edits that put switches into it.
type generator struct {
	p     *Package
	f     *file
	base  token.Pos
	stack []frame
	wraps map[ast.Node]wrap // that a node has for one of its children
}

type frame struct {
	node ast.Node
	post string
}

// wrap is text around a node.
type wrap struct{ pre, post string }

// around returns the wrap outer around w.
func (w wrap) around(outer wrap) wrap { return wrap{outer.pre + w.pre, w.post + outer.post} }

func generate(p *Package, f *file) {
	f.edits, f.imports = newEdits(), map[string]string{p.prefix + "/internal/mutant": "mutant"}
	g := &generator{p: p, f: f, base: f.syntax.FileStart, wraps: make(map[ast.Node]wrap)}
	for _, d := range f.syntax.Decls {
		if d, ok := d.(*ast.GenDecl); ok && (d.Tok == token.IMPORT || d.Tok == token.TYPE) {
			continue
		}
		ast.Inspect(d, g.visit)
	}
}

func (g *generator) offset(pos token.Pos) int { return int(pos - g.base) }

func (g *generator) text(n ast.Node) string {
	return string(g.f.src[g.offset(n.Pos()):g.offset(n.End())])
}

// visit is for [ast.Inspect].
func (g *generator) visit(n ast.Node) bool {
	if n == nil {
		last := g.stack[len(g.stack)-1]
		g.stack = g.stack[:len(g.stack)-1]
		insert(g.f.edits.after, g.offset(last.node.End()), last.post)
		return true
	}
	if skipped(n) {
		return false
	}
	g.stack = append(g.stack, frame{node: n})
	w := g.switches(n).around(g.wraps[n])
	insert(g.f.edits.before, g.offset(n.Pos()), w.pre)
	g.stack[len(g.stack)-1].post = w.post
	return true
}

// skipped reports whether nothing below the node is changed: types, and constants that count.
func skipped(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncType, *ast.FieldList, *ast.StructType, *ast.InterfaceType, *ast.MapType, *ast.ChanType:
		return true
	case *ast.GenDecl:
		counts := false
		ast.Inspect(n, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			counts = counts || ok && id.Name == "iota"
			return true
		})
		return n.Tok == token.CONST && counts
	}
	return false
}

// add makes a mutant that replaces a part of the file. shown is the same as text, without its
// parentheses.
func (g *generator) add(from, to token.Pos, text, shown string) int {
	a, b := g.offset(from), g.offset(to)
	m := &Mutant{
		ID: len(g.p.Mutants), Func: g.where(), file: g.f, from: a, to: b, text: text, alone: g.constant(),
	}
	g.p.Mutants = append(g.p.Mutants, m)
	start, end := a, b
	for i := len(g.stack) - 1; i >= 0; i-- {
		n := g.stack[i].node
		x, y := g.offset(n.Pos()), g.offset(n.End())
		if !shows(n) || y-x > longest || string(oneLine(string(g.f.src[x:y]))) != string(g.f.src[x:y]) {
			break
		}
		start, end = x, y
	}
	old := string(g.f.src[start:end])
	m.Change = describe(old, old[:a-start]+shown+old[b-start:])
	return m.ID
}

// shows reports whether a change within n is described by the whole of n.
func shows(n ast.Node) bool {
	switch n.(type) {
	case *ast.FuncLit:
		return false
	case ast.Expr, *ast.AssignStmt, *ast.ReturnStmt, *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.ValueSpec:
		return true
	}
	return false
}

// where names the declaration that is being walked.
func (g *generator) where() string {
	for _, f := range g.stack {
		switch d := f.node.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				return d.Name.Name
			}
			recv := d.Recv.List[0].Type
			star, pointer := recv.(*ast.StarExpr)
			if pointer {
				recv = star.X
			}
			switch r := recv.(type) {
			case *ast.IndexExpr:
				recv = r.X
			case *ast.IndexListExpr:
				recv = r.X
			}
			if pointer {
				return "(*" + g.text(recv) + ")." + d.Name.Name
			}
			return g.text(recv) + "." + d.Name.Name
		case *ast.ValueSpec:
			return d.Names[0].Name
		}
	}
	return "file"
}

// constant reports whether the compiler must know the value of the expression that is being
// walked.
func (g *generator) constant() bool {
	for i, f := range g.stack {
		switch n := f.node.(type) {
		case *ast.GenDecl:
			if n.Tok == token.CONST {
				return true
			}
		case *ast.ArrayType:
			if i+1 < len(g.stack) && g.stack[i+1].node == n.Len {
				return true
			}
		case *ast.KeyValueExpr:
			lit, ok := g.stack[max(0, i-1)].node.(*ast.CompositeLit)
			if !ok || i+1 == len(g.stack) || g.stack[i+1].node != n.Key {
				continue
			}
			switch g.p.info.Types[lit].Type.Underlying().(type) {
			case *types.Array, *types.Slice:
				return true
			}
		}
	}
	return false
}

func call(name string, id int) string { return "mutant." + name + "(" + strconv.Itoa(id) + ", " }
