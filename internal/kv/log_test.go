package kv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/brimgo/brim/internal/vfs"
)

// small is the size of a segment that a few frames fill.
const small = logPage

// noSync is a file system that syncs no file. The power stays on in the tests that use it.
type noSync struct{ vfs.OS }

func (fsys noSync) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := fsys.OS.OpenFile(name, flag, perm)
	return unsynced{file}, err
}

type unsynced struct{ vfs.File }

func (unsynced) Sync() error     { return nil }
func (unsynced) SyncData() error { return nil }

// asIs leaves a file as it is.
func asIs(vfs.File) error { return nil }

func create(t testing.TB, segment int64) *wal {
	t.Helper()
	j, err := createLog(noSync{}, filepath.Join(t.TempDir(), "j"), segment, asIs)
	must(t, err)
	t.Cleanup(func() { _ = j.file.Close() })
	return j
}

// reopen opens the file of a journal again, as it is or with other content.
func reopen(t testing.TB, j *wal, content []byte) *wal {
	t.Helper()
	if content != nil {
		must(t, os.WriteFile(j.path, content, 0o600))
	}
	again, err := openLog(noSync{}, j.path, false)
	must(t, err)
	t.Cleanup(func() { _ = again.file.Close() })
	return again
}

func content(t testing.TB, j *wal) []byte {
	t.Helper()
	b, err := os.ReadFile(j.path)
	must(t, err)
	return b
}

// TestLeft: Open removes the rest of a Create that was killed.
func TestLeft(t *testing.T) {
	j := create(t, small)
	left := j.path + newSuffix
	must(t, os.WriteFile(left, []byte("begun"), 0o600))
	reopen(t, j, nil)
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

// TestAlmostFull: a body takes little more room than it needs, because the disk may be almost full
// and the user of the journal needs room elsewhere.
func TestAlmostFull(t *testing.T) {
	j := create(t, 1<<20)
	must(t, j.append([]byte("body")))
	if taken := j.zeroed[0] + j.zeroed[1]; taken > 64<<10 {
		t.Errorf("%d bytes are taken", taken)
	}
}

// bodies returns the bodies of a replay.
func bodies(j *wal, p position) (list []string, err error) {
	err = j.replay(p, func(body []byte) error { list = append(list, string(body)); return nil })
	return list, err
}

// TestModel appends, releases and crashes at random. The model is the list of bodies.
func TestModel(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(1, seed))
		j := create(t, small*(1+r.Int64N(3)))
		var want []string
		kept := j.end // everything before it is released
		skipped := 0
		for i := range 400 {
			switch body := fmt.Sprintf("%d %x", i, make([]byte, r.IntN(200))); {
			case r.IntN(10) == 0:
				kept, skipped = j.end, len(want)
				j.released = kept
			case r.IntN(10) == 0:
				var image []byte
				if torn := j.end; r.IntN(2) == 0 && torn.offset+frameSize(int64(len(body))) <= j.segment {
					image = content(t, j)
					h := header{generation: torn.generation, number: torn.number, before: j.before}
					frame := appendFrame(nil, j.seed, h, []byte(body))
					clear(image[j.at(torn.generation, torn.offset):][:len(frame)]) // as fill does
					copy(image[j.at(torn.generation, torn.offset):], frame[:r.IntN(len(body)+headerSize)])
				}
				j = reopen(t, j, image)
				got, err := bodies(j, kept)
				if err != nil || !slices.Equal(got, want[skipped:]) {
					t.Fatalf("seed %d, step %d: replay of %d bodies: %v; want %d", seed, i, len(got), err, len(want)-skipped)
				}
			default:
				err := j.append([]byte(body))
				if errors.Is(err, errFull) && j.unreleased() {
					kept, skipped = j.end, len(want)
					j.released = kept
					err = j.append([]byte(body))
				}
				if err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, i, err)
				}
				want = append(want, body)
			}
		}
	}
}

// TestDamage changes bytes of a journal of two generations. A frame that is not the last is
// never dropped in silence.
func TestDamage(t *testing.T) {
	j := create(t, small)
	var want []string
	for i := 0; j.end.generation < 2 || j.end.offset < 200; i++ {
		body := fmt.Sprintf("body %d %s", i, bytes.Repeat([]byte{'x'}, 90))
		must(t, j.append([]byte(body)))
		want = append(want, body)
	}
	whole := content(t, j)
	for i := 0; i < len(whole); i += 7 {
		if i > logHeadSize && i < logPage {
			i = logPage // nothing is there
		}
		image := slices.Clone(whole)
		image[i] ^= 0x10
		must(t, os.WriteFile(j.path, image, 0o600))
		again, err := openLog(noSync{}, j.path, false)
		if err != nil {
			if i >= logHeadSize {
				t.Fatalf("byte %d: %v", i, err)
			}
			continue
		}
		got, err := bodies(again, firstPosition)
		switch {
		case err != nil && !errors.Is(err, errLogDamaged):
			t.Fatalf("byte %d: %v", i, err)
		case err == nil && !slices.Equal(got, want) && !slices.Equal(got, want[:len(want)-1]):
			t.Fatalf("byte %d: %d bodies of %d without an error", i, len(got), len(want))
		case err == nil && i < logHeadSize:
			t.Fatalf("byte %d of the first page has changed, and nobody found it", i)
		}
		must(t, again.close())
	}
}

