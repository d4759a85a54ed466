package boltfile

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

// Report is the result of an examination of a file that may be damaged.
type Report struct {
	// Verifier has the damaged values, and the number of intact ones.
	*Verifier
	// Damage is the first damage that can hide a value, or nil. Then the Verifier has not seen all
	// values.
	Damage error
	// Journal tells the damage to the journal of the file in a sentence without its subject. It is
	// empty if there is none.
	Journal string
}

// Examine reads the whole file at path, which it locks meanwhile and does not change. It returns
// the first damage that can hide a value, as [Open] finds it. err is that of a file that cannot be
// read.
func Examine(ctx context.Context, path string, lockTimeout time.Duration, check Check) (damage, err error) {
	file, err := vfs.OS{}.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, FileError(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := lockRegular(file, time.Now().Add(lockTimeout), lockTimeout); err != nil {
		return nil, FileError(err)
	}
	err = verifyAll(ctx, file, check)
	if errors.Is(err, store.ErrCorrupt) {
		return err, nil
	}
	return nil, err
}
