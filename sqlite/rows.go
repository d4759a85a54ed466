package sqlite

import (
	"database/sql"
	"slices"

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

func (r *row) drop() { *r = row{stored: r.stored, written: r.stored} }

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
	s      *Store
	q      *sqliterun.Queries
	rows   map[string]*row
	skewed int // number of records whose time was not believed
}

func (s *Store) view(q *sqliterun.Queries) *view {
	return &view{s: s, q: q, rows: make(map[string]*row)}
}

// load reads the buckets of keys.
func (v *view) load(keys []string) error {
	missing := keys[:0:0]
	for _, key := range keys {
		if v.rows[key] == nil {
			v.rows[key] = new(row)
			missing = append(missing, key)
		}
	}
	return v.q.EachOf("read", missing, func(rows *sql.Rows) error {
		key, r, err := scan(rows)
		v.rows[key] = r
		return err
	})
}

// record returns the record of a bucket that load has read.
func (v *view) record(key string, now int64) (*store.Record, error) {
	r := v.rows[key]
	if r.damage != nil {
		return nil, r.damage
	}
	if !r.exists {
		r.rec = store.NewRecord(now)
	}
	return &r.rec, nil
}

// note notes whether a decision has changed the record of a bucket.
func (v *view) note(key string, effect store.Effect) {
	if effect&store.Write != 0 {
		r := v.rows[key]
		r.exists, r.written = true, true
	}
	if effect&store.Skewed != 0 {
		v.skewed++
	}
}

// end writes the buckets that have changed, in the order of their keys, and reports whether any has.
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
	if v.skewed > 0 {
		v.s.options.Logger.Warn("sqlite: buckets were dated further ahead of the clock than MaxSkew; "+
			"their time was set to the clock", "buckets", v.skewed, "max_skew", v.s.options.MaxSkew)
		v.skewed = 0
	}
	return changed, err
}
