package bolt

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/internal/memtable"
	"github.com/brimgo/brim/store"
)

// logged is the part of a [Store] that has a journal.
//
// A flush decides on copies of the buckets in memory, appends the changed records to the journal,
// and publishes them in memory when they are durable. A goroutine writes the changes to the file
// when a region of the journal is full, and records in the same commit the position up to which the
// file has all changes. Open replays the journal from that position.
type logged struct {
	s      *Store
	mem    *resident
	tables *memtable.Tables // of other packages: see Store.Tables
	path   string           // of the journal
	region int64            // of a journal that is made later; guarded by mem.deciding

	// Guarded by mem.deciding.
	log     *journal.Journal // nil until the second change
	began   bool             // the store was changed once
	without bool             // no journal could be made
	view    view
	body    []byte

	finished bool // the file needs the journal no more; guarded by mem.writing

	id       atomic.Pointer[journal.ID]       // of log
	released atomic.Pointer[journal.Position] // the file has all changes up to here
	asked    atomic.Uint64                    // generation of the journal that run was told of; 0 to tell it again
	full     chan struct{}                    // tells run that a region is full
	crowded  chan struct{}                    // tells run that memory has too many buckets
	end      chan struct{}                    // closed to end run
	ended    chan struct{}                    // closed when run has ended
}

func newLogged(s *Store, path string) *logged {
	l := &logged{
		s: s, mem: newResident(s), tables: memtable.New(), path: path, region: s.options.journalRegion,
		view: view{maxSkew: s.options.MaxSkew, layout: s.layout},
		full: make(chan struct{}, 1), crowded: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{}),
	}
	// Reads and refusals add buckets, too, and put nothing into the journal.
	l.mem.crowd = func() { tell(l.crowded) }
	return l
}

func (l *logged) newCombiner() (*combine.Combiner[request, reply], error) {
	return combine.New(l.flush, &combine.Options{
		// While an Update runs, callers wait in the queue, where the end of their contexts still
		// takes them back.
		Before:  func(int) error { return l.mem.lock(context.Background()) },
		After:   func(int) { l.mem.unlock() },
		Flushed: l.s.flushed(),
	})
}

// run writes changes to the file until the store is closed.
func (l *logged) run() {
	defer close(l.ended)
	for {
		select {
		case <-l.full:
		case <-l.crowded:
			if !l.mem.crowded() { // a write for a full region has made room meanwhile
				continue
			}
		case <-l.end:
			return
		}
		if err := l.writeBack(context.Background()); err != nil {
			l.asked.Store(0)
			l.s.options.Logger.Error("bolt: changes that the journal has could not be written to the file", "error", err)
		}
		l.mem.trim()
	}
}

// tell tells run that there is work. It does not wait for run.
func tell(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // run has not taken the word before
	}
}

// flush decides a batch. The combiner holds mem.deciding.
func (l *logged) flush(_ int, batch []*combine.Request[request, reply]) {
	v := &l.view
	l.begin(v)
	defer v.forget()
	now := l.s.clock.Now()
	for _, r := range batch {
		v.decide(r, now)
	}
	if v.skewed > 0 {
		l.s.warnSkew(v.skewed)
	}
	err := l.keep(&bucketChanges{l, v, now})
	if err == nil {
		return
	}
	failAll(batch, err)
}

// begin makes v a view of the buckets in memory.
func (l *logged) begin(v *view) {
	v.forget()
	if v.entries == nil {
		v.entries = make(map[string]*entry)
	}
	v.mem, v.skewed = l.mem, 0
}

// keep makes changes durable, and publishes them. If the error is [store.ErrUnknownOutcome], they
// may be durable; after any other error they are not.
func (l *logged) keep(c changes) error {
	// After a commit of unknown outcome memory has the old state, and the file may have the new one.
	// So a call that would change nothing in memory has no answer, either.
	if err := l.s.file.Usable(); err != nil {
		return err
	}
	if c.none() {
		return nil
	}
	if l.log == nil {
		return l.start(c)
	}
	l.body = c.append(l.body[:0])
	err := l.append()
	if errors.Is(err, journal.ErrFull) {
		if err = l.writeBack(context.Background()); err != nil {
			return boltfile.Unavailable(fmt.Sprintf("the journal is full, and the file could not be written: %v", err), err)
		}
		err = l.append()
	}
	switch {
	case err == nil:
		l.publish(c, true)
		l.relieve()
		return nil
	case errors.Is(err, journal.ErrUnsure):
		l.s.file.Refuse(fmt.Sprintf("the journal failed earlier (%v); close the store and open it again", err))
		return boltfile.Unsure(fmt.Sprintf("the journal failed when the change was written but not yet known to last: %v", err), err)
	}
	// Nothing was appended: the disk is full, or the change is larger than a region.
	return l.straight(c, nil)
}

func (l *logged) append() error {
	if p := l.released.Load(); p != nil {
		l.log.Release(*p)
	}
	return l.log.Append(l.body)
}

