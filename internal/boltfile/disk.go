package boltfile

import (
	"errors"
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

// DiskOf returns the file system of the file at path, and the size of the file in bytes. On a
// system that does not tell, the error is [errors.ErrUnsupported] and the size is right.
func DiskOf(path string) (disk Disk, size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return Disk{}, 0, fileError(err)
	}
	disk, err = diskOf(path)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		err = fileError(err)
	}
	return disk, info.Size(), err
}

// Locked reports whether an error means that another process, or another store of this one, has
// the file open.
func Locked(err error) bool { return errors.Is(err, errLocked) }

// kind is a file system by its number, as statfs(2) of Linux lists them.
type kind struct {
	name              string
	network, volatile bool
}

// kinds are the file systems whose locks, syncs or content do not last. FUSE may be anything.
var kinds = map[uint32]kind{
	0x00006969: {name: "NFS", network: true},
	0x0000517b: {name: "SMB", network: true},
	0xff534d42: {name: "CIFS", network: true},
	0xfe534d42: {name: "SMB2", network: true},
	0x0000564c: {name: "NCP", network: true},
	0x01021997: {name: "9p", network: true},
	0x5346414f: {name: "AFS", network: true},
	0x00c36400: {name: "Ceph", network: true},
	0x01161970: {name: "GFS2", network: true},
	0x7461636f: {name: "OCFS2", network: true},
	0x0bd00bd0: {name: "Lustre", network: true},
	0x47504653: {name: "GPFS", network: true},
	0x65735546: {name: "FUSE", network: true},
	0x01021994: {name: "tmpfs", volatile: true},
	0x858458f6: {name: "ramfs", volatile: true},
}

// newDisk makes a Disk from the answer of statfs: blocks of size bytes are free.
func newDisk(number uint32, blocks, size uint64) Disk {
	k := kinds[number]
	free := int64(math.MaxInt64)
	if size > 0 && blocks < math.MaxInt64/size {
		free = int64(blocks * size)
	}
	return Disk{Name: k.name, Network: k.network, Volatile: k.volatile, Free: free}
}
