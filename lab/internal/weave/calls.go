package weave

import (
	"go/ast"
	"slices"
	"strings"
)

// functions are the calls of packages that are woven: the name in package turn, or "" for a call
// whose last argument starts on a goroutine of its own.
var functions = map[string]string{
	"runtime.Gosched":   "weft.Point",
	"time.Sleep":        "weft.Sleep",
	"time.AfterFunc":    "",
	"context.AfterFunc": "",
}

var atomicMethods = []string{"Load", "Store", "Swap", "CompareAndSwap", "Add", "Or", "And"}

// calls weaves a call.
func (e *edit) calls(n *ast.CallExpr) {
	if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "close" {
		e.replace(n.Pos(), n.Args[0].Pos(), "weft.Close("+e.site("close")+", ")
		return
	}
	sel, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	name := e.source(n.Fun)
	if to, ok := functions[name]; ok {
		if to == "" {
			e.starts(n)
			return
		}
		e.replace(n.Pos(), n.Lparen+1, to+"("+e.site(sel.Sel.Name))
		return
	}
	switch {
	case name == "maphash.String": // its seed differs from run to run
		e.replace(n.Pos(), n.Args[1].Pos(), "weft.Hash(")
		return
	case strings.HasSuffix(name, ".file.Lock"), strings.HasSuffix(name, ".file.Close"): // they block on a channel
		e.insert(n.Pos(), "weft.Call("+e.site("lock")+", func() error { return ")
		e.insert(n.End(), " })")
		return
	}
	method := sel.Sel.Name
	switch e.kindOf(sel.X) {
	case mutex:
		e.mutex(n, sel, method)
	case long, once:
		e.insert(n.Lparen+1, e.site(method))
		if len(n.Args) > 0 {
			e.insert(n.Args[0].Pos(), ", ")
		}
	case cond:
		if method == "Wait" {
			e.wrap(n, sel, "weft.CondWait("+e.site("wait")+", &", ")")
		} else {
			e.wrap(n, sel, "weft.Broadcast(&", ")")
		}
	case group:
		if method == "Wait" {
			e.wrap(n, sel, "weft.Block("+e.site("wait")+", ", ".Wait)")
		} else if method == "Go" {
			e.starts(n)
		}
	case atomic, pointer:
		if slices.Contains(atomicMethods, method) {
			address := "&"
			if e.kindOf(sel.X) == pointer {
				address = ""
			}
			e.insert(sel.X.Pos(), "weft.At("+e.site(method)+", "+address)
			e.insert(sel.X.End(), ")")
		}
	}
}

// mutex weaves a call of a mutex.
func (e *edit) mutex(n *ast.CallExpr, sel *ast.SelectorExpr, method string) {
	to, address, after := "weft.Lock(", "&", ")"
	switch method {
	case "Unlock", "RUnlock":
		to = "weft.Unlock("
	case "TryLock":
		to = "weft.TryLock("
	}
	if strings.HasPrefix(method, "R") {
		address, after = "", ".RLocker())"
	}
	e.wrap(n, sel, to+e.site(strings.ToLower(method))+", "+address, after)
}

// wrap replaces a call of a method without arguments.
func (e *edit) wrap(n *ast.CallExpr, sel *ast.SelectorExpr, before, after string) {
	e.insert(n.Pos(), before)
	e.replace(sel.X.End(), n.End(), after)
}

// starts weaves a call whose last argument starts on a goroutine of its own.
func (e *edit) starts(n *ast.CallExpr) {
	last := n.Args[len(n.Args)-1]
	e.insert(last.Pos(), "weft.Func("+e.site("goroutine")+", ")
	e.insert(last.End(), ")")
}
