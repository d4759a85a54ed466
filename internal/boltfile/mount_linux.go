package boltfile

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Mounted reports whether the file at path, which is no link, is a mount point of its own. A kernel
// before 5.8 does not tell. The device does not tell, either: in an overlay file system, files have
// others than their directory, and a bind mount may have the same.
func Mounted(path string) bool {
	mount := func(path string) (uint64, bool) {
		var st unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &st)
		return st.Mnt_id, err == nil && st.Mask&unix.STATX_MNT_ID != 0
	}
	file, ok := mount(path)
	dir, ok2 := mount(filepath.Dir(path))
	return ok && ok2 && file != dir
}
