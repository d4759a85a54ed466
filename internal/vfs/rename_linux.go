package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames a file, and fails if there is a file of the new name.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	return os.NewSyscallError("renameat2", err)
}

// exchange gives each of two files the name of the other, in one step. An error that is
// [errors.ErrUnsupported] means that the file system cannot.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = errors.ErrUnsupported
	}
	return os.NewSyscallError("renameat2", err)
}
