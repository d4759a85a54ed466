package broken

import (
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
)

// caught is the line with which TestBroken of a suite counts the defects that it has caught.
var caught = regexp.MustCompile(`: all (\d+) broken (?:stores|ledgers) are caught`)

// TestBroken has both suites fail their broken stores and ledgers.
func TestBroken(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for subject, pkg := range map[string]string{"stores": "store/storetest", "ledgers": "spend/spendtest"} {
		t.Run(subject, func(t *testing.T) {
			row := attack.Begin(t, "broken", subject, seed)
			start := time.Now()
			cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "^TestBroken$",
				"github.com/brimgo/brim/"+pkg)
			out, err := cmd.CombinedOutput()
			row.Often = "unknown"
			if all := caught.FindSubmatch(out); err == nil && all != nil {
				row.Often = string(all[1]) + " " + subject
			} else {
				row.Found = "defects that pass"
				// The names of the defects that pass stand at the end.
				t.Errorf("%v\n%s\nrepeat: BRIM_SEED=%d go test -count=1 -run '^TestBroken$' ./%s, in the directory above",
					err, out[max(0, len(out)-10_000):], seed, pkg)
			}
			t.Logf("%s caught in %v", row.Often, time.Since(start))
		})
	}
}
