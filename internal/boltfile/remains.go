package boltfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Finding is damage in a file, or a value that a salvage has left out.
type Finding struct {
	// What is the kind of the damaged thing: "bucket", "account" and "request" of a ledger, "page",
	// "meta page", "totals", "free pages", "file" or [Journal].
	What string
	// Key is the key of a bucket, an account or a request. Doubtful means that it may be wrong.
	Key      string
	Doubtful bool
	// Page is the number of a page, for the kinds that are pages.
	Page uint64
	// From and To bound the keys that a lost page held: from From up to, but not including, To. An
	// empty bound does not limit them. Of is the name of their bbolt bucket.
	From, To, Of string
	// Problem tells what is wrong, in a sentence without its subject.
	Problem string
}

// Journal is the What of a [Finding] about the journal of a file.
const Journal = "journal"

// Remains are the readable values of a file that may be damaged. They are read without bbolt, and
// the file is not changed.
//
// A page is live if the newest commit refers to it, or if no commit refers to it and the list of
// free pages, which is intact, does not name it either: the page that led to it is damaged. A value
// in a live page counts if both of its checksums are right. A page whose header names another page
// may have come there by a write that went astray, and so hold an older content. Its values count
// only if the totals of their table prove them.
type Remains struct {
	file   *os.File
	path   string // with symbolic links followed
	info   os.FileInfo
	meta   meta
	tables []*remaining

	// Findings lists the damage.
	Findings []Finding
	// Current is false if the values may be older than the last commit: a meta page is lost, or a
	// table differs from its totals although no damage can be seen.
	Current bool
	// Listed is false if the page that lists all buckets is damaged, so that whole tables may be
	// missing.
	Listed bool

	sound bool // no page is damaged
	done  uint64
	tell  func(done, total uint64)
}

// remaining is a table in remains.
type remaining struct {
	*counted
	suspect  Totals // of the values in pages whose header names another page
	carry    bool   // suspect values count
	complete bool   // the totals prove that nothing is missing
	lost     []lostValue
	marks    map[string][]byte // the intact values of the meta bucket but the totals
}

// lostValue is a damaged value of a table.
type lostValue struct {
	key    []byte
	proven bool // the key is intact
}

// ReadRemains reads the file at path, which it locks until Close. tell is called now and then with
// the number of pages that were read, and of all pages that will be read.
func ReadRemains(
	ctx context.Context, path string, lockTimeout time.Duration, tell func(done, total uint64),
) (r *Remains, err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fileError(err)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fileError(err)
	}
	r = &Remains{file: file, path: path, Listed: true, sound: true, tell: tell}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	if r.info, err = file.Stat(); err != nil {
		return nil, fileError(err)
	}
	if !r.info.Mode().IsRegular() {
		return nil, Unavailable("it is not a regular file; give the path of one", nil)
	}
	if err := lock(file, time.Now().Add(lockTimeout)); err != nil {
		if errors.Is(err, errLocked) {
			err = lockedError(lockTimeout)
		}
		return nil, fileError(err)
	}
	if err := r.readMetas(); err != nil {
		return nil, err
	}
	if err := r.walk(ctx, r.count); err != nil {
		return nil, err
	}
	r.judge()
	return r, nil
}

// Close unlocks the file.
func (r *Remains) Close() error { return r.file.Close() }

// Path returns the path of the file, with symbolic links followed.
func (r *Remains) Path() string { return r.path }

// Tables returns the tables of the file.
func (r *Remains) Tables() (tables []*Table) {
	for _, t := range r.tables {
		tables = append(tables, t.Table)
	}
	return tables
}

// Intact returns the number of intact values of a table.
func (r *Remains) Intact(t *Table) uint64 {
	for _, c := range r.tables {
		if bytes.Equal(c.name, t.name) {
			n := c.found.count - uint64(len(c.damaged))
			if c.carry {
				n += c.suspect.count
			}
			return n
		}
	}
	return 0
}

// Complete reports whether every value of a table is intact.
func (r *Remains) Complete(t *Table) bool {
	for _, c := range r.tables {
		if bytes.Equal(c.name, t.name) {
			return c.complete && len(c.damaged) == 0
		}
	}
	return false
}

// Known reports whether the totals of a table prove that all of its keys were found, those of
// damaged values included.
func (r *Remains) Known(t *Table) bool {
	for _, c := range r.tables {
		if bytes.Equal(c.name, t.name) {
			return c.complete
		}
	}
	return false
}

