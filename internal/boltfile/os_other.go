//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd) || android

package boltfile

import (
	"errors"
	"os"
	"time"

	"github.com/brimgo/brim/internal/vfs"
)

// lockable reports whether lock locks a file before anything of it is read. On this system bbolt
// locks the file when it opens it.
const lockable = false

// mapSize is 0, because this system may give the file the size of its address space.
const mapSize = 0

// errLocked is the error of lock for a file that another process has locked.
var errLocked = errors.New("the file is locked")

func lock(*os.File, time.Time) error { return nil }

// resemble gives f the mode of another file.
func resemble(f vfs.File, other os.FileInfo) error { return f.Handle().Chmod(other.Mode().Perm()) }
