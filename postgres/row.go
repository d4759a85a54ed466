package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/brimgo/brim/store"
)

// row is a bucket as a statement found it or left it.
type row struct {
	answered bool // the statement returned it
	written  bool // the statement wrote it: rec is the bucket afterwards, and pre its level before
	absent   bool // the bucket has no row
	rec      store.Record
	pre      float64
	clock    int64 // of the statement, in microseconds
}

// columns are the columns that statements return, in types that scan without allocation.
type columns struct {
	level, pre, held, capacity, leakRate pgtype.Float8
	atime, blocked, now                  pgtype.Timestamptz
}

func micros(t pgtype.Timestamptz) int64 {
	if !t.Valid {
		return 0
	}
	return t.Time.UnixMicro()
}

// decided makes a row of the columns of a try or put statement.
func (c *columns) decided(written bool) row {
	r := row{
		answered: true, written: written, absent: !c.level.Valid, pre: max(0, c.pre.Float64), clock: micros(c.now),
		rec: store.Record{
			Level: c.level.Float64, Held: c.held.Float64, Time: micros(c.atime), BlockedUntil: micros(c.blocked),
		},
	}
	if r.absent {
		r.rec = store.NewRecord(r.clock)
	}
	return r
}

// stored makes a record of the columns of read.sql or scan.sql.
func (c *columns) stored() store.Record {
	return store.Record{
		Level: c.level.Float64, Held: c.held.Float64, Time: micros(c.atime), BlockedUntil: micros(c.blocked),
		Limit: store.Limit{Capacity: c.capacity.Float64, LeakRate: c.leakRate.Float64},
	}
}

// scanStored reads a row of read.sql or scan.sql. The key is empty in a row that has only the
// time.
func scanStored(rows pgx.Rows) (key string, rec store.Record, clock int64, err error) {
	var c columns
	var k pgtype.Text
	err = rows.Scan(&k, &c.level, &c.atime, &c.held, &c.capacity, &c.leakRate, &c.blocked, &c.now)
	return k.String, c.stored(), micros(c.now), err
}