// Marked reports whether the meta bucket of a table has an intact value of that key.
func (r *Remains) Marked(t *Table, key []byte) bool { return r.Mark(t, key) != nil }

// Mark returns the body of the value of that key in the meta bucket of a table, or nil if there is
// none or if it is damaged.
func (r *Remains) Mark(t *Table, key []byte) []byte {
	for _, c := range r.tables {
		if bytes.Equal(c.name, t.name) {
			return c.marks[string(key)]
		}
	}
	return nil
}

// Lost calls f with the keys of the damaged values of a table. proven is false if the key itself
// may be damaged.
func (r *Remains) Lost(t *Table, f func(key []byte, proven bool)) {
	for _, c := range r.tables {
		if bytes.Equal(c.name, t.name) {
			for _, l := range c.lost {
				f(l.key, l.proven)
			}
		}
	}
}

// Each calls f with every intact value of every table. A key can come twice, with another value, if
// the damage hides which of them is the newer.
func (r *Remains) Each(ctx context.Context, f func(t *Table, key, value []byte) error) error {
	r.done = 0
	return r.walk(ctx, func(bucket, key, value []byte, suspect bool) error {
		t := r.owner(bucket, key, value)
		if t == nil || suspect && !t.carry {
			return nil
		}
		return f(t.Table, key, value)
	})
}

func (r *Remains) find(what Finding) { r.Findings = append(r.Findings, what) }

// readMetas chooses the meta page to go by. A single damaged byte in a meta page is mended, because
// its checksum tells which byte it was.
func (r *Remains) readMetas() error {
	size := r.info.Size()
	if size == 0 {
		return Damagef("it is empty, so nothing can be salvaged")
	}
	var pages [2]struct {
		raw []byte
		m   meta
		err error
	}
	read := func(i int, at int64) {
		p := &pages[i]
		p.raw = make([]byte, pageHeader+metaSize)
		if _, p.err = r.file.ReadAt(p.raw, at); p.err != nil {
			return
		}
		p.raw = p.raw[pageHeader:]
		if p.m, p.err = decodeMeta(p.raw); p.err != nil && mend(p.raw) {
			r.find(Finding{What: "meta page", Page: uint64(i), Problem: "has a damaged byte, which its checksum tells"})
			r.sound = false
			p.m, p.err = decodeMeta(p.raw)
		}
	}
	read(0, 0)
	if pages[0].err == nil {
		read(1, int64(pages[0].m.pageSize))
	} else {
		for page := int64(512); page <= 1<<20; page *= 2 { // the first page does not tell its size
			if read(1, page); pages[1].err == nil && int64(pages[1].m.pageSize) == page {
				break
			}
			pages[1].err = errPage("is not where it should be")
		}
	}
	a, b := pages[0], pages[1]
	r.Current = true
	switch {
	case a.err != nil && b.err != nil:
		return Damagef("both meta pages are damaged, or it is not a bbolt file, so nothing can be salvaged")
	case a.err != nil || b.err != nil:
		bad, good := 0, b
		if b.err != nil {
			bad, good = 1, a
		}
		r.meta, r.sound = good.m, false
		raw := pages[bad].raw
		// If the root page of both is the same, the last commit has changed nothing.
		same := len(raw) == metaSize && order.Uint64(raw[16:]) == good.m.root
		problem := "is damaged; the other meta page has the same content"
		if !same {
			r.Current = false
			problem = "is damaged, and the last commit may be lost with it"
		}
		r.find(Finding{What: "meta page", Page: uint64(bad), Problem: problem})
	default:
		r.meta = a.m
		if b.m.txid > a.m.txid {
			r.meta = b.m
		}
		if older := min(a.m.txid, b.m.txid); r.meta.txid-older != 1 || a.m.txid%2 != 0 {
			r.Current, r.sound = false, false
			r.find(Finding{
				What: "meta page", Page: 1 - r.meta.txid%2,
				Problem: fmt.Sprintf("belongs to commit %d and not to one beside commit %d; the last commit may be lost",
					older, r.meta.txid),
			})
		}
	}
	if limit := uint64(size) / uint64(r.meta.pageSize); r.meta.high > limit {
		r.sound = false
		r.find(Finding{What: "file", Problem: fmt.Sprintf("is cut short: %d pages of %d", limit, r.meta.high)})
		r.meta.high = limit
	}
	if r.meta.high < 2 {
		return Damagef("it has no pages behind its meta pages, so nothing can be salvaged")
	}
	return nil
}

