package redis

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/serverload"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// callers is the number of callers at once.
const callers = 16

// newRound returns the round of a seed. The same seed makes the same calls and the same attack.
func newRound(seed attack.Seed, s serverload.Subject, among []damage) serverload.Round {
	pick := seed.Rand()
	keys := []int{2, 50}[pick.IntN(2)]
	d := among[pick.IntN(len(among))]
	return serverload.Round{
		Name: fmt.Sprintf("%s, %d keys", d.name, keys), Callers: callers, Retry: true,
		At: 0.1 + 0.5*pick.Float64(), Pause: time.Duration(pick.Int64N(int64(3 * time.Millisecond))),
		Calls:  serverload.Script(pick, s.Kinds(), 400, keys),
		Attack: func(calls []serverload.Call) error { return d.do(seed.Rand(), calls) },
	}
}

// always has the server sync its append-only file before it answers.
var always = []string{"appendonly yes", "appendfsync always"}

// TestRedis attacks servers of each kind of deployment.
func TestRedis(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(t *testing.T) target
		unit string // of the attacks
		many int    // each night
	}{
		{"AOF always", func(t *testing.T) target {
			r := newLone(t, always...)
			return r.target(r.subject(r.direct(), ""), r.subject(r.slow(), ""))
		}, "kills", 100},
		{"fail-over", func(t *testing.T) target {
			r := newPair(t)
			return r.target(1, r.failover())
		}, "fail-overs", 50},
		{"stopped primary", func(t *testing.T) target {
			r := newPair(t)
			return r.target(1, r.stop())
		}, "stops", 50},
		{"cluster", func(t *testing.T) target { return newSharded(t).target() }, "reshardings and fail-overs", 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			parallelByDay(t)
			testAttacks(t, c.open(t), c.name, c.unit, c.many)
		})
	}
}

// parallelByDay runs t beside other tests, which wait for their servers as it does. At night, the
// attacked servers have the machine for themselves.
func parallelByDay(t *testing.T) {
	if !attack.Night() {
		t.Parallel()
	}
}

func testAttacks(t *testing.T, to target, name, unit string, many int) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	row := attack.Begin(t, "redis", name, seed)
	meter := attack.Pick(
		attack.Budget{Count: math.MaxInt, Time: 2 * time.Second},
		attack.Budget{Count: many, Time: time.Hour},
	).Start()
	o, err := serverload.Rounds(t.Context(), seed, meter, to.scope, func(part attack.Seed) (serverload.Round, serverload.Subject) {
		s := to.subjects[int(uint64(part)%uint64(len(to.subjects)))]
		return newRound(part, s, to.attacks(s)), s
	})
	row.Often, row.Found = fmt.Sprintf("%d %s", meter.Done, unit), o.Found()
	repeat := o.Seed.Repeat("redis", t.Name())
	if err != nil {
		t.Errorf("%s: %v\nrepeat: %s", o.Round.Name, err, repeat)
	}
	if rd := o.Round; o.Finding != nil {
		t.Errorf("%s, after %d%% of %d calls: %v\nrepeat: %s\n%v",
			rd.Name, int(100*rd.At), len(rd.Calls), o.Finding, repeat, rd.Calls)
	}
	t.Logf("%d %s, each mended in %v on average; of %d calls %d were not applied and %d are of unknown outcome; "+
		"found: %s; seed %d", meter.Done, unit,
		(time.Duration(to.mending.Load()) / time.Duration(max(1, meter.Done))).Round(time.Millisecond),
		o.Told[serverload.Applied], o.Told[serverload.NotApplied], o.Told[serverload.Unknown], o.Found(), seed)
	if meter.Done >= 20 && o.Told[serverload.NotApplied]+o.Told[serverload.Unknown] == 0 {
		t.Error("no call was hit by an attack")
	}
}
