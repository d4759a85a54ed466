package boltfile

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/durable"
)

// Salvor knows the content of the tables of one package.
type Salvor interface {
	// Tables chooses the package's tables among those of a file. It may add some that the new file
	// must have.
	Tables(r *Remains) []*Table
	// Create makes the package's buckets for the tables in a new file.
	Create(tx *bbolt.Tx, tables []*Table) error
	// Name returns the kind and the key of the thing that a key of a table belongs to, for a
	// [Finding].
	Name(t *Table, key []byte) (what, name string)
	// Check returns the damage in the content of a value whose checksums are right, or nil.
	Check(t *Table, key, value []byte) error
	// Survey returns the damage to what the package keeps beside the file.
	Survey(r *Remains) ([]Finding, error)
	// Complete looks at the values that were carried over into a new file. It removes those that
	// must not count without others that are lost, and returns a finding for each thing that it has
	// removed and that is not among the findings so far. It may add values, and put totals whose
	// time counts.
	Complete(tx *bbolt.Tx, tables []*Table, r *Remains, so []Finding) ([]Finding, error)
}

// Report is the result of [Examine] or [Salvage].
type Report struct {
	Findings []Finding
	// Intact counts the intact values of each table by its name; after a Salvage, the values of the
	// new file, marks of withheld accounts included.
	Intact map[string]uint64
	// Whole is true after a Salvage if the new file holds all that the file held: the damage was in
	// pages whose values were found again, and the totals prove that none is missing.
	Whole bool
}

// Examine lists the damage in remains.
func Examine(ctx context.Context, r *Remains, salvors ...Salvor) (*Report, error) {
	rep := &Report{Findings: r.Findings, Intact: make(map[string]uint64)}
	named := make(map[[2]string]bool) // a thing with several damaged values is listed once
	add := func(s Salvor, t *Table, key []byte, doubtful bool, problem string) {
		what, name := s.Name(t, key)
		if id := [2]string{what, name}; !named[id] {
			named[id] = true
			rep.Findings = append(rep.Findings, Finding{What: what, Key: name, Doubtful: doubtful, Problem: problem})
		}
	}
	owners := make(map[string]Salvor)
	for _, s := range salvors {
		findings, err := s.Survey(r)
		if err != nil {
			return nil, err
		}
		rep.Findings = append(rep.Findings, findings...)
		for _, t := range s.Tables(r) {
			owners[string(t.name)] = s
			rep.Intact[string(t.name)] = r.Intact(t)
			r.Lost(t, func(key []byte, proven bool) {
				problem := "does not match its checksums"
				if !proven {
					problem = "does not match its checksums, and its key may be wrong"
				}
				add(s, t, key, !proven, problem)
			})
		}
	}
	err := r.Each(ctx, func(t *Table, key, value []byte) error {
		s := owners[string(t.name)]
		if s == nil {
			return nil
		}
		if err := s.Check(t, key, value); err != nil {
			add(s, t, key, false, err.Error())
			rep.Intact[string(t.name)]--
		}
		return nil
	})
	return rep, err
}

// ErrExists is the error of Salvage if there is a file at its target.
var ErrExists = errors.New("there is a file of that name; give a new one")

// Salvage writes the intact values of remains to a new file at path, and returns the list of the
// rest. It never replaces a file. The new file gets the mode and the owner of the old; it and its
// name are durable when Salvage returns.
func Salvage(ctx context.Context, r *Remains, path string, salvors ...Salvor) (rep *Report, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, fileError(err)
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, Unavailable(ErrExists.Error(), ErrExists)
	}
	if rep, err = Examine(ctx, r, salvors...); err != nil {
		return nil, err
	}
	file, temp, err := newTemp(path, 0o600)
	if err != nil {
		return nil, fileError(hideTemp(err, temp, path))
	}
	var db *bbolt.DB
	defer func() {
		if !lockable && db != nil { // such a system may refuse to remove an open file
			_ = guard(db.Close)
		}
		if rerr := os.Remove(temp); rerr != nil && err == nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = fileError(hideTemp(rerr, temp, path))
		}
		if db == nil {
			_ = file.Close()
		} else if cerr := guard(db.Close); err == nil {
			err = cerr
		}
	}()
	if err := resemble(file, r.info); err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, fileError(hideTemp(err, temp, path))
	}
	if db, err = openBolt(file, 0); err != nil {
		return nil, err
	}
	db.NoSync, db.NoGrowSync = true, true
	w := &salvage{Remains: r, ctx: ctx, db: db, report: rep, owners: make(map[string]Salvor), twice: make(map[string]bool)}
	if err := guard(func() error { return w.run(salvors) }); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fileError(hideTemp(err, temp, path))
	}
	if err := db.Sync(); err != nil {
		return nil, fileError(hideTemp(err, temp, path))
	}
	rep.Whole = r.whole(rep)
	if _, err := verifyTables(ctx, file); err != nil {
		return nil, fileError(hideTemp(err, temp, path))
	}
	if !lockable {
		if err := guard(db.Close); err != nil {
			return nil, fileError(hideTemp(err, temp, path))
		}
		db = nil
	}
	if err := linkNew(temp, path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, Unavailable(ErrExists.Error(), ErrExists)
		}
		return nil, fileError(hideTemp(err, temp, path))
	}
	return rep, fileErrorOrNil(durable.Dir(filepath.Dir(path)))
}

