package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/lab/internal/pgstore"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// backends are the stores that the overview is tried over.
var backends = map[string]func(t *testing.T) store.Store{
	"memory": func(t *testing.T) store.Store {
		return memory.New(nil)
	},
	"postgres": func(t *testing.T) store.Store {
		_, s := pgstore.New(t, postgres.Options{})
		return s
	},
}

// fill puts n buckets into the store, past the Recorder.
func (p *program) fill(t *testing.T, n int) {
	t.Helper()
	limit := store.Limit{Capacity: 100, LeakRate: 0.001}
	var txns []store.Txn
	for i := range n {
		op := store.Op{Bucket: limit.For(fmt.Sprintf("tenant:%06d", i)), Amount: float64(1 + i*7919%90)}
		if txns = append(txns, store.Txn{op}); len(txns) == 2000 || i == n-1 {
			if _, err := p.store.Apply(t.Context(), txns...); err != nil {
				t.Fatal(err)
			}
			txns = txns[:0]
		}
	}
}

// answers reads the answers to the questions of somebody on call from the first screen.
type answers struct {
	Healthy, Class            string
	Who, Since, Much, Stopped []string
	Bottom, Line              float64 // of the first key: its lower edge, and its height in lines
}

const asked = `(() => {
	const texts = (selector) => [...document.querySelectorAll(selector)].map((e) => e.innerText);
	const first = document.querySelector(".refused .key") ?? document.querySelector(".refused h2");
	return {Healthy: document.querySelector(".health h1").innerText, Class: document.querySelector(".health").className,
		Who: texts(".refused .key"), Since: texts(".refused .since"), Much: texts(".refused .rate"), Stopped: texts(".blocked li"),
		Bottom: first.getBoundingClientRect().bottom, Line: first.getBoundingClientRect().height / parseFloat(getComputedStyle(first).lineHeight)};
})()`

// TestOverview reads the first screen over stores of many sizes, at three widths in both schemes.
func TestOverview(t *testing.T) {
	for name, open := range backends {
		for _, n := range []int{0, 10, 1000, 200_000} {
			t.Run(fmt.Sprint(name, "-", n), func(t *testing.T) {
				p := new(program)
				p.serve(t, place{store: open(t)})
				p.fill(t, n)
				long := "tenant:" + strings.Repeat("very-long-", 30)
				five := brim.Limit{Capacity: 5, LeakRate: 0.001}
				for i := range 60 {
					for _, key := range []string{"quiet", long}[:1+min(1, i/50)] {
						if _, err := p.lim.TryFillup(t.Context(), five.For(key), 1+4*float64(min(1, i))); err != nil {
							t.Fatal(err)
						}
					}
				}
				if _, err := p.lim.Block(t.Context(), "login:mallory", time.Hour); err != nil {
					t.Fatal(err)
				}
				for _, l := range looks {
					b := newTab(t, l)
					begin := time.Now()
					b.open(p.page(""))
					a := evaluate[answers](b, asked)
					painted := time.Since(begin)
					if a.Healthy != "Healthy" || !slices.Equal(a.Who, []string{"quiet", long}) ||
						!strings.Contains(a.Since[0], "since ") || !strings.HasSuffix(a.Much[0], "/s") ||
						len(a.Stopped) != 1 || !strings.Contains(a.Stopped[0], "login:mallory") {
						t.Errorf("%+v: the first screen answers %+v", l, a)
					}
					if a.Bottom > 640 || a.Line > 1.5 {
						t.Errorf("%+v: the first key ends at %v, in %v lines", l, a.Bottom, a.Line)
					}
					if wide := evaluate[int64](b, "document.documentElement.scrollWidth"); wide > l.width {
						t.Errorf("%+v: the page is %d pixels wide", l, wide)
					}
					b.contrast("overview")
					begin = time.Now()
					b.open(p.page("levels"))
					b.wants("The numbers are", fmt.Sprint("Buckets\n", n+3))
					t.Logf("%+v: painted after %v, listed after %v: %s", l, painted, time.Since(begin), evaluate[string](b, `document.querySelector(".age").innerText`))
					b.quiet()
				}
			})
		}
	}
}

// TestSpendsOutage keeps the first page open while the ledger fails.
func TestSpendsOutage(t *testing.T) {
	p := newProgram(t)
	p.populate(t)
	b := newTab(t, look{})
	b.open(p.page(""))
	b.wants("Healthy", "Spends", "card:7")
	for _, called := range []bool{true, false} {
		p.ledger.down.Store(true)
		begin := time.Now()
		if called {
			if _, err := p.cards.Remaining(t.Context(), "card:7"); err == nil {
				t.Fatal("the ledger does not fail")
			}
		}
		b.wants("pgledger: view: store unavailable")
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the page told of the fault after %v", took)
		}
		p.ledger.down.Store(false)
		begin = time.Now()
		b.eventually("the recovery", func() bool { return evaluate[answers](b, asked).Class != "health bad" })
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the page told of the recovery after %v", took)
		}
	}
	b.quiet()
}
