package postgres

import (
	"github.com/jackc/pgx/v5"

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

// readWritten reads a row that update_one.sql, update_many.sql or insert.sql has written.
func readWritten(raw [][]byte) (row, error) {
	var level, pre, held pgrun.Double
	for i, d := range [...]*pgrun.Double{&level, &pre, &held} {
		if err := d.ScanBytes(raw[1+i]); err != nil {
			return row{}, err
		}
	}
	var now pgrun.Instant
	err := now.ScanBytes(raw[4])
	return row{
		written: true, answered: true, pre: max(0, pre.Float64), clock: now.Micros,
		rec: store.Record{Level: level.Float64, Held: held.Float64, Time: now.Micros},
	}, err
}

// readStored reads a row of read.sql or page.sql: key, columns and time. The key is empty in a row
// that has only the time. readStored does without a scan, for which the driver looks up the type
// of each value.
func readStored(rows pgx.Rows) (key string, rec store.Record, clock int64, err error) {
	raw := rows.RawValues()
	rec, err = record(raw[1:])
	var now pgrun.Instant
	if err == nil {
		err = now.ScanBytes(raw[1+len(columns)])
	}
	return string(raw[0]), rec, now.Micros, err
}
