//go:build linux && amd64

package power

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/iotrace"
)

func TestMain(m *testing.M) {
	history.ServeAsChild()
	os.Exit(m.Run())
}

func start(t *testing.T) *iotrace.Process {
	t.Helper()
	p, err := history.Start(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestPower cuts the power of every subject.
func TestPower(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range history.Subjects {
		t.Run(string(subject), func(t *testing.T) { testPower(t, seed, subject) })
	}
}

func testPower(t *testing.T, seed attack.Seed, subject history.Subject) {
	repeat := func(part attack.Seed) string { return part.Repeat("power", "TestPower/"+string(subject)+"$") }
	row := attack.Begin(t, "power", string(subject), seed)
	p := start(t)
	meter := attack.Pick(
		attack.Budget{Count: math.MaxInt, Time: 2 * time.Second},
		attack.Budget{Count: 50_000, Time: time.Hour},
	).Start()
	histories := 0
	for ; !meter.Spent(); histories++ {
		part := seed.Part(histories)
		rec, err := record(p, random(part, subject))
		if err != nil {
			t.Fatalf("%v\nrepeat: %s", err, repeat(part))
		}
		f, err := cut(rec, part.Rand(), meter)
		if err != nil {
			t.Fatalf("%v\nrepeat: %s", err, repeat(part))
		}
		if f != nil {
			row.Found = string(f.verdict)
			rec, f, err = smallest(p, part, rec, f)
			t.Errorf("%s\nrepeat: %s (%v)", f.describe(rec), repeat(part), err)
			break
		}
	}
	row.Often = fmt.Sprintf("%d images", meter.Done)
	t.Logf("%d images of %d histories in %v, found: %s; seed %d", meter.Done, histories, meter.Took(), row.Found, seed)
}