// TestForeignFrame: a frame that knows another end of the generation before than its neighbours do
// is damage, although its checksums are right.
func TestForeignFrame(t *testing.T) {
	j := create(t, small)
	must(t, j.append([]byte("own")))
	j.before += align
	must(t, j.append([]byte("foreign")))
	if got, err := bodies(reopen(t, j, nil), firstPosition); !errors.Is(err, errLogDamaged) {
		t.Errorf("%q, %v; want damage", got, err)
	}
}

// cached is a file as Linux keeps it: a sync brings the pages written since the last one to the
// disk, and a sync that fails takes them for written.
type cached struct {
	vfs.File
	disk  []byte
	dirty map[int64][]byte // by offset
	fail  error            // of the next sync
}

func (c *cached) WriteAt(b []byte, at int64) (int, error) {
	c.dirty[at] = bytes.Clone(b)
	return c.File.WriteAt(b, at)
}

func (c *cached) SyncData() error {
	err := c.fail
	if err == nil {
		for at, b := range c.dirty {
			copy(c.disk[at:], b)
		}
	}
	clear(c.dirty)
	c.fail = nil
	return err
}

// TestNewerFormat: a log of a newer version is told from a damaged one.
func TestNewerFormat(t *testing.T) {
	j := create(t, small)
	image := content(t, j)
	image[len(logMagic)] = logVersion + 1
	must(t, os.WriteFile(j.path, image, 0o600))
	if _, err := openLog(noSync{}, j.path, false); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error %v, want ErrUnsupported", err)
	}
}

// TestLastFrame fails the sync of a frame. The log takes nothing more, because the frame may be
// there. A replay finds the frame, and after that the disk has it.
func TestLastFrame(t *testing.T) {
	for frames := range 20 { // two segments: the last frame is the first of one, or any other
		t.Run(fmt.Sprint(frames), func(t *testing.T) {
			j := create(t, small)
			c := &cached{File: j.file, disk: content(t, j), dirty: make(map[int64][]byte)}
			j.file = c
			for i := range frames {
				must(t, j.append(make([]byte, 300+i)))
			}
			c.fail = errors.New("the disk fails")
			if err := j.append([]byte("last")); !errors.Is(err, errUnsure) {
				t.Fatalf("a sync that failed: %v", err)
			}
			if err := j.append([]byte("next")); !errors.Is(err, errUnsure) {
				t.Errorf("the next append: %v; want the error of the one that failed", err)
			}
			again := reopen(t, j, nil)
			c.File, again.file = again.file, c
			if got, err := bodies(again, firstPosition); err != nil || len(got) != frames+1 {
				t.Fatalf("%d bodies, %v; want %d", len(got), err, frames+1)
			}
			if got, err := bodies(reopen(t, j, c.disk), firstPosition); err != nil || len(got) != frames+1 {
				t.Errorf("the disk has %d bodies, %v; want %d", len(got), err, frames+1)
			}
		})
	}
}

// FuzzReplay replays damaged journals. It never panics, and replays only bodies that were
// appended, in their order.
func FuzzReplay(f *testing.F) {
	j := create(f, small)
	var want []string
	for i := range 30 {
		body := fmt.Sprintf("body %d of the journal", i)
		if err := j.append([]byte(body)); err != nil {
			f.Fatal(err)
		}
		want = append(want, body)
	}
	whole := content(f, j)
	f.Add(uint16(0), []byte{0})
	f.Add(uint16(40), []byte("brim"))
	f.Add(uint16(logPage), bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, at uint16, patch []byte) {
		path := filepath.Join(t.TempDir(), "j")
		image := slices.Clone(whole)
		copy(image[int(at)%len(image):], patch)
		must(t, os.WriteFile(path, image, 0o600))
		again, err := openLog(noSync{}, path, false)
		if err != nil {
			return
		}
		defer func() { _ = again.close() }()
		got, err := bodies(again, firstPosition)
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("%d bodies, %v", len(got), err)
		}
	})
}
