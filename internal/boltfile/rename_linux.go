package boltfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames a file, and fails if there is a file of the new name.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	return os.NewSyscallError("renameat2", err)
}
