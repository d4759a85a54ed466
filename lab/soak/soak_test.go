package soak

import (
	"fmt"
	"os"
	"path"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/lab/internal/harness"
)

func TestMain(m *testing.M) {
	code := pgtest.Run(redistest.With(m))
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		code = 1
	}
	os.Exit(code)
}

// ample never refuses a call of these tests.
var ample = brim.Limit{Capacity: 1e7, LeakRate: 1e7}

// TestFullLoad runs a subject at full load for the time of SOAK, as in SOAK=4h: that of the seed,
// so that seeds in turn run each subject, or that which SOAK_OF names.
func TestFullLoad(t *testing.T) {
	long := os.Getenv("SOAK")
	if long == "" {
		t.Log("SOAK=4h soaks a subject for four hours")
		return
	}
	duration, err := time.ParseDuration(long)
	if err != nil || duration < time.Minute {
		t.Fatalf("SOAK=%s: %v; want a time of at least 1m, like 4h", long, err)
	}
	seed := newSeed(t)
	i := int(uint64(seed) % uint64(len(subjects)))
	if name := os.Getenv("SOAK_OF"); name != "" {
		if i = slices.IndexFunc(subjects, func(s named) bool { return s.name == name }); i < 0 {
			t.Fatalf("SOAK_OF=%s names no subject", name)
		}
	}
	c := subjects[i]
	t.Run(c.name, func(t *testing.T) {
		// A sample follows each round. A long run takes one every 10 s.
		round := min(10*time.Second, duration/60)
		soak(t, c.open, plan{
			why: c.why, seed: seed, rounds: int(duration / round), round: round, keys: 3000, pace: 500,
			limit:  brim.Limit{Capacity: 100, LeakRate: 100},
			scarce: brim.Limit{Capacity: 1000, LeakRate: 100},
		})
	})
}

func newSeed(t *testing.T) harness.Seed {
	t.Helper()
	seed, err := harness.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// named is a subject of TestFullLoad.
type named struct {
	name string
	open opener
	why  string
}

var subjects = []named{
	{"memory", inMemory, "an empty bucket leaves nothing behind"},
	{"bolt", inFile, "the file uses the pages of pruned buckets again"},
	{"bolt-syncevery", lazily, "the file uses the pages of pruned buckets again, and each sync ends"},
	{"sqlite", inSQLite, "the file uses the pages of pruned buckets again, and the log begins again"},
	{"postgres", inPostgres, "a vacuumed table puts new rows where the pruned rows were"},
	{"redis", inRedis, "the server's memory takes new buckets where the pruned ones were"},
	{"lease", leased, "allotments end"},
	{"refusals", refusing, "refusals of a bounded number of buckets are remembered"},
	{"wrapped", wrapped, "wrappers remember a bounded number of buckets, and allotments end"},
	{"spend-bolt", spendInFile, "entries and IDs that no window needs are pruned"},
	{"spend-sqlite", spendInSQLite, "entries and IDs that no window needs are pruned"},
	{"spend-postgres", spendInPostgres, "entries and IDs that no window needs are pruned"},
	{"httplimit", served, "a request leaves nothing behind but a bucket, which is pruned"},
}

// plan tells how to soak a store.
type plan struct {
	why    string
	seed   harness.Seed
	rounds int
	round  time.Duration
	keys   int        // in use at once
	pace   int        // number of keys that new keys replace in each round
	limit  brim.Limit // of a tenant's bucket
	scarce brim.Limit // of a bucket that everybody wants and that refuses many
}

// After the warm-up, which is the first third of the rounds, resources may grow by this share
// from the second third to the last, because they depend on the keys that were drawn. A garbage
// collector works in steps, and a file grows in steps: one step is allowed in addition.
const (
	growth   = 0.25
	heapStep = 1 << 17
)

// minSlope is the shortest run whose slopes are judged. A slope of less than a minute, taken per
// hour, does not tell a leak from a table that a slow machine has not yet filled.
const minSlope = 10 * time.Minute

// soak runs the plan. It compares the peaks in the second third of the rounds with those in the
// last, and judges the slopes of a long run.
func soak(t *testing.T, open opener, p plan) {
	before := goleak.IgnoreCurrent()
	// The first clean-up to be registered runs last, after the pool was closed.
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	w := newWork(p)
	s := open(t, w)
	samples := measure(t, w, s)
	if t.Failed() {
		return
	}
	s.duty.check(t)
	second, last := most(samples[p.rounds/3:2*p.rounds/3]), most(samples[2*p.rounds/3:])
	for _, r := range resources {
		was, is := r.of(second), r.of(last)
		if is > (1+growth)*was*s.faster(second, last)+r.allowed(s) {
			t.Errorf("%s: the peak was %.0f in the second third and %.0f in the last; want no growth\nwhy: %s",
				r.name, was, is, p.why)
		}
	}
	trends := slopes(samples[p.rounds/3:], s)
	long := time.Duration(p.rounds)*p.round >= minSlope
	for _, x := range trends {
		if long && x.grows() {
			t.Errorf("%s grow by %s per hour\nwhy: %s", x.name, x.perHour(), p.why)
		}
	}
	t.Logf("%s, %d calls, slopes per hour after the warm-up:\n%s",
		path.Base(t.Name()), w.calls.Load(), trendTable(trends))
	t.Logf("seed %d, %d calls, %d pruned; second third %+v, last third %+v",
		p.seed, w.calls.Load(), w.pruned.Load(), second, last)
	t.Log(s.duty.story())
	if err := s.duty.close(); err != nil {
		t.Error(err)
	}
}

// measure runs all rounds of the load and takes a sample after each.
func measure(t *testing.T, w *work, s *subject) []sample {
	t.Helper()
	w.use(s)
	samples := make([]sample, 0, w.rounds)
	for round := range w.rounds {
		before := w.calls.Load()
		w.run(t, round)
		if t.Failed() {
			return nil
		}
		x := take(t, w, s)
		x.Calls = w.calls.Load() - before
		samples = append(samples, x)
	}
	return samples
}
