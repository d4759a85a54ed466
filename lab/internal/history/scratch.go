package history

import "os"

// Scratch makes a directory for files that need not last. It lies in memory if the system has a
// file system there, because a disk would spend its time on syncs.
func Scratch() (string, error) {
	const pattern = "brim-lab-"
	if dir, err := os.MkdirTemp("/dev/shm", pattern); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", pattern)
}
