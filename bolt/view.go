package bolt

import (
	"cmp"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/store"
)

// view decides operations within one bbolt transaction. However many operations use a record, the
// view decodes it once and puts it once, in write.
type view struct {
	layout        layout
	records, meta *bbolt.Bucket
	totals        boltfile.Totals
	damaged       map[string]boltfile.Sum // of the damaged records; nil until one is removed
	maxSkew       time.Duration
	keepTime      bool // the highest time is written; the time of an injected clock is not

	mem *resident // where the records are; nil if they are in the transaction

	entries map[string]*entry
	pool    []*entry // entries of earlier transactions, to be used again
	used    int      // the first entries of pool, which are in use
	dirty   []*entry
	key     []byte
	buf     [boltfile.TotalsSize]byte
	skewed  int  // number of records whose time was not believed
	wrote   bool // write has changed the transaction
}

// entry is the view's copy of a record.
type entry struct {
	key     string
	rec     store.Record
	present bool // the record exists after the decisions so far
	stored  bool // the record exists in the transaction
	dirty   bool
	touched bool         // changed by a decision
	cached  *cached      // the record in memory
	sum     boltfile.Sum // part of the stored record in the totals
	err     error        // of reading the stored record
	buf     [recordSize]byte
}

// keepEntries is the largest number of entries that a view keeps for the next transaction. A rare
// large transaction must not hold its memory for ever, or slow down every emptying of the map.
const keepEntries = 8192

// reset makes v a view of tx. The earlier transaction of v must have ended: bbolt refers to the
// buffers of v until then.
func (v *view) reset(tx *bbolt.Tx, l layout) (err error) {
	v.forget()
	if v.entries == nil {
		v.entries = make(map[string]*entry)
	}
	v.skewed, v.wrote, v.layout = 0, false, l
	v.records, v.meta, v.totals, err = l.open(tx)
	return err
}

// forget drops all entries and the transaction, so that v refers neither to the keys of callers
// nor to the pages that bbolt has copied into memory. The transaction must have ended.
func (v *view) forget() {
	v.records, v.meta, v.damaged = nil, nil, nil
	if v.used > keepEntries {
		v.entries, v.pool, v.dirty, v.used = nil, nil, nil, 0
		return
	}
	clear(v.entries)
	for _, e := range v.pool[:v.used] {
		*e = entry{}
	}
	clear(v.dirty)
	v.used, v.dirty = 0, v.dirty[:0]
}

// entry returns the entry of key. The first call for a key reads the record from the transaction.
func (v *view) entry(key string) *entry {
	if e := v.entries[key]; e != nil {
		return e
	}
	if v.used == len(v.pool) {
		v.pool = append(v.pool, new(entry))
	}
	e := v.pool[v.used]
	v.used++
	e.key = key
	v.load(e)
	v.entries[key] = e
	return e
}

// load reads the record of e. A page that cannot be read fails this record alone.
func (v *view) load(e *entry) {
	if v.mem != nil {
		e.cached, e.rec, e.present, e.err = v.mem.hold(e.key)
		e.stored = e.present || e.err != nil
		return
	}
	defer boltfile.Recover(&e.err)
	v.key = append(v.key[:0], e.key...)
	if value := v.records.Get(v.key); value != nil {
		e.stored, e.present = true, true
		e.rec, e.sum, e.err = v.layout.decodeRecord(v.key, value)
	}
}

// at returns the record of e for a decision at now.
func (e *entry) at(now int64) *store.Record {
	if !e.present {
		e.rec = store.NewRecord(now)
	}
	return &e.rec
}

// changed marks the effect of a decision on e.
func (v *view) changed(e *entry, effect store.Effect) {
	if effect&store.Write != 0 {
		e.present = true
		v.touch(e)
	}
	if effect&store.Skewed != 0 {
		v.skewed++
	}
}

func (v *view) touch(e *entry) {
	e.touched = true
	if !e.dirty {
		e.dirty = true
		v.dirty = append(v.dirty, e)
	}
}

