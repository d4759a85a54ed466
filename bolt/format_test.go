package bolt

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/kept"
)

var update = flag.Bool("update", false, "write testdata/format1.db anew")

// TestFirstFormat opens a file of the first version. Users have such files, so their format can
// never change.
func TestFirstFormat(t *testing.T) {
	const sample = "testdata/format1.db"
	clock := brimtest.NewClock(kept.End())
	o := &Options{Clock: clock.Now}
	if *update {
		_ = os.Remove(sample)
		s := openAt(t, sample, o)
		must(t, kept.Fill(t.Context(), s))
		closeStore(t, s)
	}
	path := filepath.Join(t.TempDir(), "limits.db")
	must(t, os.WriteFile(path, bytesOf(t, sample), 0o600))
	s := openAt(t, path, o)
	must(t, s.Verify(t.Context()))
	kept.CompareBuckets(t, s, clock)
}
