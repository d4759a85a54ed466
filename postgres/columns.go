package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// columns are the columns of a bucket behind its key, in the order in which read.sql and page.sql
// return them and write.sql takes them. Each is a field of a record. The only other column of the
// table is pre; see migrations/0001_buckets.up.sql.
//
// An INSERT leaves a column that it does not name to the default of the table, which must be the
// value of [store.NewRecord].
var columns = [...]column{
	number("level", func(r *store.Record) *float64 { return &r.Level }),
	instant("atime", func(r *store.Record) *int64 { return &r.Time }),
	number("held", func(r *store.Record) *float64 { return &r.Held }),
	number("capacity", func(r *store.Record) *float64 { return &r.Capacity }),
	number("leak_rate", func(r *store.Record) *float64 { return &r.LeakRate }),
	end("blocked_until", func(r *store.Record) *int64 { return &r.BlockedUntil }),
}

type column struct {
	name     string
	sql      string // its type
	leaves   string // the fragment in which it leaves the server
	read     func(r *store.Record, raw []byte) error
	argument func(recs []store.Record) any // the array of write.sql
}

// number is a double.
func number(name string, field func(*store.Record) *float64) column {
	return column{
		name: name, sql: "float8", leaves: "bits",
		read: func(r *store.Record, raw []byte) error {
			var d pgrun.Double
			err := d.ScanBytes(raw)
			*field(r) = d.Float64
			return err
		},
		argument: array(field, func(n float64) float64 { return n }),
	}
}

// instant is a time in microseconds since the Unix epoch.
func instant(name string, field func(*store.Record) *int64) column {
	return column{
		name: name, sql: "timestamptz", leaves: "instant",
		read: func(r *store.Record, raw []byte) error {
			var t pgrun.Instant
			err := t.ScanBytes(raw)
			*field(r) = t.Micros
			return err
		},
		argument: array(field, pgrun.Timestamp),
	}
}

// end is an instant, or null for 0.
func end(name string, field func(*store.Record) *int64) column {
	c := instant(name, field)
	c.argument = array(field, func(us int64) pgtype.Timestamptz {
		return pgtype.Timestamptz{Time: pgrun.Timestamp(us), Valid: us != 0}
	})
	return c
}

// array returns the function that makes an argument of a field of records.
func array[F, A any](field func(*store.Record) *F, argument func(F) A) func([]store.Record) any {
	return func(recs []store.Record) any {
		list := make([]A, len(recs))
		for i := range recs {
			list[i] = argument(*field(&recs[i]))
		}
		return list
	}
}

// columnFragments returns the fragments that follow from the list of columns:
//
//	stored(row)    the columns as they leave the server
//	assigned(row)  level = row.level, and so on for each column
//	rows(name)     the rows of the arguments: $1 has the keys, $2 an array of the first column ...
func columnFragments() []pgname.Fragment {
	var stored, assigned, names, unnested, arrays []string
	for i, c := range columns {
		stored = append(stored, fmt.Sprintf("{{%s({row}.%s)}}", c.leaves, c.name))
		assigned = append(assigned, fmt.Sprintf("%s = {row}.%[1]s", c.name))
		names = append(names, c.name)
		unnested = append(unnested, "p."+c.name)
		arrays = append(arrays, fmt.Sprintf("$%d::%s[] AS %s", i+2, c.sql, c.name))
	}
	list := func(items []string) string { return strings.Join(items, ", ") }
	rows := "(SELECT $1::text[] AS key, " + list(arrays) + " OFFSET 0) AS p\n" +
		"     CROSS JOIN LATERAL unnest(p.key, " + list(unnested) + ") AS {name} (key, " + list(names) + ")"
	return []pgname.Fragment{
		pgname.ParseFragment("-- stored(row)\n" + list(stored)),
		pgname.ParseFragment("-- assigned(row)\n" + list(assigned)),
		pgname.ParseFragment("-- rows(name)\n" + rows),
	}
}

// arguments returns the arguments of rows(), one element per record.
func arguments(keys []string, recs []store.Record) []any {
	args := []any{keys}
	for _, c := range columns {
		args = append(args, c.argument(recs))
	}
	return args
}

// record reads the columns of stored().
func record(raw [][]byte) (rec store.Record, err error) {
	for i, c := range columns {
		if err = c.read(&rec, raw[i]); err != nil {
			break
		}
	}
	return rec, err
}
