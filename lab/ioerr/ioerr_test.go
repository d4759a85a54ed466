//go:build linux && amd64

package ioerr

import (
	"fmt"
	"os"
	"strings"
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

// closeAfter closes a's child at the end of a test.
func closeAfter(t *testing.T, a *attacker) {
	t.Cleanup(func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	})
}

// TestIOErr has every call of the system up to the 400th fail, of every class and with every error.
// A quick run takes a sample of the first 40.
func TestIOErr(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range history.Subjects {
		t.Run(string(subject), func(t *testing.T) { testIOErr(t, seed, subject) })
	}
}

func testIOErr(t *testing.T, seed attack.Seed, subject history.Subject) {
	row := attack.Begin(t, "ioerr", string(subject), seed)
	a := &attacker{subject: subject, most: mostQuick}
	closeAfter(t, a)
	if attack.Night() {
		a.most = mostAtNight
	}
	meter := attack.Pick(
		attack.Budget{Count: total(a.most), Time: 2 * time.Second},
		attack.Budget{Count: total(a.most), Time: time.Hour},
	).Start()
	fired := make(tally)
	for ; !meter.Spent(); meter.Done++ {
		part := seed.Part(meter.Done)
		failed, f, err := a.attack(part)
		if err != nil {
			t.Fatalf("%v\n%v\nrepeat: %s", err, faultOf(part, a.most), repeat(part, subject))
		}
		if failed > 0 {
			fired[faultOf(part, a.most).Class]++
		}
		if f != nil {
			row.Found = f.err.Error()
			fault := faultOf(part, a.most)
			t.Errorf("%s\nrepeat: %s", a.shrink(fault, f).describe(fault), repeat(part, subject))
			break
		}
	}
	row.Often = fired.String()
	t.Logf("%d runs, %v, in %v, found: %s; seed %d", meter.Done, fired, meter.Took(), row.Found, seed)
}

// tally counts runs with an error by the class of the call that failed.
type tally map[iotrace.Class]int

func (n tally) String() string {
	sum, parts := 0, make([]string, 0, len(iotrace.Classes))
	for _, c := range iotrace.Classes {
		sum += n[c]
		parts = append(parts, fmt.Sprintf("%d %v", n[c], c))
	}
	return fmt.Sprintf("%d errors (%s)", sum, strings.Join(parts, ", "))
}

func repeat(seed attack.Seed, subject history.Subject) string {
	return seed.Repeat("ioerr", "TestIOErr/"+string(subject)+"$")
}

// TestCatches has the harness attack defective stores.
func TestCatches(t *testing.T) {
	for _, c := range []struct {
		name, why string
		defect    history.Defect
	}{
		{
			name: "an unknown outcome as an error", defect: history.Mistold,
			why: "the call was applied, although its error said that it was not",
		},
		{
			name: "an error as success", defect: history.Swallowed,
			why: "the call was not applied, although it had no error",
		},
		{
			name: "an answer before the commit", defect: history.Early,
			why: "the calls before a Close that failed are gone",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &attacker{subject: history.Bolt, defect: c.defect, most: mostQuick}
			closeAfter(t, a)
			for part := range 1000 {
				seed := attack.Seed(1).Part(part)
				_, f, err := a.attack(seed)
				if err != nil {
					t.Fatal(err)
				}
				if f != nil {
					t.Logf("caught after %d runs: %v: %v", part+1, faultOf(seed, a.most), f.err)
					return
				}
			}
			t.Errorf("1000 runs did not catch it; %s", c.why)
		})
	}
}

// TestEveryFault: successive seeds have every fault once, and a seed has always the same.
func TestEveryFault(t *testing.T) {
	type fault struct {
		class iotrace.Class
		n     int
		errno error
	}
	for _, most := range []int{mostQuick, mostAtNight} {
		seen := make(map[fault]bool)
		for i := range total(most) {
			seed := attack.Seed(1 << 40).Part(i)
			f := faultOf(seed, most)
			seen[fault{f.Class, f.N, f.Errno}] = true
			if f != faultOf(seed, most) {
				t.Fatalf("seed %d has two faults", seed)
			}
			if f.N < 1 || f.N > most {
				t.Fatalf("seed %d strikes call %d", seed, f.N)
			}
		}
		if len(seen) != total(most) {
			t.Errorf("%d faults, want %d", len(seen), total(most))
		}
	}
}
