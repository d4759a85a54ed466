package fsinfo

import (
	"os"

	"golang.org/x/sys/unix"
)

func of(path string) (Disk, error) {
	var is unix.Statfs_t
	if err := unix.Statfs(path, &is); err != nil {
		return Disk{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return newDisk(uint32(is.Type), is.Bavail, uint64(is.Bsize)), nil
}
