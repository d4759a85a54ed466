package bolt

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/kept"
	"github.com/brimgo/brim/internal/kv"
)

var update = flag.Bool("update", false, "write the files of testdata anew")

// TestFirstFormat opens files of the first version: one that was closed, and one with the journal
// of a program that was killed. Users have such files, so their formats can never change.
func TestFirstFormat(t *testing.T) {
	for sample, suffixes := range map[string][]string{
		"testdata/format1.db": {""}, "testdata/killed1.db": {"", kv.LogSuffix},
	} {
		t.Run(sample, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.db")
			clock := brimtest.NewClock(kept.End())
			o := &Options{Clock: clock.Now}
			if *update {
				s := openAt(t, path, &Options{Clock: clock.Now, logSegment: 4096})
				must(t, kept.Fill(t.Context(), s))
				if len(suffixes) == 1 {
					closeStore(t, s)
				}
				for _, suffix := range suffixes {
					must(t, os.WriteFile(sample+suffix, bytesOf(t, path+suffix), 0o600))
				}
				if len(suffixes) > 1 {
					closeStore(t, s)
				}
			}
			for _, suffix := range suffixes {
				must(t, os.WriteFile(path+suffix, bytesOf(t, sample+suffix), 0o600))
			}
			s := openAt(t, path, o)
			must(t, s.Verify(t.Context()))
			kept.CompareBuckets(t, s, clock)
		})
	}
}
