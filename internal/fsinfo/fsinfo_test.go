package fsinfo

import (
	"math"
	"testing"

	"github.com/brimgo/brim/internal/differ"
)

func TestNewDisk(t *testing.T) {
	for _, c := range []struct {
		number uint32
		blocks uint64
		size   uint64
		want   Disk
	}{
		{0xef53, 10, 4096, Disk{Free: 40960}}, // ext4
		{0x6969, 1, 1, Disk{Name: "NFS", Network: true, Free: 1}},
		{0xff534d42, 0, 512, Disk{Name: "CIFS", Network: true}},
		{0x01021994, 2, 1, Disk{Name: "tmpfs", Volatile: true, Free: 2}},
		{0xef53, math.MaxUint64, 4096, Disk{Free: math.MaxInt64}},
		{0xef53, 5, 0, Disk{Free: math.MaxInt64}},
	} {
		if d := differ.Fields(newDisk(c.number, c.blocks, c.size), c.want); d != "" {
			t.Errorf("%#x, %d blocks of %d: %s", c.number, c.blocks, c.size, d)
		}
	}
}
