package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/brimgo/brim/internal/durable"
)

// Errors of this package. The other errors are those of the file system.
var (
	// ErrFull means that nothing was appended, because the generation before is not released yet.
	ErrFull = errors.New("the journal is full")
	// ErrTooLarge means that nothing was appended, because the body fits in no region.
	ErrTooLarge = errors.New("the body is larger than a region of the journal")
	// ErrUnsure means that the body may have been appended or not. The journal takes no more.
	ErrUnsure = errors.New("the journal could not be written or synced")
	// ErrNotRegular means that a link, a directory or a device stands in the place of the journal.
	// Nothing was written to it.
	ErrNotRegular = errors.New("the journal is not a regular file")
	// ErrDamaged means that the journal is not whole.
	ErrDamaged = errors.New("the journal is damaged")
	// ErrNewer means that the journal has released what comes after the position. So its user has
	// gone back to an older state.
	ErrNewer = errors.New("the journal goes on from a later position")
)

// DefaultRegion is the default of [Options.Region]. Two regions of lone small bodies are read in
// some 0.1 s. It is a variable for programs of this repository that attack stores: small regions
// take turns often. Such a program sets it before it opens a store.
var DefaultRegion int64 = 8 << 20

const (
	magic     = "brim journal\x00\x00\x00\x00"
	version   = 1
	idSize    = 16
	pageSize  = 4096
	firstPage = len(magic) + 4 + idSize + 8 + 4 // magic, version, ID, region, checksum
	step      = 64 << 10                        // bytes by which a region is filled with zeros; a disk may be almost full
)

// ID names a journal.
type ID [idSize]byte

func (id ID) String() string { return hex.EncodeToString(id[:4]) }

// Position is a place between two frames of a journal. The zero Position is before the first.
type Position struct {
	Generation uint64 // from 1
	Offset     int64  // in the region
	Number     uint64 // of the next frame
}

// Options are the choices of [Create]. A nil *Options means all defaults.
type Options struct {
	Region  int64                // size of a region in bytes, a multiple of 4096; 0 means DefaultRegion
	Prepare func(*os.File) error // gives the file its owner and its mode, which is 0600 otherwise; may be nil
}

// Journal is an open journal. It is for one goroutine at a time.
type Journal struct {
	file     *os.File
	path     string
	id       ID
	seed     uint32
	region   int64
	end      Position
	before   int64    // end of the generation before that of end
	released Position // everything before it is of no use any more
	zeroed   [2]int64 // bytes of each region that were written once
	failed   error
	buf      []byte
	reading  bool // nothing is written
}

// start is the position of the first frame.
var start = Position{Generation: 1}

// newSuffix makes the name of a journal until it is whole. A file with that name was left by a
// process that has ended: Open and Create remove it.
const newSuffix = ".new"

// Create makes an empty journal at path, durable with its name. If a file is there, the error is
// [fs.ErrExist]. No two processes may create a journal at one path at once.
func Create(path string, o *Options) (_ *Journal, err error) {
	if o == nil {
		o = &Options{}
	}
	region := o.Region
	if region == 0 {
		region = DefaultRegion
	}
	if region < pageSize || region > maxBody || region%pageSize != 0 {
		return nil, fmt.Errorf("a region of %d bytes; want a multiple of %d up to %d", region, pageSize, maxBody)
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	name := path + newSuffix
	_ = os.Remove(name)
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // O_EXCL follows no link
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = os.Remove(name)
		}
	}()
	if o.Prepare != nil {
		if err := o.Prepare(file); err != nil {
			return nil, err
		}
	}
	j := &Journal{file: file, path: path, region: region, end: start, released: start}
	_, _ = rand.Read(j.id[:]) // it never fails
	j.seed = crc32.Checksum(j.id[:], castagnoli)
	page := make([]byte, pageSize)
	copy(page, j.firstPage())
	if _, err := file.WriteAt(page, 0); err != nil {
		return nil, err
	}
	// The file has its whole size from the beginning, so that no sync has to write the size.
	if err := file.Truncate(pageSize + 2*region); err != nil {
		return nil, err
	}
	if err := file.Sync(); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil { // Windows renames no open file
		return nil, err
	}
	if err := os.Rename(name, path); err != nil {
		return nil, err
	}
	name = path
	if err := durable.Dir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	j.file, err = openFile(path, os.O_RDWR)
	return j, err
}

// openFile opens the file at path. It follows no link: whoever can write to the directory could
// otherwise have a file changed that only this program can write to.
func openFile(path string, flag int) (file *os.File, err error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%w: it is a symbolic link", ErrNotRegular)
	case !info.Mode().IsRegular():
		return nil, ErrNotRegular
	}
	if file, err = os.OpenFile(path, flag, 0); err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = fmt.Errorf("%w: another file took its place", ErrNotRegular)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// firstPage returns the content of the first page of the file.