func (v *view) fill(op *store.Op, now int64) (store.State, error) {
	e := v.entry(op.Key)
	if e.err != nil {
		return store.State{}, e.err
	}
	st, effect, err := e.at(now).Fill(op, now, v.maxSkew)
	v.changed(e, effect)
	return st, err
}

func (v *view) apply(txns []store.Txn, now int64) []store.Result {
	results := make([]store.Result, len(txns))
	for i, txn := range txns {
		results[i] = v.transact(txn, now)
	}
	return results
}

func (v *view) transact(txn store.Txn, now int64) store.Result {
	entries, records := make([]*entry, len(txn)), make([]*store.Record, len(txn))
	for i := range txn {
		e := v.entry(txn[i].Key)
		if e.err != nil {
			return store.Result{Err: e.err}
		}
		entries[i], records[i] = e, e.at(now)
	}
	res, effects := store.Decide(txn, records, now, v.maxSkew)
	for i, e := range entries {
		v.changed(e, effects[i])
	}
	return res
}

func (v *view) delete(keys []string) {
	for _, key := range keys {
		v.drop(v.entry(key))
	}
}

// drop removes a record. A damaged record is removed, too: no other call can remove it.
func (v *view) drop(e *entry) {
	if v.mem == nil && e.stored && e.err != nil {
		v.findDamaged()
		if sum, ok := v.damaged[e.key]; ok {
			e.sum = sum
		}
	}
	e.present, e.err = false, nil
	v.touch(e)
}

// findDamaged finds the parts of damaged records in the totals. The first call in a transaction
// reads all records. That is rare, because it happens only when a damaged record is removed.
func (v *view) findDamaged() {
	if v.damaged != nil {
		return
	}
	var err error // a page that cannot be read fails the commit
	defer boltfile.Recover(&err)
	v.damaged = make(map[string]boltfile.Sum)
	v.damaged = v.layout.table.Damaged(v.records, &v.totals)
}

// prune removes the buckets of keys that have expired by now, and returns their number.
func (v *view) prune(keys []string, now int64) (n int64) {
	for _, key := range keys {
		if e := v.entry(key); e.err == nil && e.present && e.rec.Expired(now, v.maxSkew) {
			v.drop(e)
			n++
		}
	}
	return n
}

// write puts all changed records into the transaction, in order of key, and reports whether there
// is anything to commit.
func (v *view) write(now int64) (wrote bool, err error) {
	changed := false
	slices.SortFunc(v.dirty, func(a, b *entry) int { return cmp.Compare(a.key, b.key) })
	v.records.FillPercent = v.fillPercent()
	for _, e := range v.dirty {
		e.dirty = false
		if !e.present && !e.stored {
			continue
		}
		changed = true
		if e.stored {
			v.totals.Remove(e.sum)
		}
		v.key = append(v.key[:0], e.key...)
		if e.stored = e.present; e.stored {
			e.sum = v.layout.encodeRecord(&e.buf, v.key, &e.rec)
			v.totals.Add(e.sum)
			err = v.records.Put(v.key, e.buf[:])
		} else {
			err = v.records.Delete(v.key)
		}
		if err != nil {
			return false, err
		}
	}
	v.dirty = v.dirty[:0]
	if !changed {
		return v.wrote, nil
	}
	v.wrote = true
	if v.keepTime {
		v.totals.Time = now
	}
	return true, v.layout.table.PutTotals(v.meta, &v.buf, &v.totals)
}

// A page that splits keeps room for later keys. If keys only ever come at the end, that room
// would stay empty for ever, so such pages are filled almost wholly.
const (
	fillBetween = bbolt.DefaultFillPercent
	fillAtEnd   = 0.95
)

func (v *view) fillPercent() float64 {
	for _, e := range v.dirty {
		if e.present && !e.stored {
			last, _ := v.records.Cursor().Last()
			if e.key > string(last) {
				return fillAtEnd
			}
			break
		}
	}
	return fillBetween
}
