//go:build (darwin || dragonfly || freebsd || linux || netbsd || openbsd) && !android

package boltfile

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/brimgo/brim/internal/vfs"
)

// lockable reports whether lock locks a file before anything of it is read. bbolt takes the same
// lock on the same open file later, and finds it taken by itself.
const lockable = true

// mapSize is the address space of a file: 1 GiB, or as much as the file has where addresses have 32
// bits.
const mapSize = int(1 << 30 * (^uint(0) >> 63))

// errLocked is the error of lock for a file that another process has locked.
var errLocked = syscall.EWOULDBLOCK

// lock takes the lock that bbolt takes, and waits for it until deadline.
func lock(f *os.File, deadline time.Time) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return err
		case !time.Now().Before(deadline):
			return errLocked
		default:
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// resemble gives f the mode and the owner of another file.
func resemble(f vfs.File, other os.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	want, ok2 := other.Sys().(*syscall.Stat_t)
	if ok && ok2 && (is.Uid != want.Uid || is.Gid != want.Gid) {
		if err := f.Handle().Chown(int(want.Uid), int(want.Gid)); err != nil {
			return err
		}
	}
	return f.Handle().Chmod(other.Mode().Perm())
}
