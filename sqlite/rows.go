package sqlite

import (
	"database/sql"
	"slices"

	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/internal/sqliterun"
	"github.com/brimgo/brim/store"
)

// row is the row of a bucket as the decisions of a view have left it.
type row struct {
	rec     store.Record
	damage  error
	exists  bool // also after the changes of the view
	stored  bool // in the table
	written bool // differs from the table
}

// scan reads a row. One that cannot be a bucket is damage, never an empty bucket.
func scan(rows *sql.Rows) (key string, r *row, err error) {
	r = &row{exists: true, stored: true}
	rec := &r.rec
	err = rows.Scan(&key, &rec.Level, &rec.Held, &rec.Time, &rec.Capacity, &rec.LeakRate, &rec.BlockedUntil)
	if err == nil && rec.Validate() != nil {
		r.damage = sqliterun.Damagef("a bucket's row has a value out of range; Reset makes the bucket empty and usable again")
	}
	return key, r, err
}

// view decides on buckets. It reads each once, and writes it once, in end.
type view struct {
	records.View
	*table
	s *Store
}

// table is the buckets that a view has read.
type table struct {
	q    *sqliterun.Queries
	rows map[string]*row
}

func (s *Store) view(q *sqliterun.Queries) *view {
	t := &table{q, make(map[string]*row)}
	return &view{records.View{Table: t, MaxSkew: s.options.MaxSkew}, t, s}
}

// load reads the buckets of keys.
func (t *table) load(keys []string) error {
	missing := keys[:0:0]
	for _, key := range keys {
		if t.rows[key] == nil {
			t.rows[key] = new(row)
			missing = append(missing, key)
		}
	}
	return t.q.EachOf("read", missing, func(rows *sql.Rows) error {
		key, r, err := scan(rows)
		t.rows[key] = r
		return err
	})
}

// Record returns the record of a bucket that load has read.
func (t *table) Record(key string, now int64, _ *store.Record) (*store.Record, error) {
	r := t.rows[key]
	if r.damage != nil {
		return nil, r.damage
	}
	if !r.exists {
		r.rec = store.NewRecord(now)
	}
	return &r.rec, nil
}

// Put notes that a decision has changed a record.
func (t *table) Put(key string, _ *store.Record) {
	r := t.rows[key]
	r.exists, r.written = true, true
}

// Remove has end remove a bucket that load has read.
func (t *table) Remove(key string) error {
	r := t.rows[key]
	*r = row{stored: r.stored, written: r.stored}
	return nil
}

// Walk reads buckets, without the changes of the view.
func (t *table) Walk(from string, fn func(key string, r *store.Record) bool) error {
	return t.q.Each("scan", []any{from}, func(rows *sql.Rows) (bool, error) {
		key, r, err := scan(rows)
		if err != nil || r.damage != nil {
			return err == nil && fn(key, nil), err
		}
		return fn(key, &r.rec), nil
	})
}

// end writes the buckets that have changed, in the order of their keys, and reports whether any
// has.
func (v *view) end() (changed bool, err error) {
	var put []string
	for key, r := range v.rows {
		switch {
		case !r.written:
			continue
		case r.exists:
			put = append(put, key)
		default:
			if _, err := v.q.Exec("remove", key); err != nil {
				return false, err
			}
		}
		changed, r.written, r.stored = true, false, r.exists
	}
	slices.Sort(put)
	err = v.q.Insert("put", len(put), func(i int, args []any) []any {
		r := &v.rows[put[i]].rec
		return append(args, put[i], r.Level, r.Held, r.Time, r.Capacity, r.LeakRate, r.BlockedUntil)
	})
	if v.Skewed > 0 {
		v.s.options.Logger.Warn("sqlite: buckets were dated further ahead of the clock than MaxSkew; "+
			"their time was set to the clock", "buckets", v.Skewed, "max_skew", v.s.options.MaxSkew)
		v.Skewed = 0
	}
	return changed, err
}
