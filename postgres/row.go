package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// row is a bucket as the statements for a group left it.
type row struct {
	updated  bool // by the UPDATE
	written  bool // by the UPDATE or the INSERT: rec is the bucket afterwards, and pre its level before
	answered bool // rec and clock are set
	rec      store.Record
	damage   error // of the row, in the place of rec
	pre      float64
	clock    int64 // of the statement, in microseconds
}

// columns are the columns that statements return, in types that scan without allocation.
type columns struct {
	level, pre, held, capacity, leakRate pgrun.Double
	atime, blocked, now                  pgrun.Instant
}

// written reads a row that update_one.sql, update_many.sql or insert.sql has written. A flush reads
// many, so written does without a scan; the driver looks up types for each value.
func (c *columns) written(raw [][]byte) (row, error) {
	for i, d := range [...]*pgrun.Double{&c.level, &c.pre, &c.held} {
		if err := d.ScanBytes(raw[1+i]); err != nil {
			return row{}, err
		}
	}
	err := c.now.ScanBytes(raw[4])
	return row{
		written: true, answered: true, pre: max(0, c.pre.Float64), clock: c.now.Micros,
		rec: store.Record{Level: c.level.Float64, Held: c.held.Float64, Time: c.now.Micros},
	}, err
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