// relieve tells run when a region of the journal is full, or when memory has too many buckets.
//
// It tells run once of each region. Flushes go on while run writes, and if they told it again, it
// would write a second time for the few changes that came meanwhile.
func (l *logged) relieve() {
	if generation := l.log.End().Generation; l.log.Unreleased() && l.asked.Swap(generation) != generation {
		tell(l.full)
	}
	if l.mem.crowded() {
		tell(l.crowded)
	}
}

// publish makes changes visible to all callers at once. logged tells that the journal has them, and
// the file does not.
func (l *logged) publish(c changes, logged bool) {
	l.mem.several.Lock()
	defer l.mem.several.Unlock()
	c.publish(logged)
	if l.log != nil {
		l.mem.logged = l.log.End()
	}
}

// start makes changes durable while there is no journal. The first change of a store goes straight
// to the file, so a program that changes one bucket and ends makes no journal. The second one
// begins the journal.
func (l *logged) start(c changes) error {
	if !l.began || l.without {
		l.began = true
		return l.straight(c, nil)
	}
	log, err := journal.Create(l.path, &journal.Options{Region: l.region, Prepare: l.s.file.Resemble})
	if err != nil {
		l.without = true
		l.s.options.Logger.Warn("bolt: no journal could be made; each commit goes straight to the file", "error", err)
		return l.straight(c, nil)
	}
	id := log.ID()
	err = l.straight(c, &mark{ID: id, Position: log.End(), inUse: true})
	switch {
	case err == nil:
		l.log = log
		l.id.Store(&id)
		l.mem.several.Lock()
		l.mem.logged = log.End()
		l.mem.several.Unlock()
	case errors.Is(err, store.ErrUnknownOutcome): // the file may refer to the journal
		_ = log.Close()
	default:
		if rerr := log.Remove(); rerr != nil {
			l.s.options.Logger.Warn("bolt: an empty journal could not be removed", "error", rerr)
		}
	}
	return err
}

// straight commits changes to the file, together with those that it does not have yet. begins is
// nil, or the first mark of a journal.
func (l *logged) straight(c changes, begins *mark) error {
	_ = l.mem.writing.take(context.Background())
	defer l.mem.writing.give()
	// A view that began between the commit and its end would see some of the new values in the file
	// and, over others, the old ones in memory.
	held := l.tables.Hold()
	defer held.Release()
	w := l.collect(held)
	err := l.mem.commit(w.buckets, func(to *view) error {
		err := l.putTables(to, w.tables)
		if err == nil {
			err = c.write(to)
		}
		if err != nil {
			return err
		}
		if begins != nil {
			return to.putMark(*begins)
		}
		return l.mark(to, w.end)
	})
	l.settled(held, w, err)
	if err == nil {
		l.publish(c, false)
		l.release(w.end)
	}
	return err
}

// errPanicked is the error of an Update whose function has not returned.
var errPanicked = errors.New("the function of an Update panicked")

// update is Update of a store with a journal: one commit to the file, after which the file has all
// changes so far.
func (l *logged) update(ctx context.Context, run func(v *view) error) error {
	if err := l.mem.lock(ctx); err != nil {
		return err
	}
	defer l.mem.unlock()
	if err := l.mem.writing.take(ctx); err != nil {
		return err
	}
	defer l.mem.writing.give()
	if err := l.s.file.Lock(ctx); err != nil {
		return err
	}
	defer l.s.file.Unlock()
	w := l.gather()
	v := l.s.newView()
	err := errPanicked
	defer func() {
		if errors.Is(err, errPanicked) { // the next write takes the changes
			l.settle(w, err)
		}
	}()
	err = l.s.write(v, func() error {
		v.take(w.buckets)
		if err := l.putTables(v, w.tables); err != nil {
			return err
		}
		if err := run(v); err != nil {
			return err
		}
		// Callers go on to read the old records from memory until publish shows all the new ones.
		for _, e := range v.pool[:v.used] {
			if e.touched {
				e.cached, _, _, _ = l.mem.hold(e.key) // publish adds a bucket that cannot be read
			}
		}
		return l.mark(v, w.end)
	})
	l.settle(w, err)
	if err != nil {
		return err
	}
	l.release(w.end)
	l.mem.several.Lock()
	defer l.mem.several.Unlock()
	for _, e := range v.pool[:v.used] {
		if e.touched {
			l.mem.publish(e.cached, e.key, &e.rec, e.present, false)
		}
	}
	return nil
}

// close writes all changes to the file and removes the journal. If it fails, or if the file has
// refused all work, the journal stays, and the next Open needs it.
func (l *logged) close() error {
	close(l.end)
	<-l.ended
	_ = l.mem.lock(context.Background()) // an update of tables may be under way
	defer l.mem.unlock()
	defer l.mem.clear()
	if l.log == nil {
		return nil
	}
	if l.s.file.Usable() != nil {
		return l.log.Close()
	}
	if err := l.finish(); err != nil {
		_ = l.log.Close()
		return err
	}
	return l.log.Remove()
}
