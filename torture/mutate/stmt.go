package mutate

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// statements makes the mutants that remove one of them, and those of x++ and x += y.
func (g *generator) statements(list []ast.Stmt) {
	for _, s := range list {
		if !removable(s) {
			continue
		}
		g.stack = append(g.stack, frame{node: s})
		id := g.add(s.Pos(), s.End(), "", "")
		w := wrap{fmt.Sprintf("if !mutant.On(%d) { ", id), " }"}
		if by, shown := g.other(s); by != "" {
			id := g.add(s.Pos(), s.End(), by, shown)
			if strings.Contains(by, "\n") {
				g.p.Mutants[id].alone = true
			} else {
				w.pre = fmt.Sprintf("if mutant.On(%d) { %s } else ", id, by) + w.pre
			}
		}
		g.stack = g.stack[:len(g.stack)-1]
		g.wraps[s] = w
	}
}

func removable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.ReturnStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.BREAK || s.Tok == token.CONTINUE
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE {
			return false
		}
		blank, ok := s.Lhs[0].(*ast.Ident)
		return len(s.Lhs) > 1 || !ok || blank.Name != "_"
	}
	return false
}

// other returns x++ and x += y with the opposite operator, and "" for any other statement.
func (g *generator) other(s ast.Stmt) (text, shown string) {
	replace := func(at token.Pos, old, by token.Token) string {
		all, from := g.text(s), int(at-s.Pos())
		return all[:from] + by.String() + all[from+len(old.String()):]
	}
	switch s := s.(type) {
	case *ast.IncDecStmt:
		by := token.INC
		if s.Tok == by {
			by = token.DEC
		}
		text = replace(s.TokPos, s.Tok, by)
	case *ast.AssignStmt:
		// Go has the tokens of "+" and "+=" in the same order.
		op := s.Tok - token.ADD_ASSIGN + token.ADD
		swap, ok := arithmetic[op]
		if !ok || s.Tok < token.ADD_ASSIGN || g.basic(s.Lhs[0])&types.IsString != 0 {
			return "", ""
		}
		text = replace(s.TokPos, s.Tok, swap.by-token.ADD+token.ADD_ASSIGN)
	}
	return text, text
}

// post makes the mutant of the x++ of a loop.
func (g *generator) post(s ast.Stmt) {
	by := ""
	if s != nil {
		by, _ = g.other(s)
	}
	if by == "" || strings.Contains(by, "\n") {
		return
	}
	id := g.add(s.Pos(), s.End(), by, by)
	g.wraps[s] = wrap{fmt.Sprintf("func() { if mutant.On(%d) { %s } else { ", id, by), " } }()"}
}

// end lets a function compile whose last return is behind a switch.
func (g *generator) end(t *ast.FuncType, body *ast.BlockStmt) {
	if t.Results != nil {
		insert(g.f.edits.before, g.offset(body.Rbrace), `; panic("mutant: no return") `)
	}
}
