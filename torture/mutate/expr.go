package mutate

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strconv"
)

// swap is an operator's switch, and the operators of its mutants.
type swap struct {
	name string
	by   token.Token
}

var arithmetic = map[token.Token]swap{
	token.ADD: {"Add", token.SUB}, token.SUB: {"Sub", token.ADD},
	token.MUL: {"Mul", token.QUO}, token.QUO: {"Quo", token.MUL}, token.REM: {"Rem", token.MUL},
	token.AND: {"And", token.OR}, token.OR: {"Or", token.AND},
	token.XOR: {"Xor", token.AND}, token.AND_NOT: {"AndNot", token.AND},
	token.SHL: {"Shl", token.SHR}, token.SHR: {"Shr", token.SHL},
}

// ordering has the operators for which equal operands matter. Each has a second mutant, the
// negation.
var ordering = map[token.Token]swap{
	token.LSS: {"Less", token.LEQ}, token.LEQ: {"LessEqual", token.LSS},
	token.GTR: {"Greater", token.GEQ}, token.GEQ: {"GreaterEqual", token.GTR},
}

var negation = map[token.Token]token.Token{
	token.LSS: token.GEQ, token.LEQ: token.GTR, token.GTR: token.LEQ, token.GEQ: token.LSS,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
}

// switches makes the mutants of a node, and returns the text that goes around it.
func (g *generator) switches(n ast.Node) wrap {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return g.binary(n)
	case *ast.UnaryExpr:
		return g.unary(n)
	case *ast.BasicLit:
		return g.number(n)
	case *ast.Ident:
		if b, ok := g.p.info.Uses[n].(*types.Const); ok && b.Parent() == types.Universe && b.Val().Kind() == constant.Bool {
			by := "true"
			if n.Name == by {
				by = "false"
			}
			return g.wrap("Not", g.add(n.Pos(), n.End(), by, by))
		}
	case *ast.CallExpr:
		g.extreme(n)
	case *ast.FuncDecl:
		g.end(n.Type, n.Body)
	case *ast.FuncLit:
		g.end(n.Type, n.Body)
	case *ast.IfStmt:
		g.condition(n.Cond)
	case *ast.ForStmt:
		g.condition(n.Cond)
		g.post(n.Post)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, c := range n.Body.List {
				for _, cond := range c.(*ast.CaseClause).List {
					g.condition(cond)
				}
			}
		}
	case *ast.BlockStmt:
		g.statements(n.List)
	case *ast.CaseClause:
		g.statements(n.Body)
	case *ast.CommClause:
		g.statements(n.Body)
	}
	return wrap{}
}

// wrap returns the call of a switch, unless the mutant is compiled by itself.
func (g *generator) wrap(name string, id int) wrap {
	if g.p.Mutants[id].alone {
		return wrap{}
	}
	return wrap{call(name, id), ")"}
}

// isConst reports whether the compiler knows the value of x.
func (g *generator) isConst(x ast.Expr) bool { return g.p.info.Types[x].Value != nil }

func (g *generator) basic(x ast.Expr) types.BasicInfo {
	t := g.p.info.Types[x].Type
	if t == nil {
		return 0
	}
	if p, ok := t.Underlying().(*types.Interface); ok && !p.IsMethodSet() { // a type parameter
		return types.IsInteger
	}
	b, ok := t.Underlying().(*types.Basic)
	if !ok {
		return 0
	}
	return b.Info()
}

func (g *generator) binary(n *ast.BinaryExpr) wrap {
	x, y := g.text(n.X), g.text(n.Y)
	shown := func(op token.Token) string {
		from, to := g.offset(n.X.End()), g.offset(n.Y.Pos())
		at := g.offset(n.OpPos)
		src := g.f.src
		return x + string(src[from:at]) + op.String() + string(src[at+len(n.Op.String()):to]) + y
	}
	replaced := func(op token.Token) int {
		return g.add(n.Pos(), n.End(), "("+shown(op)+")", shown(op))
	}
	comma := func() { g.f.edits.instead[g.offset(n.OpPos)] = replacement{len(n.Op.String()), ","} }
	switch {
	case n.Op == token.LAND || n.Op == token.LOR:
		by := token.LAND
		if n.Op == by {
			by = token.LOR
		}
		id := replaced(by)
		g.condition(n.X)
		g.condition(n.Y)
		for _, operand := range []ast.Expr{n.X, n.Y} {
			g.wraps[operand] = g.wraps[operand].around(wrap{call("Flip", id), ")"})
		}
		return g.wrap("Not", id)
	case ordering[n.Op].name != "":
		id := replaced(ordering[n.Op].by)
		g.add(n.Pos(), n.End(), "(!("+shown(n.Op)+"))", shown(negation[n.Op]))
		w := g.wrap(ordering[n.Op].name, id)
		if w.pre != "" {
			comma()
		}
		return w
	case n.Op == token.EQL || n.Op == token.NEQ:
		return g.wrap("Not", replaced(negation[n.Op]))
	case g.basic(n)&types.IsString == 0:
		s := arithmetic[n.Op]
		w := g.wrap(s.name, replaced(s.by))
		if w.pre == "" {
			return w
		}
		comma()
		if g.isConst(n.X) && (g.isConst(n.Y) || n.Op == token.SHL || n.Op == token.SHR) {
			w.pre = "mutant." + s.name + "[" + g.typeOf(n) + "]" + w.pre[len("mutant."+s.name):]
		}
		return w
	}
	return wrap{}
}

