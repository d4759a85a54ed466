package bolt

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// createFile makes an empty store at path, unless there is a file by then. It is made whole and durable under another name
// first, so that an empty or half-made file is never ours; of two processes that create it at once, one does.
func createFile(path string, l layout, mode fs.FileMode) (err error) {
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
		// Once it has its name, the temporary one goes.
		if rerr := os.Remove(temp); err == nil && rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
	}()
	db, err := openBolt(file, 0)
	if err != nil {
		_ = file.Close()
		return err
	}
	tx, err := db.Begin(true)
	if err == nil {
		if err = l.create(tx); err == nil {
			err = tx.Commit()
		} else {
			_ = tx.Rollback()
		}
	}
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
