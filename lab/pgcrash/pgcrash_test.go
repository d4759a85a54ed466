//go:build linux

package pgcrash

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/serverload"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// newRound returns the round of a seed. The same seed makes the same calls and the same crash.
func newRound(r *rig, seed attack.Seed, s serverload.Subject) serverload.Round {
	pick := seed.Rand()
	keys := []int{2, 50}[pick.IntN(2)]
	c := crashes[pick.IntN(len(crashes))]
	rd := serverload.Round{
		Name: fmt.Sprintf("%s, %d keys", c.name, keys), Callers: callers,
		At: 0.1 + 0.5*pick.Float64(), Pause: time.Duration(pick.Int64N(int64(3 * time.Millisecond))),
	}
	rd.Calls = serverload.Script(pick, s.Kinds(), 200, keys)
	rd.Attack = func([]serverload.Call) error {
		began := time.Now()
		r.down.Store(true)
		defer r.down.Store(false)
		err := c.do(r, seed.Rand())
		r.mending.Add(int64(time.Since(began)))
		return err
	}
	return rd
}

// callers is the number of callers at once.
const callers = 16

func TestPgcrash(t *testing.T) {
	r := newRig(t)
	t.Run("crashes", func(t *testing.T) { testSubjects(t, r) })
	t.Run("catches", func(t *testing.T) { testCatches(t, r) })
	t.Run("shrinks", func(t *testing.T) { testShrinks(t, r) })
}

// testSubjects crashes the server under each store.
func testSubjects(t *testing.T, r *rig) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	direct := r.pool(r.server.URL())
	// In another mode the driver words its errors differently.
	exec := r.pool(r.server.URL(), "default_query_exec_mode=exec")
	slow := r.pool(r.proxy.URL())
	for _, c := range []struct {
		name     string
		subjects []serverload.Subject
	}{
		{"postgres", []serverload.Subject{r.buckets(direct, ""), r.buckets(exec, ""), r.buckets(slow, "")}},
		{"spend", []serverload.Subject{r.ledger(direct, ""), r.ledger(slow, "")}},
	} {
		t.Run(c.name, func(t *testing.T) { testCrashes(t, r, seed, c.name, c.subjects) })
	}
}

func testCrashes(t *testing.T, r *rig, seed attack.Seed, name string, subjects []serverload.Subject) {
	row := attack.Begin(t, "pgcrash", name, seed)
	meter := attack.Pick(
		attack.Budget{Count: math.MaxInt, Time: 3 * time.Second},
		attack.Budget{Count: 150, Time: time.Hour},
	).Start()
	r.mending.Store(0)
	o, err := serverload.Rounds(t.Context(), seed, meter, r.scope, func(part attack.Seed) (serverload.Round, serverload.Subject) {
		s := subjects[int(uint64(part)%uint64(len(subjects)))]
		return newRound(r, part, s), s
	})
	row.Often, row.Found = fmt.Sprintf("%d crashes", meter.Done), o.Found()
	repeat := o.Seed.Repeat("pgcrash", "TestPgcrash/crashes/"+name)
	if err != nil {
		t.Errorf("%s: %v\nrepeat: %s", o.Round.Name, err, repeat)
	}
	if rd := o.Round; o.Finding != nil {
		t.Errorf("%s, after %d%% of %d calls: %v\nrepeat: %s\n%v",
			rd.Name, int(100*rd.At), len(rd.Calls), o.Finding, repeat, rd.Calls)
	}
	t.Logf("%d crashes, each mended in %v on average; of %d calls %d were not applied and %d are of unknown outcome; "+
		"found: %s; seed %d", meter.Done, (time.Duration(r.mending.Load()) / time.Duration(max(1, meter.Done))).Round(time.Millisecond),
		o.Told[serverload.Applied], o.Told[serverload.NotApplied], o.Told[serverload.Unknown], o.Found(), seed)
	if meter.Done >= 10 && o.Told[serverload.NotApplied]+o.Told[serverload.Unknown] == 0 {
		t.Error("no call was hit by a crash")
	}
}
