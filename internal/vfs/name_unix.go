//go:build (darwin || dragonfly || freebsd || linux || netbsd || openbsd) && !android

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// renamed returns the file, which stays locked, under the name of its errors. It closes file.
func renamed(file *os.File, name string) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), name), file.Close()
}
