package boltfile

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/vfs"
)

// A new file is made whole under a temporary name beside the file at whose path it will stand. Its
// maker holds its lock until the temporary name is gone. So a temporary file that nobody has locked
// was left by a process that was killed, and Open removes it.

const (
	tempMark   = ".new-"
	tempRandom = 16 // letters
	tempCheck  = 5  // bytes, which are 8 letters
)

// tempName returns a temporary name for a file named base.
func tempName(base string) string {
	random := rand.Text()[:tempRandom]
	return base + tempMark + random + checkOf(base, random)
}

// checkOf returns the end of a temporary name. No other program gives a file such a name by chance.
func checkOf(base, random string) string {
	sum := sha256.Sum256([]byte("brim's temporary file\x00" + base + "\x00" + random))
	return base32.StdEncoding.EncodeToString(sum[:tempCheck])
}

// isTempName reports whether tempName can have made name for a file named base.
func isTempName(name, base string) bool {
	rest, ok := strings.CutPrefix(name, base+tempMark)
	return ok && len(rest) > tempRandom && rest[tempRandom:] == checkOf(base, rest[:tempRandom])
}

// errSwept is the error of newTemp if other processes take each new file for one that was left.
var errSwept = errors.New("other processes remove each new file; try again")

// newTemp makes a file under a temporary name, for the path, and takes its lock. The errors of the
// file name the path, because it may stand there for long.
func newTemp(fsys vfs.FS, path string, mode fs.FileMode) (file vfs.File, temp string, err error) {
	dir, base := filepath.Split(path)
	for range 10 {
		temp = filepath.Join(dir, tempName(base))
		opened, err := fsys.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return nil, temp, err
		}
		// Until the file is locked, another process may take it for one that was left.
		err = lock(opened.Handle(), time.Time{})
		if err == nil && !stands(opened, temp) {
			err = errLocked
		}
		if err == nil {
			if file, err = opened.Named(path); err == nil {
				return file, temp, nil
			}
		}
		_ = opened.Close()
		if !errors.Is(err, errLocked) {
			_ = fsys.Remove(temp)
			return nil, temp, err
		}
	}
	return nil, temp, errSwept
}

// stands reports whether path is a name of the file itself, not of a link to it.
func stands(file vfs.File, path string) bool {
	info, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(info, now)
}

// Displaced reports whether another file, or none, has taken the place of a file at its path.
func Displaced(file vfs.File, path string) bool {
	info, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, now)
}

// hideTemp returns err with the path that the user gave in the place of a temporary one.
func hideTemp(err error, temp, path string) error {
	if err == nil || !strings.Contains(err.Error(), temp) {
		return err
	}
	msg := strings.ReplaceAll(err.Error(), temp, path)
	if link := (*os.LinkError)(nil); errors.As(err, &link) { // it names both paths
		msg = (&fs.PathError{Op: link.Op, Path: path, Err: link.Err}).Error()
	}
	return &fault{msg: msg, causes: []error{err}}
}

// sweep removes the temporary files that killed processes have left beside the file. It removes
// only files that have a temporary name, hold nothing or the beginning of a database, and are
// locked by nobody. It removes none on a system where it cannot learn the last.
func (f *File) sweep() {
	if !lockable {
		return
	}
	dir, base := filepath.Split(f.path)
	entries, _ := os.ReadDir(dir) // a directory that cannot be read is not swept
	for _, e := range entries {
		if e.Type().IsRegular() && isTempName(e.Name(), base) {
			f.removeLeft(filepath.Join(dir, e.Name()))
		}
	}
}

// removeLeft removes a temporary file if it was left. If it cannot, a later Open will.
func (f *File) removeLeft(temp string) {
	if stands(f.file, temp) { // its maker was killed after it had given this file its name
		_ = f.fs.Remove(temp)
		return
	}
	file, err := f.fs.OpenFile(temp, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	if lock(file.Handle(), time.Time{}) == nil && stands(file, temp) && unfinished(file) {
		_ = f.fs.Remove(temp)
	}
}

// unfinished reports whether a file can be one that create or Compact has begun: it is empty, or
// has zeros where a power failure took what was written, or begins with a meta page.
func unfinished(file io.ReaderAt) bool {
	var begin [pageHeader + 8]byte // the header, and the magic number and version of the meta page
	n, err := file.ReadAt(begin[:], 0)
	if err != nil && err != io.EOF {
		return false
	}
	if begin == [len(begin)]byte{} {
		return true
	}
	meta := begin[pageHeader:]
	return n == len(begin) && order.Uint32(meta) == bboltMagic && order.Uint32(meta[4:]) == bboltVersion
}