// mend corrects the content of a meta page of which one byte is damaged.
func mend(m []byte) bool {
	for i := range m {
		was := m[i]
		for change := 1; change < 256; change++ {
			m[i] = was ^ byte(change)
			if _, err := decodeMeta(m); err == nil {
				return true
			}
		}
		m[i] = was
	}
	return false
}

// count is the visitor of the first pass.
func (r *Remains) count(bucket, key, value []byte, suspect bool) error {
	if name, ok := bytes.CutSuffix(bucket, []byte(metaSuffix)); ok {
		t := r.table(name)
		t.inMeta = true
		if bytes.Equal(key, totalsKey) {
			t.totals = bytes.Clone(value)
		} else if body, ok := t.OpenMeta(key, value); !ok {
			r.find(Finding{What: "totals", Of: string(bucket), Problem: "are accompanied by a damaged value"})
			r.sound = false
		} else {
			t.marks[string(key)] = append([]byte{}, body...) // nil would be no value
		}
		return nil
	}
	if bucket != nil {
		r.table(bucket)
	}
	t := r.owner(bucket, key, value)
	if t != nil {
		_, s, _ := t.Open(key, value)
		if suspect {
			t.suspect.Add(s)
		} else {
			t.found.Add(s)
		}
		return nil
	}
	if bucket == nil || suspect {
		return nil // in a damaged page; nothing tells that it ever was a value
	}
	t = r.table(bucket)
	s := t.Part(key, value)
	t.found.Add(s)
	t.damaged = append(t.damaged, s)
	t.lost = append(t.lost, lostValue{bytes.Clone(key), t.proves(key, value)})
	return nil
}

// table returns the table with that name.
func (r *Remains) table(name []byte) *remaining {
	for _, t := range r.tables {
		if bytes.Equal(t.name, name) {
			return t
		}
	}
	t := &remaining{counted: &counted{Table: NewTable(string(name))}, marks: make(map[string][]byte)}
	r.tables = append(r.tables, t)
	return t
}

// owner returns the table of an intact value: that of its bucket, or another one if the name of the
// bucket is lost. It returns nil for a damaged value.
func (r *Remains) owner(bucket, key, value []byte) *remaining {
	if bytes.HasSuffix(bucket, []byte(metaSuffix)) {
		return nil
	}
	var own *remaining
	for _, t := range r.tables {
		if bytes.Equal(t.name, bucket) && t.holds(key, value) {
			return t
		}
		if own == nil && t.holds(key, value) {
			own = t
		}
	}
	return own
}

func (t *remaining) holds(key, value []byte) bool {
	_, _, ok := t.Open(key, value)
	return ok
}

// judge compares the tables with their totals.
func (r *Remains) judge() {
	r.tables = slices.DeleteFunc(r.tables, func(t *remaining) bool {
		return !t.inMeta && t.found.count == uint64(len(t.damaged)) // a bucket that is no table
	})
	for _, t := range r.tables {
		totals, err := t.DecodeTotals(t.totals)
		switch {
		case err != nil:
			r.find(Finding{What: "totals", Of: string(t.name), Problem: "are damaged or missing"})
			t.complete = r.sound && len(t.damaged) == 0
			t.carry = !t.complete
		case t.settles(&totals, &t.found):
			t.complete = true
		default:
			all := t.found
			all.count, all.keys, all.values = all.count+t.suspect.count, all.keys+t.suspect.keys, all.values+t.suspect.values
			t.carry = t.suspect.count > 0 && t.settles(&totals, &all)
			if t.complete = t.carry; !t.complete {
				r.find(Finding{What: "totals", Of: string(t.name), Problem: fmt.Sprintf(
					"count %d values where %d were found, or other contents of them", totals.count, t.found.count)})
				if r.sound && len(t.damaged) == 0 {
					r.Current = false
				}
			}
		}
		if err != nil { // nothing proves a page that names another one
			t.carry = false
		}
		for i := range t.lost { // the totals prove all keys
			t.lost[i].proven = t.lost[i].proven || t.complete
		}
	}
	slices.SortFunc(r.tables, func(a, b *remaining) int { return strings.Compare(string(a.name), string(b.name)) })
}

func (t *remaining) settles(totals, found *Totals) bool {
	_, _, ok := totals.settle(found, t.damaged)
	return ok
}
