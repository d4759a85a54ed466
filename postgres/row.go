package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/brimgo/brim/store"
)

// row is a bucket as a statement found or left it.
type row struct {
	answered bool // there is one
	written  bool // the statement wrote it: level, atime and held are those after, pre is the level before
	absent   bool
	rec      store.Record
	pre      float64
	clock    int64 // the statement's, in microseconds
}

// columns are what statements return, in a form that scans without allocation.
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

// decided makes a row of what the try and put statements return.
func (c *columns) decided(written bool) row {
	r := row{
		answered: true, written: written, absent: !c.level.Valid, pre: max(0, c.pre.Float64), clock: micros(c.now),
		rec: store.Record{Level: c.level.Float64, Held: c.held.Float64, Time: micros(c.atime), BlockedUntil: micros(c.blocked)},
	}
	if r.absent {
		r.rec = store.NewRecord(r.clock)
	}
	return r
}

// stored makes a record of what the read and scan statements return.
func (c *columns) stored() store.Record {
	return store.Record{
		Level: c.level.Float64, Held: c.held.Float64, Time: micros(c.atime), BlockedUntil: micros(c.blocked),
		Limit: store.Limit{Capacity: c.capacity.Float64, LeakRate: c.leakRate.Float64},
	}
}

// scanStored reads a row of read.sql or scan.sql. The key is empty where there was no such row, only the time.
func scanStored(rows pgx.Rows) (key string, rec store.Record, clock int64, err error) {
	var c columns
	var k pgtype.Text
	err = rows.Scan(&k, &c.level, &c.atime, &c.held, &c.capacity, &c.leakRate, &c.blocked, &c.now)
	return k.String, c.stored(), micros(c.now), err
}

func timestamp(us int64) time.Time { return time.UnixMicro(us) }
