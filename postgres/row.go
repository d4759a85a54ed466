package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/brimgo/brim/internal/pgrun"
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
	level, pre, held, capacity, leakRate pgrun.Double
	atime, blocked, now                  pgrun.Instant
}

// keyed reads a row of try_fast.sql, without its key. A flush reads many, so keyed does without a
// scan; the driver looks up types for each value.
func (c *columns) keyed(r pgx.Rows) error {
	raw := r.RawValues()
	for i, d := range [...]*pgrun.Double{&c.level, &c.pre, &c.held} {
		if err := d.ScanBytes(raw[1+i]); err != nil {
			return err
		}
	}
	err := c.now.ScanBytes(raw[4])
	c.atime = c.now
	return err
}

// decided makes a row of the columns of a try or put statement.
func (c *columns) decided(written bool) row {
	r := row{
		answered: true, written: written, absent: !c.level.Valid,
		rec: c.record(), pre: max(0, c.pre.Float64), clock: c.now.Micros,
	}
	if r.absent {
		r.rec = store.NewRecord(r.clock)
	}
	return r
}

// settles reports that a refusal of the operation settles the bucket, which package store does under a
// lock: the rate last written is not that of the operation.
func (r *row) settles(op *store.Op) bool {
	return r.answered && !r.written && !r.absent && r.rec.LeakRate != op.LeakRate
}

// record makes a record of the columns of the fragment stored(). An absent block is 0.
func (c *columns) record() store.Record {
	return store.Record{
		Level: c.level.Float64, Held: c.held.Float64, Time: c.atime.Micros, BlockedUntil: c.blocked.Micros,
		Limit: store.Limit{Capacity: c.capacity.Float64, LeakRate: c.leakRate.Float64},
	}
}

// scanStored reads a row of read.sql or page.sql. The key is empty in a row that has only the
// time.
func scanStored(rows pgx.Rows) (key string, rec store.Record, clock int64, err error) {
	var c columns
	var k pgtype.Text
	err = rows.Scan(&k, &c.level, &c.atime, &c.held, &c.capacity, &c.leakRate, &c.blocked, &c.now)
	return k.String, c.record(), c.now.Micros, err
}