func (j *Journal) firstPage() []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, firstPage), magic...)
	b = le.AppendUint32(b, version)
	b = append(b, j.id[:]...)
	b = le.AppendUint64(b, uint64(j.region))
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// Open opens the journal at path. Its user calls [Journal.Replay] before anything else. If there is
// no file, the error is [fs.ErrNotExist]. It follows no link. Open also removes the rest of a Create
// that did not end.
func Open(path string) (*Journal, error) {
	_ = os.Remove(path + newSuffix) // it does no harm if it stays
	return open(path, os.O_RDWR)
}

// OpenToRead is Open for a journal that stays as it is. Its user may call Replay and Close.
func OpenToRead(path string) (*Journal, error) {
	j, err := open(path, os.O_RDONLY)
	if err == nil {
		j.reading = true
	}
	return j, err
}

func open(path string, flag int) (_ *Journal, err error) {
	file, err := openFile(path, flag)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	b := make([]byte, firstPage)
	if _, err := file.ReadAt(b, 0); err == io.EOF {
		return nil, fmt.Errorf("%w: it is cut short", ErrDamaged)
	} else if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if !bytes.HasPrefix(b, []byte(magic)) {
		return nil, fmt.Errorf("%w: it is not a journal of brim", ErrDamaged)
	}
	if v := le.Uint32(b[len(magic):]); v > version {
		return nil, fmt.Errorf("%w: a newer version of brim has written the journal in format %d", errors.ErrUnsupported, v)
	}
	if crc32.Checksum(b[:firstPage-4], castagnoli) != le.Uint32(b[firstPage-4:]) {
		return nil, fmt.Errorf("%w: its first page does not match its checksum", ErrDamaged)
	}
	j := &Journal{file: file, path: path}
	copy(j.id[:], b[len(magic)+4:])
	j.seed = crc32.Checksum(j.id[:], castagnoli)
	j.region = int64(le.Uint64(b[len(magic)+4+idSize:]))
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if want := pageSize + 2*j.region; info.Size() != want {
		return nil, fmt.Errorf("%w: it has %d bytes instead of %d", ErrDamaged, info.Size(), want)
	}
	return j, nil
}

// ID returns the name of the journal.
func (j *Journal) ID() ID { return j.id }

// Path returns the path of the file.
func (j *Journal) Path() string { return j.path }

// End returns the position after the last frame.
func (j *Journal) End() Position { return j.end }

// at returns the offset in the file of an offset in the region of a generation.
func (j *Journal) at(generation uint64, offset int64) int64 {
	return pageSize + int64(generation%2)*j.region + offset
}

// Append adds a body to the journal, durably. If the error is [ErrUnsure], the body may be there or
// not; after any other error it is not there.
func (j *Journal) Append(body []byte) error {
	if j.failed != nil {
		return j.failed
	}
	size := frameSize(len(body))
	if size > j.region {
		return ErrTooLarge
	}
	next, before := j.end, j.before
	if next.Offset+size > j.region {
		if j.released.Generation != next.Generation {
			return ErrFull
		}
		before = next.Offset
		next = Position{Generation: next.Generation + 1, Number: next.Number}
	}
	if err := j.fill(next, size); err != nil {
		return err
	}
	h := header{generation: next.Generation, number: next.Number, before: before}
	j.buf = appendFrame(j.buf[:0], j.seed, h, body)
	_, err := j.file.WriteAt(j.buf, j.at(next.Generation, next.Offset))
	if err == nil {
		err = durable.Data(j.file)
	}
	if err != nil {
		j.failed = fmt.Errorf("%w: %w", ErrUnsure, err)
		return j.failed
	}
	j.end = Position{Generation: next.Generation, Offset: next.Offset + size, Number: next.Number + 1}
	j.before = before
	return nil
}

var zeros = make([]byte, step)

// fill writes zeros where a frame will stand for the first time, and well beyond it.
func (j *Journal) fill(p Position, size int64) error {
	done := &j.zeroed[p.Generation%2]
	for *done < p.Offset+size {
		n := min(step, j.region-*done)
		if _, err := j.file.WriteAt(zeros[:n], j.at(p.Generation, *done)); err != nil {
			return err
		}
		*done += n
	}
	return nil
}

// Release tells the journal that everything before p is durable elsewhere. Position p is never
// before the position of an earlier call.
func (j *Journal) Release(p Position) { j.released = p }

// Released returns the position of the last Release, or of Replay.
func (j *Journal) Released() Position { return j.released }

// Unreleased reports whether the journal keeps a generation before the newest. Until that is
// released, a region that fills ends in [ErrFull].
func (j *Journal) Unreleased() bool { return j.released.Generation != j.end.Generation }

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// Remove closes the file and removes it, durably.
func (j *Journal) Remove() error {
	_ = j.file.Close() // first, since Windows removes no file that is open
	if err := os.Remove(j.path); err != nil {
		return err
	}
	return durable.Dir(filepath.Dir(j.path))
}
