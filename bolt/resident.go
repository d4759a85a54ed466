package bolt

import (
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/store"
)

// resident keeps buckets in memory, where they are authoritative: the file may hold older records.
// A [Relaxed] store decides there and writes to the file once in a window. A [Store] with a journal
// changes a bucket there as soon as the journal has the change.
type resident struct {
	s        *Store
	most     int // number of unchanged buckets that a section keeps
	sections [sectionCount]section
	count    atomic.Int64 // of buckets
	// crowd is called where a bucket was added and memory is crowded. It must not block. It may be
	// nil.
	crowd func()

	// deciding is held by those who decide on copies of buckets, which must stay in memory
	// meanwhile. It is always taken before writing and before the lock of the file.
	deciding turn

	// several is held for reading by calls that change or read several buckets, and for writing
	// while changes are collected or published. So a commit has all buckets of a transaction or
	// none.
	several sync.RWMutex
	logged  journal.Position // the journal has all changes up to here; guarded by several

	writing turn // held during a write to the file; guards view
	view    view
}

const sectionCount = 256

// section holds a part of the buckets under a lock of its own.
type section struct {
	mu      sync.Mutex
	buckets map[string]*cached
	changed []*cached
	_       [24]byte
}

// cached is a bucket in memory.
type cached struct {
	key     string
	rec     store.Record
	present bool // the record exists
	changed bool // the bucket waits to be collected
	writing bool // the bucket was collected, and its commit has not succeeded yet
}

func newResident(s *Store) *resident {
	m := &resident{s: s, most: max(1, s.options.Cached/sectionCount), deciding: newTurn(), writing: newTurn()}
	m.view = *s.newView()
	for i := range m.sections {
		m.sections[i].buckets = make(map[string]*cached)
	}
	return m
}

// lock waits until nobody else decides on copies, or until ctx ends.
func (m *resident) lock(ctx context.Context) error { return m.deciding.take(ctx) }

func (m *resident) unlock() { m.deciding.give() }

