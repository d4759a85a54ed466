//go:build linux && amd64

package kill

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/history"
)

func TestMain(m *testing.M) {
	history.ServeAsChild()
	os.Exit(m.Run())
}

// TestKill kills children of every subject.
func TestKill(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range history.Subjects {
		t.Run(string(subject), func(t *testing.T) { testKill(t, seed, subject) })
	}
}

func testKill(t *testing.T, seed attack.Seed, subject history.Subject) {
	row := attack.Begin(t, "kill", string(subject), seed)
	meter := attack.Pick(
		attack.Budget{Count: 1000, Time: 1500 * time.Millisecond},
		attack.Budget{Count: 500, Time: 10 * time.Minute},
	).Start()
	a := &attacker{subject: subject}
	for ; !meter.Spent(); meter.Done++ {
		part := seed.Part(meter.Done)
		found, err := a.attack(part)
		if err == nil && found == nil {
			continue
		}
		repeat := part.Repeat("kill", "TestKill/"+string(subject)+"$")
		if err != nil {
			t.Fatalf("%v\nrepeat: %s", err, repeat)
		}
		row.Found = found.err.Error()
		kills := a.kills
		t.Errorf("%v\nrepeat: %s", a.shrink(found), repeat)
		a.kills = kills
		break
	}
	row.Often = fmt.Sprintf("%d kills", a.kills)
	t.Logf("%d kills of %d files in %v, found: %s; seed %d", a.kills, meter.Done, meter.Took(), row.Found, seed)
}

// TestCatches has the harness attack defective stores.
func TestCatches(t *testing.T) {
	for _, c := range []struct {
		name, why string
		subject   history.Subject
		defect    history.Defect
	}{
		{
			name: "an answer before the commit", subject: history.Bolt, defect: history.Early,
			why: "calls that were acknowledged are missing",
		},
		{
			name: "a mark that runs ahead", subject: history.Bolt, defect: history.Ahead,
			why: "Open replays too little",
		},
		{
			name: "Sync does nothing", subject: history.Relaxed, defect: history.Unsynced,
			why: "calls before a Sync are missing",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &attacker{subject: c.subject, defect: c.defect}
			for part := range 200 {
				found, err := a.attack(attack.Seed(1).Part(part))
				if err != nil {
					t.Fatal(err)
				}
				if found != nil {
					t.Logf("caught after %d kills: %v", a.kills, found.err)
					short, calls := a.shrink(found), 0
					for _, l := range short.lives {
						calls += len(l.ops)
					}
					t.Logf("in %d lives with %d calls: %v", len(short.lives), calls, short)
					if len(short.lives) > 4 || calls > 15 { // of 8 and about 76
						t.Errorf("the failure has %d lives and %d calls, want 4 and 15 at most", len(short.lives), calls)
					}
					return
				}
			}
			t.Errorf("%d kills did not catch it; %s", a.kills, c.why)
		})
	}
}

// TestLook: a file that stays beside the store is found, and so is another content.
func TestLook(t *testing.T) {
	a := &attacker{subject: history.Bolt}
	dir := t.TempDir()
	empty := make([]history.Model, 1)
	if _, found := a.look(dir, empty); found != nil {
		t.Fatal(found)
	}
	fill := history.Random(attack.Seed(1).Rand(), history.Bolt, 50, 0)
	full := history.Model{}
	for _, op := range fill {
		full, _ = full.Next(op)
	}
	if _, found := a.look(dir, []history.Model{full}); found == nil {
		t.Error("another content went unseen")
	}
	if err := os.WriteFile(filepath.Join(dir, "limits.db.new-X"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, found := a.look(dir, empty); found == nil || !strings.Contains(found.Error(), "limits.db.new-X") {
		t.Errorf("found %v, want the file that stays", found)
	}
}
