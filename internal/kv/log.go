package kv

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/brimgo/brim/internal/vfs"
)

// Errors of the log. The other errors are those of the file system.
var (
	// errFull means that nothing was appended, because the generation before is not released yet.
	errFull = errors.New("the journal is full")
	// errTooLarge means that nothing was appended, because the body fits in no segment.
	errTooLarge = errors.New("the body is larger than a segment of the journal")
	// errUnsure means that the body may have been appended or not. The log takes no more.
	errUnsure = errors.New("the journal could not be written or synced")
	// errNotRegular means that a link, a directory or a device stands in the place of the log.
	// Nothing was written to it.
	errNotRegular = errors.New("the journal is not a regular file")
	// errLogDamaged means that the log is not whole.
	errLogDamaged = errors.New("the journal is damaged")
	// errNewer means that the log has released frames after the position. So the database has gone
	// back to an older state.
	errNewer = errors.New("the journal goes on from a later position")
	// errOld means that an earlier version of brim has written the log.
	errOld = errors.New("an earlier version of brim has written the journal")
)

// DefaultSegment is the default of [Options.Segment]. A larger segment has more changes of one key,
// and so a checkpoint writes fewer pages for each. It is a variable for programs of this repository
// that test stores: the log then changes its segment often. Such a program sets it before it opens
// a store.
var DefaultSegment int64 = 32 << 20

// MaxSegment is the largest size of a segment. A larger one is damage.
const MaxSegment = 512 << 20

const (
	logMagic    = "brim journal\x00\x00\x00\x00"
	logVersion  = 3
	idSize      = 16
	logPage     = 4096                               // bytes before the first segment
	logHeadSize = len(logMagic) + 4 + idSize + 8 + 4 // magic, version, ID, segment, checksum
	fillStep    = 64 << 10                           // bytes by which a segment is filled with zeros; a disk may be almost full
	newSuffix   = ".new"                             // of the name of a log until it is whole
)

// logID names a log.
type logID [idSize]byte

// position is a place between two frames of a log. The zero position is before the first.
type position struct {
	generation uint64 // from 1
	offset     int64  // in the segment
	number     uint64 // of the next frame
}

// firstPosition is the position of the first frame.
var firstPosition = position{generation: 1}

// wal is a write-ahead log. A frame that is appended is durable when append returns or, in a lazy
// log, when a sync after that has returned. It is for one goroutine at a time, but for one more in
// sync.
//
// The file begins with a page that holds the ID. Two segments of one size follow. A segment holds
// the frames of one generation, and generations alternate between the two: while one fills, a
// checkpoint moves the content of the one before, whose segment the generation after it then
// overwrites. Blocks that were written once are overwritten in place, so a sync has no metadata of
// the file to write.
//
// A frame has a number, which goes on from frame to frame through all generations, and a checksum
// that is keyed with the ID. So neither the rest of an older generation nor bytes that a caller has
// chosen are taken for a frame. A frame also says how many of the frames before it were not synced
// when it was written. A power cut can tear or lose those in any combination: the first that is
// missing ends the log, and replay erases the frames behind it, so that they never follow another
// frame of that number. If a frame is missing that a later one knows as synced, the log is damaged.
type wal struct {
	fs       vfs.FS
	file     vfs.File
	path     string
	id       logID
	seed     uint32
	segment  int64
	end      position
	before   int64    // end of the generation before that of end
	released position // the database has all changes before it
	zeroed   [2]int64 // bytes of each segment that were written once
	failed   error
	buf      []byte
	lazy     bool          // append does not sync
	reading  bool          // nothing is written
	synced   atomic.Uint64 // all frames of lower numbers are durable
}

// createLog makes an empty log at path, durable with its name. prepare gives the file its owner and
// its mode. If a file is there, the error is [fs.ErrExist]. No two processes may create a log at
// one path at once.
func createLog(fsys vfs.FS, path string, segment int64, prepare func(vfs.File) error) (_ *wal, err error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	name := path + newSuffix
	_ = fsys.Remove(name)                                                    // a process that has ended left it
	file, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // O_EXCL follows no link
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = fsys.Remove(name)
		}
	}()
	if err := prepare(file); err != nil {
		return nil, err
	}
	w := &wal{fs: fsys, path: path, segment: segment, end: firstPosition, released: firstPosition}
	_, _ = rand.Read(w.id[:]) // it never fails
	w.seed = crc32.Checksum(w.id[:], castagnoli)
	page := make([]byte, logPage)
	copy(page, w.head())
	if _, err := file.WriteAt(page, 0); err != nil {
		return nil, err
	}
	// The file has its whole size from the beginning, so that no sync has to write the size.
	if err := file.Truncate(logPage + 2*segment); err != nil {
		return nil, err
	}
	if err := file.Sync(); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil { // Windows renames no open file
		return nil, err
	}
	if err := fsys.Rename(name, path); err != nil {
		return nil, err
	}
	name = path
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	w.file, err = openRegular(fsys, path, os.O_RDWR)
	return w, err
}

// openRegular opens the file at path. It follows no link: whoever can write to the directory could
// otherwise have a file changed that only this program can write to.
func openRegular(fsys vfs.FS, path string, flag int) (file vfs.File, err error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%w: it is a symbolic link", errNotRegular)
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	}
	if file, err = fsys.OpenFile(path, flag, 0); err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = fmt.Errorf("%w: another file took its place", errNotRegular)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// head returns the content of the first page of the file.
