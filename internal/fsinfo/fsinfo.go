// Package fsinfo tells about the file system that a file is on.
package fsinfo

import (
	"math"
	"os"
)

// Disk is the file system that a file is on.
type Disk struct {
	// Name is the name of the file system if it is one of those that Network or Volatile is about,
	// and otherwise "".
	Name string
	// Network means that the locks and syncs of the file may be those of another machine.
	Network bool
	// Volatile means that a restart of the machine empties the file system.
	Volatile bool
	// Free is the space that is left to this user, in bytes.
	Free int64
}

// Of returns the file system of the file at path, and the size of the file in bytes. On a
// system that does not tell, the error is [errors.ErrUnsupported] and the size is right.
func Of(path string) (disk Disk, size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return Disk{}, 0, err
	}
	disk, err = of(path)
	return disk, info.Size(), err
}

// kinds are the file systems whose locks, syncs or content do not last, by their numbers, as
// statfs(2) of Linux lists them. FUSE may be anything.
var kinds = map[uint32]Disk{
	0x00006969: {Name: "NFS", Network: true},
	0x0000517b: {Name: "SMB", Network: true},
	0xff534d42: {Name: "CIFS", Network: true},
	0xfe534d42: {Name: "SMB2", Network: true},
	0x0000564c: {Name: "NCP", Network: true},
	0x01021997: {Name: "9p", Network: true},
	0x5346414f: {Name: "AFS", Network: true},
	0x00c36400: {Name: "Ceph", Network: true},
	0x01161970: {Name: "GFS2", Network: true},
	0x7461636f: {Name: "OCFS2", Network: true},
	0x0bd00bd0: {Name: "Lustre", Network: true},
	0x47504653: {Name: "GPFS", Network: true},
	0x65735546: {Name: "FUSE", Network: true},
	0x01021994: {Name: "tmpfs", Volatile: true},
	0x858458f6: {Name: "ramfs", Volatile: true},
}

// newDisk makes a Disk from the answer of statfs: blocks of size bytes are free.
func newDisk(number uint32, blocks, size uint64) Disk {
	disk := kinds[number]
	disk.Free = math.MaxInt64
	if size > 0 && blocks < math.MaxInt64/size {
		disk.Free = int64(blocks * size)
	}
	return disk
}
