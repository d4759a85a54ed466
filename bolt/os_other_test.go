//go:build !unix

package bolt

import "os"

// owner returns -1: the system knows no user ids, and os.Chown fails there.
func owner(os.FileInfo) int { return -1 }
