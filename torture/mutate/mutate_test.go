//go:build linux

package mutate

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/attack"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/table"
)

var (
	only = flag.String("only", "", "attack only mutants whose function and change match this `pattern`")
	own  = flag.Bool("own", false, "run no tests of other packages")
)

// TestMutate attacks the packages that decide. At night it changes all of store, combine and spend,
// and samples of bolt and postgres. A quick run takes a handful of the mutants of store, and has
// no time for the tests of other packages, which kill some of them.
//
// Without BRIM_SEED, every run has the same samples, because each survivor of them is judged.
func TestMutate(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("BRIM_SEED") == "" {
		seed = 1
	}
	all, err := readSurvivors("survivors.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []subject{
		{name: "store", path: "./store", quick: 10, night: everything, short: true},
		{name: "combine", path: "./internal/combine", night: everything, short: true},
		{name: "spend", path: "./spend", night: everything, short: true},
		{name: "bolt", path: "./bolt", night: 300, short: true},
		{name: "postgres", path: "./postgres", night: 300, short: true, server: true},
	} {
		t.Run(s.name, func(t *testing.T) { s.attack(t, seed, all) })
	}
}

// everything is a sample that leaves nothing out.
const everything = 1 << 30

// required is the share of mutants, in percent, that the tests must kill.
const required = 90

// subject is a package under attack.
type subject struct {
	name, path   string
	quick, night int  // mutants
	short        bool // the package's tests need no more than -short
	server       bool // the tests need a PostgreSQL
}

func (s subject) attack(t *testing.T, seed attack.Seed, survivors []survivor) {
	meter := attack.Pick(
		attack.Budget{Count: s.quick, Time: time.Minute}, attack.Budget{Count: s.night, Time: 2 * time.Hour},
	).Start()
	if meter.Spent() {
		t.Skip("only at night: BRIM_TORTURE=1")
	}
	row := attack.Begin(t, "mutate", s.name, seed)
	p, err := Load("../..", s.path)
	if err != nil {
		t.Fatal(err)
	}
	judged, stale := known(survivors, s.name, p.Mutants)
	for _, s := range stale {
		t.Errorf("survivors.md has a mutant that is gone: %s: %s", s.fn, s.change)
	}
	env := []string{fmt.Sprintf("BRIM_SEED=%d", seed)}
	if s.server {
		server, err := pgtest.Launch()
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}()
		env = append(env, "BRIM_TEST_POSTGRES="+server.URL())
	}
	h := &Hunt{
		Package: p, Lab: newLab(t.TempDir(), env...), Short: s.short,
		Slowest: 10 * time.Second, Most: time.Minute, Log: t.Logf,
	}
	if err := h.Prepare(); err != nil {
		t.Fatal(err)
	}
	t.Logf("prepared in %v", meter.Took())
	chosen := sample(t, p, seed, meter.Count, judged)
	alive, err := h.Own(chosen)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the package's own tests leave %d of %d alive after %v", len(alive), len(chosen), meter.Took())
	var named, unnamed []*Mutant
	for _, m := range alive {
		if judged[m] {
			named = append(named, m)
		} else {
			unnamed = append(unnamed, m)
		}
	}
	if attack.Night() && !*own {
		if unnamed, err = h.Others(unnamed); err != nil {
			t.Fatal(err)
		}
	}
	percent := 100 * float64(h.Killed) / float64(len(chosen))
	t.Logf("%d mutants, %d killed (%d of them late), %.1f %%; %d survivors are known, %d are new; %v; seed %d",
		len(chosen), h.Killed, h.Late, percent, len(named), len(unnamed), meter.Took(), seed)
	if len(unnamed) > 0 {
		rows := table.New(table.Left("package"), table.Left("function"), table.Left("change"), table.Left("reason"))
		for _, m := range unnamed {
			rows.Add(s.name, m.Func, m.Change)
		}
		t.Errorf("kill these mutants by tests, or judge them in survivors.md:\n%s\nrepeat: %s", rows.Markdown(),
			seed.Repeat("mutate", "TestMutate/"+s.name))
	}
	if attack.Night() && percent < required {
		t.Errorf("%.1f %% are killed, want %d", percent, required)
	}
	row.Often = fmt.Sprintf("%d mutants", len(chosen))
	row.Found = fmt.Sprintf("%.1f %% killed, %d unknown survivors", percent, len(unnamed))
	if len(stale) > 0 {
		row.Found += fmt.Sprintf(", %d judged ones are gone", len(stale))
	}
}

// sample returns at most n mutants that compile. A quick run has none that are known to survive,
// because it is to show that mutants die.
func sample(t *testing.T, p *Package, seed attack.Seed, n int, judged map[*Mutant]bool) (chosen []*Mutant) {
	pattern := regexp.MustCompile(*only)
	for _, i := range seed.Rand().Perm(len(p.Mutants)) {
		m := p.Mutants[i]
		if !attack.Night() && (judged[m] || m.alone) || !pattern.MatchString(m.String()) {
			continue
		}
		if p.Compiles(m) {
			chosen = append(chosen, m)
		}
		if len(chosen) == n {
			break
		}
	}
	if len(chosen) == 0 {
		t.Fatal("no mutant is left to attack")
	}
	return chosen
}