// verifyTables checks every page of a file and all of its tables.
func verifyTables(ctx context.Context, file *os.File) (*Census, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	m, err := readMeta(file, info.Size())
	if err != nil {
		return nil, err
	}
	var c Census
	if err := (&walker{ctx: ctx, r: file, meta: m, visit: c.Visit}).walk(); err != nil {
		return nil, err
	}
	return &c, c.Err()
}

func fileErrorOrNil(err error) error {
	if err == nil {
		return nil
	}
	return fileError(err)
}

// whole reports whether the totals of all tables prove that nothing was left out.
func (r *Remains) whole(rep *Report) bool {
	for _, f := range rep.Findings {
		if f.Key != "" || f.What == Journal {
			return false
		}
	}
	for _, t := range r.tables {
		if !t.complete || t.totals == nil {
			return false
		}
	}
	return r.Current && r.Listed
}

// salvage writes one new file.
type salvage struct {
	*Remains
	ctx    context.Context
	db     *bbolt.DB
	report *Report
	owners map[string]Salvor // by name of table
	twice  map[string]bool   // table, NUL and key of values that came twice with other contents
	batch  []carried
}

// carried is a value on its way into the new file.
type carried struct {
	table      *Table
	key, value []byte
}

func (w *salvage) run(salvors []Salvor) error {
	tables := make([][]*Table, len(salvors))
	for i, s := range salvors {
		tables[i] = s.Tables(w.Remains)
		for _, t := range tables[i] {
			w.owners[string(t.name)] = s
		}
		if err := w.db.Update(func(tx *bbolt.Tx) error { return s.Create(tx, tables[i]) }); err != nil {
			return err
		}
	}
	err := w.Each(w.ctx, func(t *Table, key, value []byte) error {
		s := w.owners[string(t.name)]
		if s == nil {
			return nil
		}
		if s.Check(t, key, value) != nil {
			return nil // listed by Examine
		}
		w.batch = append(w.batch, carried{t, bytes.Clone(key), bytes.Clone(value)})
		if len(w.batch) < copyBatch {
			return nil
		}
		return w.flush()
	})
	if err == nil {
		err = w.flush()
	}
	for i, s := range salvors {
		if err != nil {
			return err
		}
		err = w.db.Update(func(tx *bbolt.Tx) error {
			findings, err := s.Complete(tx, tables[i], w.Remains, w.report.Findings)
			w.report.Findings = append(w.report.Findings, findings...)
			return err
		})
		for _, t := range tables[i] {
			if err == nil {
				err = w.count(t)
			}
		}
	}
	return err
}

// flush writes the batch. Of a key that comes twice with other contents nobody knows the newer, so
// neither is carried over.
func (w *salvage) flush() error {
	err := w.db.Update(func(tx *bbolt.Tx) error {
		for _, c := range w.batch {
			b := tx.Bucket(c.table.name)
			b.FillPercent = copyFill
			id := string(c.table.name) + "\x00" + string(c.key)
			old := b.Get(c.key)
			var err error
			switch {
			case w.twice[id]:
			case old == nil:
				err = b.Put(c.key, c.value)
			case !bytes.Equal(old, c.value):
				w.twice[id] = true
				what, name := w.owners[string(c.table.name)].Name(c.table, c.key)
				w.report.Findings = append(w.report.Findings, Finding{
					What: what, Key: name, Problem: "was found twice with other contents",
				})
				w.report.Intact[string(c.table.name)] -= 2
				err = b.Delete(c.key)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	w.batch = w.batch[:0]
	return err
}

// count writes the totals of a table of the new file. Their time is the one of the old file, if
// that is known, or the one that Complete has put, if that is higher.
func (w *salvage) count(t *Table) error {
	totals := Totals{Time: w.time(t)}
	return w.db.Update(func(tx *bbolt.Tx) error {
		b, meta, err := t.Find(tx)
		if err != nil {
			return err
		}
		put, err := t.Totals(meta)
		if err != nil {
			return err
		}
		totals.Time = max(totals.Time, put.Time)
		c := b.Cursor()
		for key, value := c.First(); key != nil; key, value = c.Next() {
			_, s, _ := t.Open(key, value)
			totals.Add(s)
		}
		w.report.Intact[string(t.name)] = totals.count
		return t.PutTotals(meta, new([TotalsSize]byte), &totals)
	})
}

// time returns the highest time in the totals of a table, or 0.
func (r *Remains) time(t *Table) int64 {
	for _, c := range r.tables {
		if bytes.Equal(c.name, t.name) {
			totals, _ := t.DecodeTotals(c.totals)
			return totals.Time
		}
	}
	return 0
}
