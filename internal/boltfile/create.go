package boltfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// create makes a file at path with the buckets of l, unless there is a file by then. The file is
// made whole and durable under a temporary name first, so no process ever finds an empty or
// half-made file. If two processes create the file at once, one of them does.
func create(path string, l Layout, mode fs.FileMode) (err error) {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	temp := filepath.Join(dir, base+".new-"+rand.Text())
	file, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		// A rename has taken the temporary name away already.
		if rerr := os.Remove(temp); err == nil && rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
	}()
	db, err := openBolt(file, 0)
	if err != nil {
		_ = file.Close()
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error { return l.Create(tx) })
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := linkNew(temp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// linkNew gives the file at temp the name path, unless there is a file of that name.
func linkNew(temp, path string) error {
	err := os.Link(temp, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// Some file systems have no hard links.
	if rerr := renameNew(temp, path); rerr == nil || errors.Is(rerr, fs.ErrExist) {
		return rerr
	}
	return err
}