// turn is a lock whose waiters may leave.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take locks t, or returns the error of ctx. It returns nil if ctx cannot end.
func (t turn) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil { // select would choose at random
		return err
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

func (m *resident) section(key string) *section {
	return &m.sections[maphash.String(m.s.seed, key)%sectionCount]
}

// get returns a bucket. It reads the bucket from the file if it is not in memory. The caller has
// locked the section.
func (m *resident) get(p *section, key string) (*cached, error) {
	if c := p.buckets[key]; c != nil {
		return c, nil
	}
	rec, stored, err := m.s.stored(key)
	if err != nil {
		return nil, err
	}
	c := m.add(p, key)
	c.rec, c.present = rec, stored
	return c, nil
}

// add adds a bucket that is not in memory. The caller has locked the section.
func (m *resident) add(p *section, key string) *cached {
	c := &cached{key: strings.Clone(key)}
	p.buckets[c.key] = c
	m.count.Add(1)
	if m.crowd != nil && m.crowded() {
		m.crowd()
	}
	return c
}

// crowded tells whether memory has more than twice as many buckets as Options.Cached.
func (m *resident) crowded() bool { return m.count.Load() > int64(2*m.s.options.Cached) }

// at returns the record of c for a decision at now.
func (c *cached) at(now int64) *store.Record {
	if !c.present {
		c.rec = store.NewRecord(now)
	}
	return &c.rec
}

// note marks the effect of a decision on c. The caller has locked the section.
func (m *resident) note(p *section, c *cached, effect store.Effect) {
	if effect&store.Write != 0 {
		c.present = true
		p.change(c)
	}
	if effect&store.Skewed != 0 {
		m.s.warnSkew(1)
	}
}

func (p *section) change(c *cached) {
	if !c.changed {
		c.changed = true
		p.changed = append(p.changed, c)
	}
}

// hold returns a bucket and a copy of its record. The caller has called lock, so the bucket stays
// in memory.
func (m *resident) hold(key string) (c *cached, rec store.Record, present bool, err error) {
	p := m.section(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, err = m.get(p, key); err != nil {
		return nil, rec, false, err
	}
	return c, c.rec, c.present, nil
}

// publish makes a change of a bucket visible. c is nil if hold could not read the bucket. changed
// tells that the file does not have the change yet. The caller holds several for writing.
func (m *resident) publish(c *cached, key string, rec *store.Record, present, changed bool) {
	p := m.section(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if c == nil {
		if c = p.buckets[key]; c == nil {
			c = m.add(p, key)
		}
	}
	c.rec, c.present = *rec, present
	if changed {
		p.change(c)
	}
}

// read returns the states of buckets as of now. If together is set, they are one snapshot.
func (m *resident) read(buckets []store.Bucket, together bool) ([]store.State, error) {
	if together {
		m.several.RLock()
		defer m.several.RUnlock()
	}
	states := make([]store.State, len(buckets))
	for i, b := range buckets {
		p := m.section(b.Key)
		p.mu.Lock()
		c, err := m.get(p, b.Key)
		if err != nil {
			p.mu.Unlock()
			return nil, err
		}
		now := m.s.clock.Now() // under the lock, so that it is no older than the record
		states[i] = c.at(now).State(b.Limit, now, m.s.options.MaxSkew)
		p.mu.Unlock()
	}
	return states, nil
}

// ask answers op if the answer changes nothing; otherwise ok is false.
func (m *resident) ask(op *store.Op) (st store.State, ok bool, err error) {
	m.several.RLock()
	defer m.several.RUnlock()
	p := m.section(op.Key)
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := m.get(p, op.Key)
	if err != nil {
		return st, false, err
	}
	now := m.s.clock.Now()
	rec := *c.at(now)
	st, effect, err := rec.Fill(op, now, m.s.options.MaxSkew)
	return st, effect == 0, err
}

// change is the state of a bucket when it was collected.
type change struct {
	*cached
	rec     store.Record
	present bool
}

// collect takes all changes, and returns the position of the journal behind them. No transaction
// is under way meanwhile, so collect takes all buckets of a transaction or none. It calls the
// function also at the same moment. The caller holds m.writing.
func (m *resident) collect(also func()) (changes []change, p journal.Position) {
	m.several.Lock()
	defer m.several.Unlock()
	also()
	for i := range m.sections {
		p := &m.sections[i]
		p.mu.Lock()
		for _, c := range p.changed {
			c.changed, c.writing = false, true
			changes = append(changes, change{cached: c, rec: c.rec, present: c.present})
		}
		clear(p.changed)
		p.changed = p.changed[:0]
		p.mu.Unlock()
	}
	return changes, m.logged
}

// settled ends the write of changes, which failed with err.
func (m *resident) settled(changes []change, err error) {
	for _, c := range changes {
		p := m.section(c.key)
		p.mu.Lock()
		c.writing = false
		if err != nil {
			p.change(c.cached)
		}
		p.mu.Unlock()
	}
}

// commit writes changes to the file in one transaction, which also has the values that the function
// more puts in. more may be nil. The caller holds m.writing.
func (m *resident) commit(changes []change, more func(v *view) error) error {
	if err := m.s.file.Lock(context.Background()); err != nil {
		return err
	}
	defer m.s.file.Unlock()
	defer m.view.forget()
	return m.s.write(&m.view, func() error {
		m.view.take(changes)
		if more != nil {
			return more(&m.view)
		}
		return nil
	})
}

// take puts changes into the view.
func (v *view) take(changes []change) {
	for i := range changes {
		c := &changes[i]
		v.set(c.key, &c.rec, c.present)
	}
}

// set puts rec in the place of the stored record, or removes the record if present is false.
func (v *view) set(key string, rec *store.Record, present bool) {
	e := v.entry(key)
	v.drop(e)
	if present {
		e.present, e.rec = true, *rec
	}
}

// trim forgets buckets of sections that hold more than they should keep.
func (m *resident) trim() {
	for i := range m.sections {
		p := &m.sections[i]
		p.mu.Lock()
		excess := len(p.buckets) - m.most
		p.mu.Unlock()
		if excess > 0 {
			m.evict(p, func(*cached) bool { excess--; return excess >= 0 })
		}
	}
}

// expire forgets the buckets that hold nothing any more.
func (m *resident) expire() {
	now := m.s.clock.Now()
	for i := range m.sections {
		m.evict(&m.sections[i], func(c *cached) bool {
			return !c.present || c.rec.Expired(now, m.s.options.MaxSkew)
		})
	}
}

// evict forgets the buckets for which gone is true, unless they have changes that are not in the
// file.
func (m *resident) evict(p *section, gone func(*cached) bool) {
	_ = m.lock(context.Background()) // a context that does not end fails no lock
	defer m.unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, c := range p.buckets {
		if !c.changed && !c.writing && gone(c) {
			delete(p.buckets, key)
			m.count.Add(-1)
		}
	}
}

// clear drops all buckets. The store is closed.
func (m *resident) clear() {
	for i := range m.sections {
		p := &m.sections[i]
		p.mu.Lock()
		p.buckets, p.changed = make(map[string]*cached), nil
		p.mu.Unlock()
	}
	m.count.Store(0)
}

// sortChanges sorts changes by key, so that commits of parts of them touch different pages.
func sortChanges(changes []change) {
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.key, b.key) })
}
