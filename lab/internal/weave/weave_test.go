package weave

import (
	"strings"
	"testing"
)

// TestWeave weaves one statement at a time. The test of package sched builds and runs whole files.
func TestWeave(t *testing.T) {
	const file = `package p

import ("context"; "sync"; "sync/atomic"; "time")

type s struct {
	mu sync.Mutex
	slow sync.Mutex
	rw sync.RWMutex
	ended sync.Cond
	once sync.Once
	calls sync.WaitGroup
	n atomic.Int64
	ch chan int
	next *s
}

func (x *s) f(ctx context.Context, p *atomic.Int64) { STATEMENT }
`
	for _, c := range []struct{ statement, want string }{
		{"x.mu.Lock()", `weft.Lock("p.go:f:1 lock", &x.mu)`},
		{"defer x.next.mu.Unlock()", `defer weft.Unlock("p.go:f:1 unlock", &x.next.mu)`},
		{"x.rw.RLock()", `weft.Lock("p.go:f:1 rlock", x.rw.RLocker())`},
		{"if x.mu.TryLock() {}", `if weft.TryLock("p.go:f:1 trylock", &x.mu) {}`},
		{"x.slow.Lock()", `x.slow.Lock("p.go:f:1 Lock")`},
		{"x.once.Do(func() {})", `x.once.Do("p.go:f:1 Do", func() {})`},
		{"x.ended.Wait()", `weft.CondWait("p.go:f:1 wait", &x.ended)`},
		{"x.ended.Broadcast()", `weft.Broadcast(&x.ended)`},
		{"x.calls.Wait()", `weft.Block("p.go:f:1 wait", x.calls.Wait)`},
		{"x.calls.Go(func() {})", `x.calls.Go(weft.Func("p.go:f:1 goroutine", func() {}))`},
		{"x.n.Add(p.Load())", `weft.At("p.go:f:1 Add", &x.n).Add(weft.At("p.go:f:2 Load", p).Load())`},
		{"v := <-x.ch; _ = v", `v := weft.Recv("p.go:f:1 receive", x.ch); _ = v`},
		{"x.ch <- 1", `weft.Send("p.go:f:1 send", x.ch, 1)`},
		{"close(x.ch)", `weft.Close("p.go:f:1 close", x.ch)`},
		{"go x.g(true)", `{ weftF := x.g; weft.Go("p.go:f:1 go", func() { weftF(true) }) }`},
		{
			"select { case <-x.ch: case <-ctx.Done(): }",
			`switch weft.Select("p.go:f:1 select", weft.Case(x.ch), weft.Case(ctx.Done())) { case 0: case 1: ` +
				`; default: panic("no case") }`,
		},
		{"select { case x.ch <- 1: default: }", `weft.Point("p.go:f:1 select"); select { case x.ch <- 1: default: }`},
		{"time.AfterFunc(1, func() {})", `time.AfterFunc(1, weft.Func("p.go:f:1 goroutine", func() {}))`},
	} {
		w := newWeaver([]string{"slow"})
		if err := w.read("p.go", strings.Replace(file, "STATEMENT", c.statement, 1)); err != nil {
			t.Fatal(err)
		}
		text, err := w.weave(w.files[0])
		if err != nil {
			t.Errorf("%s: %v", c.statement, err)
		}
		if !strings.Contains(string(text), "{ "+c.want+" }") {
			t.Errorf("%s became\n%s\nwant %s", c.statement, text, c.want)
		}
		for _, field := range []string{"mu sync.Mutex", "slow weft.Mutex", "once weft.Once"} {
			if !strings.Contains(string(text), field) {
				t.Errorf("no field %s", field)
			}
		}
	}
}

// TestRefuses: a form that would run without a point is an error.
func TestRefuses(t *testing.T) {
	for _, statement := range []string{
		"select { case v := <-ch: _ = v; case <-done: }",
		"select { case ch <- 1: case <-done: }",
		"go f(1)",
	} {
		w := newWeaver(nil)
		if err := w.read("p.go", "package p\nfunc f(ch, done chan int) { "+statement+" }\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.weave(w.files[0]); err == nil {
			t.Errorf("%s was woven", statement)
		}
	}
}
