//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd) || android

package bolt

import (
	"errors"
	"os"
	"time"
)

// lockable says that a file is locked before anything of it is read. Here it is bbolt that locks it, when it opens it.
const lockable = false

// errLocked is a lock that somebody else has.
var errLocked = errors.New("the file is locked")

func lockFile(*os.File, time.Time) error { return nil }

// syncDir would make the names in a directory durable; there is no portable way.
func syncDir(string) error { return nil }

// resemble gives f the mode of another file.
func resemble(f *os.File, other os.FileInfo) error { return f.Chmod(other.Mode().Perm()) }
