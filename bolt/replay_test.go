package bolt

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// TestReplayIsLogged: Open logs how many commits the journal had, and nothing if it had none.
func TestReplayIsLogged(t *testing.T) {
	for _, c := range []struct {
		fills int
		want  string
	}{
		{2, ""}, // the first two are in the file
		{3, "commits=1\n"},
		{5, "commits=3\n"},
	} {
		t.Run(fmt.Sprint(c.fills), func(t *testing.T) {
			s := openTemp(t, nil)
			for range c.fills {
				fillup(t, s, "k", 1)
			}
			var log bytes.Buffer
			again := openAt(t, copyTo(t, s, t.TempDir()), &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			levelIs(t, again, "k", float64(c.fills))
			if got := log.String(); c.want == "" && got != "" || !strings.HasSuffix(got, c.want) {
				t.Errorf("logged %q, want %q", got, c.want)
			}
		})
	}
}

// TestDamagedWatermark damages the watermark of the journal in the file. A file with such a
// watermark may need a journal, so no Open takes it for a file that needs none, whether the journal
// is there or not.
func TestDamagedWatermark(t *testing.T) {
	for _, missing := range []bool{false, true} {
		for _, noVerify := range []bool{false, true} {
			for _, at := range []int{0, 1, 17, 25, 33, markSize - 1} { // a byte of each part
				t.Run(fmt.Sprintf("missing %v, unverified %v, byte %d", missing, noVerify, at), func(t *testing.T) {
					path := journaled(t, &Options{logSegment: tiny})
					editMeta(t, path, func(meta *bbolt.Bucket) error {
						watermark := bytes.Clone(meta.Get(watermarkKey))
						watermark[at] ^= 1
						return meta.Put(watermarkKey, watermark)
					})
					if missing {
						must(t, os.Remove(path+kv.LogSuffix))
					}
					_, err := Open(path, &Options{NoVerify: noVerify})
					failsWith(t, err, store.ErrCorrupt)
				})
			}
		}
	}
}
