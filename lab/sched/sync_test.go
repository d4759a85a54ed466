package sched

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

var syncSubject = &subject{
	name: "sync",
	random: func(r *rand.Rand) program {
		// SyncEvery, and the longest sync, in ms; the number of the sync that fails, or 0
		p := program{config: [4]int{1 + r.IntN(4), r.IntN(3), max(0, r.IntN(8)-4)}}
		actors := 2 + r.IntN(4)
		for range 3 + r.IntN(8) {
			c := randomCall(r, actors, "fill", 20)
			switch r.IntN(20) {
			case 0:
				c.do = "close"
			case 1, 2, 3:
				c.do = "sync"
			}
			p.calls = append(p.calls, c)
		}
		return p
	},
	begin: func(p program) world {
		return &syncWorld{
			program: p, start: time.Now(), rand: rand.New(rand.NewPCG(p.pauses, 0)), answers: make([]syncAnswer, len(p.calls)),
			closing: make(chan struct{}, 1),
		}
	},
}

// syncWorld is a file with SyncEvery on a disk that notes the syncs of the journal. The i-th call
// fills 1<<i units into one bucket, so its level tells which fills are there.
type syncWorld struct {
	program
	verdict
	dir     string
	s       *bolt.Store
	level   uint64 // of the file after a kill in the end
	answers []syncAnswer
	start   time.Time
	closing chan struct{} // holds a value while a call of Close works

	mu     sync.Mutex
	rand   *rand.Rand
	noting bool // between setup and finish
	order  int  // of all that is noted
	frames int  // written to the journal
	syncs  []syncNote
}

// syncNote is a sync of the journal.
type syncNote struct {
	begun, ended time.Duration
	last         int // the order of its end
	frames       int // that were written when it began
	err          error
}

type syncAnswer struct {
	begun, ended time.Duration
	first, last  int // the order of the beginning and the end
	frames       int // that were written when the call began; that of a fill is a later one
	err          error
}

// syncBucket never leaks, and is never full.
var syncBucket = store.Limit{Capacity: 1 << 40}.For("k")

func (w *syncWorld) open(path string) (*bolt.Store, error) {
	segment := kv.DefaultSegment
	vfs.Default, kv.DefaultSegment = syncDisk{w: w}, 64<<10
	defer func() { vfs.Default, kv.DefaultSegment = vfs.OS{}, segment }()
	return bolt.Open(path, &bolt.Options{SyncEvery: milliseconds(w.config[0]), PruneEvery: -1, Clock: time.Now})
}

func (w *syncWorld) setup() (err error) {
	if w.dir, err = os.MkdirTemp("", "sched-"); err != nil {
		return err
	}
	if w.s, err = w.open(filepath.Join(w.dir, "limits.db")); err != nil {
		return err
	}
	for range 2 { // the second change makes the journal
		if _, err := w.s.Fill(context.Background(), store.Op{Bucket: store.Limit{Capacity: 1}.For("first"), Amount: 1, Mode: store.Clamp}); err != nil {
			return err
		}
	}
	w.noting = true
	return nil
}

func (w *syncWorld) do(ctx context.Context, i int, c call) {
	a := &w.answers[i]
	a.begun, a.first, a.frames = w.note()
	switch c.do {
	case "fill":
		_, a.err = w.s.Fill(ctx, store.Op{Bucket: syncBucket, Amount: float64(uint64(1) << i), Mode: store.IfFits})
	case "sync":
		a.err = w.s.Sync(ctx)
	case "close":
		// Close waits for another one with a mutex. The time of the bubble would stand still
		// meanwhile.
		w.closing <- struct{}{}
		a.err = w.s.Close()
		<-w.closing
	}
	a.ended, a.last, _ = w.note()
}

// note returns the time, a number that rises with each call, and the number of frames.
func (w *syncWorld) note() (at time.Duration, order, frames int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order++
	return time.Since(w.start), w.order, w.frames
}