// condition makes the mutant that negates a condition, unless its operator has that mutant.
func (g *generator) condition(x ast.Expr) {
	if x == nil {
		return
	}
	switch n := ast.Unparen(x).(type) {
	case *ast.BinaryExpr:
		if n.Op != token.LAND && n.Op != token.LOR {
			return
		}
	case *ast.UnaryExpr: // has its own
		return
	case *ast.Ident:
		if g.isConst(n) {
			return
		}
	}
	id := g.add(x.Pos(), x.End(), "(!("+g.text(x)+"))", "!("+g.text(x)+")")
	g.wraps[x] = g.wraps[x].around(g.wrap("Not", id))
}

func (g *generator) unary(n *ast.UnaryExpr) wrap {
	x := g.text(n.X)
	switch {
	case n.Op == token.NOT:
		return g.wrap("Not", g.add(n.Pos(), n.End(), "("+x+")", x))
	case n.Op == token.SUB && !g.isConst(n.X):
		id := g.add(n.Pos(), n.End(), "("+x+")", x)
		g.f.edits.instead[g.offset(n.OpPos)] = replacement{1, ""}
		return g.wrap("Neg", id)
	}
	return wrap{}
}

// number makes the mutant of a literal that is one more.
func (g *generator) number(n *ast.BasicLit) wrap {
	if n.Kind != token.INT && n.Kind != token.FLOAT {
		return wrap{}
	}
	more := constant.BinaryOp(constant.MakeFromLiteral(n.Value, n.Kind, 0), token.ADD, constant.MakeInt64(1))
	shown := more.ExactString()
	if f, ok := constant.Float64Val(more); ok && n.Kind == token.FLOAT {
		shown = strconv.FormatFloat(f, 'g', -1, 64)
	}
	id := g.add(n.Pos(), n.End(), "("+n.Value+"+1)", shown)
	w := g.wrap("Off", id)
	if w.pre != "" {
		w.pre = "mutant.Off[" + g.typeOf(n) + "]" + w.pre[len("mutant.Off"):]
	}
	return w
}

// extreme makes the mutant of a min or a max: the other one.
func (g *generator) extreme(n *ast.CallExpr) {
	name, ok := n.Fun.(*ast.Ident)
	if !ok || g.isConst(n) {
		return
	}
	b, ok := g.p.info.Uses[name].(*types.Builtin)
	if !ok {
		return
	}
	by := map[string]string{"min": "max", "max": "min"}[b.Name()]
	if by == "" {
		return
	}
	id := g.add(name.Pos(), name.End(), by, by)
	g.f.edits.instead[g.offset(name.Pos())] = replacement{
		g.offset(n.Lparen) + 1 - g.offset(name.Pos()),
		call(map[string]string{"min": "Min", "max": "Max"}[b.Name()], id),
	}
}

// typeOf returns the name of an expression's type in the file.
func (g *generator) typeOf(x ast.Expr) string {
	t := g.p.info.Types[x].Type
	// The parts of a constant expression have no types of their own.
	for i := len(g.stack) - 1; i >= 0 && untyped(t); i-- {
		if outer, ok := g.stack[i].node.(ast.Expr); ok && g.isConst(outer) {
			t = g.p.info.Types[outer].Type
		}
	}
	if untyped(t) {
		t = types.Default(t)
	}
	return types.TypeString(t, func(other *types.Package) string {
		if other.Path() == g.p.Path {
			return ""
		}
		g.f.imports[other.Path()] = "mutant_" + other.Name()
		return g.f.imports[other.Path()]
	})
}

func untyped(t types.Type) bool {
	b, ok := t.(*types.Basic)
	return ok && b.Info()&types.IsUntyped != 0
}