func (w *wal) head() []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, logHeadSize), logMagic...)
	b = le.AppendUint32(b, logVersion)
	b = append(b, w.id[:]...)
	b = le.AppendUint64(b, uint64(w.segment))
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// openLog opens the log at path. Its user calls replay before anything else. If there is no file,
// the error is [fs.ErrNotExist]. It follows no link. It also removes the rest of a createLog that
// did not end. If reading is true, the files stay as they are.
func openLog(fsys vfs.FS, path string, reading bool) (_ *wal, err error) {
	flag := os.O_RDWR
	if reading {
		flag = os.O_RDONLY
	} else if _, err := os.Lstat(path + newSuffix); err == nil {
		_ = fsys.Remove(path + newSuffix) // it does no harm if it stays
	}
	file, err := openRegular(fsys, path, flag)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	b := make([]byte, logHeadSize)
	if _, err := file.ReadAt(b, 0); err == io.EOF {
		return nil, fmt.Errorf("%w: it is cut short", errLogDamaged)
	} else if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if !bytes.HasPrefix(b, []byte(logMagic)) {
		return nil, fmt.Errorf("%w: it is not a journal of brim", errLogDamaged)
	}
	v := le.Uint32(b[len(logMagic):])
	if v > logVersion {
		return nil, fmt.Errorf("%w: a newer version of brim has written the journal in format %d", errors.ErrUnsupported, v)
	}
	if crc32.Checksum(b[:logHeadSize-4], castagnoli) != le.Uint32(b[logHeadSize-4:]) {
		return nil, fmt.Errorf("%w: its first page does not match its checksum", errLogDamaged)
	}
	if v < logVersion {
		return nil, fmt.Errorf("%w, in format %d", errOld, v)
	}
	w := &wal{fs: fsys, file: file, path: path, reading: reading}
	copy(w.id[:], b[len(logMagic)+4:])
	w.seed = crc32.Checksum(w.id[:], castagnoli)
	w.segment = int64(le.Uint64(b[len(logMagic)+4+idSize:]))
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if w.segment < logPage || w.segment > MaxSegment || w.segment%logPage != 0 {
		return nil, fmt.Errorf("%w: a segment of %d bytes makes no sense", errLogDamaged, w.segment)
	}
	if want := logPage + 2*w.segment; info.Size() != want {
		return nil, fmt.Errorf("%w: it has %d bytes instead of %d", errLogDamaged, info.Size(), want)
	}
	return w, nil
}

// at returns the offset in the file of an offset in the segment of a generation.
func (w *wal) at(generation uint64, offset int64) int64 {
	return logPage + int64(generation%2)*w.segment + offset
}

// append adds a body to the log, durably unless it is lazy. If the error is errUnsure, the body may
// be there or not; after any other error it is not there.
func (w *wal) append(body []byte) error {
	if w.failed != nil {
		return w.failed
	}
	size := frameSize(int64(len(body)))
	if size > w.segment {
		return errTooLarge
	}
	next, before := w.end, w.before
	if next.offset+size > w.segment {
		if w.released.generation != next.generation {
			return errFull
		}
		before = next.offset
		next = position{generation: next.generation + 1, number: next.number}
	}
	if err := w.fill(next, size); err != nil {
		return err
	}
	h := header{generation: next.generation, number: next.number, before: before, unsynced: next.number - w.synced.Load()}
	w.buf = appendFrame(w.buf[:0], w.seed, h, body)
	_, err := w.file.WriteAt(w.buf, w.at(next.generation, next.offset))
	if err == nil && !w.lazy {
		err = w.sync(next.number + 1)
	}
	if err != nil {
		w.failed = fmt.Errorf("%w: %w", errUnsure, err)
		return w.failed
	}
	w.end = position{generation: next.generation, offset: next.offset + size, number: next.number + 1}
	w.before = before
	return nil
}

// sync makes the frames below a number durable, which were written before the call. After an error,
// the log must not be used: Linux takes the pages for written, and the next sync would succeed.
func (w *wal) sync(below uint64) error {
	if w.synced.Load() == below {
		return nil
	}
	err := w.file.SyncData()
	if err == nil {
		w.synced.Store(below)
	}
	return err
}

var zeros = make([]byte, fillStep)

// fill writes zeros where a frame will stand for the first time, and well beyond it.
func (w *wal) fill(p position, size int64) error {
	done := &w.zeroed[p.generation%2]
	for *done < p.offset+size {
		n := min(fillStep, w.segment-*done)
		if _, err := w.file.WriteAt(zeros[:n], w.at(p.generation, *done)); err != nil {
			return err
		}
		*done += n
	}
	return nil
}

// unreleased reports whether the log keeps a generation before the newest. Until that is released,
// a segment that fills ends in errFull.
func (w *wal) unreleased() bool { return w.released.generation != w.end.generation }

// close closes the file.
func (w *wal) close() error { return w.file.Close() }

// remove closes the file and removes it, durably.
func (w *wal) remove() error {
	_ = w.file.Close() // first, since Windows removes no file that is open
	if err := w.fs.Remove(w.path); err != nil {
		return err
	}
	return w.fs.SyncDir(filepath.Dir(w.path))
}