// finish opens a copy of the files, as a kill would leave them, and closes the store.
func (w *syncWorld) finish() {
	w.mu.Lock()
	w.noting = false
	w.mu.Unlock()
	killed := filepath.Join(w.dir, "killed.db")
	for _, suffix := range []string{"", kv.LogSuffix} {
		content, err := os.ReadFile(filepath.Join(w.dir, "limits.db") + suffix)
		if err == nil {
			err = os.WriteFile(killed+suffix, content, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.wrong("%v", err)
		}
	}
	s, err := w.open(killed)
	if err != nil {
		w.wrong("after a kill: %v", err)
		return
	}
	states, err := s.Read(context.Background(), syncBucket)
	if err != nil {
		w.wrong("after a kill: %v", err)
	} else {
		w.level = uint64(states[0].Level)
	}
	_ = s.Close()
	_ = w.s.Close() // fails after a sync that failed
}

func (w *syncWorld) check() error {
	defer func() { _ = os.RemoveAll(w.dir) }()
	forever := time.Hour
	failed, closed := forever, forever
	for _, n := range w.syncs {
		if n.err != nil {
			failed = min(failed, n.ended)
		}
	}
	for i, a := range w.answers {
		if w.calls[i].do == "close" {
			closed = min(closed, a.begun)
		}
	}
	for i, a := range w.answers {
		switch w.calls[i].do {
		case "fill":
			w.checkFill(i, min(failed, closed))
		case "sync":
			w.checkSync(a)
		}
		if a.begun > failed && a.err == nil && w.calls[i].do != "close" {
			w.wrong("call %d is accepted after a sync has failed", i)
		}
	}
	return w.verdict.err
}

// checkFill compares the answer of a fill with the file after a kill. It finds a sync of the fill
// within the interval, and the two syncs that may be in its way, unless the store has ended then.
func (w *syncWorld) checkFill(i int, end time.Duration) {
	a := w.answers[i]
	if there := w.level>>i&1 == 1; there != (a.err == nil) && !errors.Is(a.err, store.ErrUnknownOutcome) {
		w.wrong("after a kill, the file has fill %d: %v; its error was %v", i, there, a.err)
	}
	due := a.ended + milliseconds(w.config[0]+2*w.config[1])
	synced := slices.ContainsFunc(w.syncs, func(n syncNote) bool { return n.err == nil && n.frames > a.frames && n.ended <= due })
	if a.err == nil && !synced && due < end && due < time.Since(w.start) {
		w.wrong("no sync of fill %d, which was answered after %v, has ended %v later", i, a.ended, due-a.ended)
	}
}

// checkSync finds a sync of each fill that was answered before Sync was called, and that had ended
// before Sync returned.
func (w *syncWorld) checkSync(a syncAnswer) {
	if a.err != nil {
		return
	}
	for i, before := range w.answers {
		if w.calls[i].do != "fill" || before.err != nil || before.last > a.first {
			continue
		}
		if !slices.ContainsFunc(w.syncs, func(n syncNote) bool { return n.err == nil && n.frames > before.frames && n.last < a.last }) {
			w.wrong("Sync returned after %v without a sync of fill %d", a.ended, i)
		}
	}
}

// syncDisk is the file system of the world. Nothing but the journal is synced: the power stays on.
type syncDisk struct {
	vfs.OS
	w *syncWorld
}

func (d syncDisk) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := d.OS.OpenFile(name, flag, perm)
	return syncedFile{file, d.w, strings.Contains(name, kv.LogSuffix)}, err
}

func (syncDisk) SyncDir(string) error { return nil }

func (syncDisk) Attach(_ vfs.File, db *bbolt.DB) { db.NoSync, db.NoGrowSync = true, true }

type syncedFile struct {
	vfs.File
	w       *syncWorld
	journal bool
}

func (f syncedFile) Named(name string) (vfs.File, error) {
	file, err := f.File.Named(name)
	return syncedFile{file, f.w, f.journal}, err
}

func (f syncedFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	if f.journal && slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) { // not the zeros that make room
		f.w.mu.Lock()
		f.w.frames++
		f.w.mu.Unlock()
	}
	return n, err
}

func (syncedFile) Sync() error { return nil }

// SyncData takes a random time. One sync fails.
func (f syncedFile) SyncData() error {
	w := f.w
	w.mu.Lock()
	if !f.journal || !w.noting {
		w.mu.Unlock()
		return nil
	}
	n := syncNote{begun: time.Since(w.start), frames: w.frames}
	takes := milliseconds(w.config[1]) * time.Duration(w.rand.IntN(3)) / 2
	w.mu.Unlock()
	time.Sleep(takes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order++
	n.ended, n.last = time.Since(w.start), w.order
	if len(w.syncs)+1 == w.config[2] {
		n.err = syscall.EIO
	}
	w.syncs = append(w.syncs, n)
	return n.err
}
