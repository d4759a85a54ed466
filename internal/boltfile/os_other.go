//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd) || android

package boltfile

import (
	"errors"
	"os"
	"time"
)

// lockable reports whether lock locks a file before anything of it is read. On this system bbolt
// locks the file when it opens it.
const lockable = false

// errLocked is the error of lock for a file that another process has locked.
var errLocked = errors.New("the file is locked")

func lock(*os.File, time.Time) error { return nil }

// renamed returns the file under its old name: the system has no portable call for another.
func renamed(file *os.File, _ string) (*os.File, error) { return file, nil }

// resemble gives f the mode of another file.
func resemble(f *os.File, other os.FileInfo) error { return f.Chmod(other.Mode().Perm()) }
