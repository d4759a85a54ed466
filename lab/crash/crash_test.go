package crash

import (
	"io"
	"math"
	"os"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/child"
	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/history"
)

func TestMain(m *testing.M) {
	child.Serve(map[string]io.Closer{"crash": &killed{}})
	os.Exit(m.Run())
}

// subjects are tested, by tests of pkg. With the build tag sqlite they are those over SQLite.
var (
	subjects = history.Subjects[:]
	pkg      = "crash"
)

// onEach runs a test of each subject.
func onEach(t *testing.T, test func(t *testing.T, seed harness.Seed, subject history.Subject)) {
	t.Helper()
	seed, err := harness.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range subjects {
		t.Run(string(subject), func(t *testing.T) { test(t, seed, subject) })
	}
}

// TestPower cuts the power of every subject.
func TestPower(t *testing.T) {
	onEach(t, func(t *testing.T, seed harness.Seed, subject history.Subject) {
		meter := harness.Pick(t, harness.Budget{Count: math.MaxInt, Time: 1500 * time.Millisecond}).Start()
		for histories := 0; !meter.Spent(); histories++ {
			part := seed.Part(histories)
			repeat := part.Repeat(pkg, "TestPower/"+string(subject)+"$")
			rec, err := record(random(part, subject), nil, nil)
			if err != nil {
				t.Fatalf("%v\nrepeat: %s", err, repeat)
			}
			f, err := cut(rec, part.Rand(), meter)
			if err != nil {
				t.Fatalf("%v\nrepeat: %s", err, repeat)
			}
			if f != nil {
				rec, f, err = smallest(part, rec, f)
				t.Errorf("%s\nrepeat: %s (%v)", f.describe(rec), repeat, err)
				break
			}
		}
		t.Logf("seed %d: %d images of power cuts", seed, meter.Done)
	})
}

// TestErrors has one of the first calls of each class fail, with every error.
func TestErrors(t *testing.T) {
	onEach(t, func(t *testing.T, seed harness.Seed, subject history.Subject) {
		most := mostQuick
		if harness.Night() {
			most = mostAtNight
		}
		meter := harness.Pick(t, harness.Budget{Count: math.MaxInt, Time: 1500 * time.Millisecond}).Start()
		var struck [classes]int
		for runs := 0; !meter.Spent(); runs++ {
			part := seed.Part(runs)
			s := faulty(part, subject, most)
			failed, err := answers(s)
			if failed {
				struck[s.fault.class]++
				meter.Done++
			}
			if err != nil {
				t.Errorf("%v\nrepeat: %s", err, part.Repeat(pkg, "TestErrors/"+string(subject)+"$"))
				break
			}
		}
		t.Logf("seed %d: %d errors (%d of writes, %d of syncs, %d of names, %d of sizes)",
			seed, meter.Done, struck[writes], struck[syncs], struck[names], struck[resizes])
	})
}

// TestKill kills children of every subject.
func TestKill(t *testing.T) {
	onEach(t, func(t *testing.T, seed harness.Seed, subject history.Subject) {
		meter := harness.Pick(t, harness.Budget{Count: math.MaxInt, Time: time.Second}).Start()
		for files := 0; !meter.Spent(); files++ {
			part := seed.Part(files)
			kills, err := lives(part, subject, "")
			if meter.Done += kills; err != nil {
				t.Errorf("%v\nrepeat: %s", err, part.Repeat(pkg, "TestKill/"+string(subject)+"$"))
				break
			}
		}
		t.Logf("seed %d: %d kills", seed, meter.Done)
	})
}
