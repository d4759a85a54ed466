//go:build unix

package bolt

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/brimgo/brim/store"
)

// owner returns the user id of the file's owner.
func owner(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// TestOpenFifo checks that Open does not wait for a process at the other end of a named pipe.
func TestOpenFifo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	must(t, syscall.Mkfifo(path, 0o600))
	_, err := Open(path, &Options{LockTimeout: -1})
	failsWith(t, err, store.ErrMisconfigured, "bolt: open limits.db: ", "not a regular file")
	leftOver(t, filepath.Dir(path), "limits.db")
}
