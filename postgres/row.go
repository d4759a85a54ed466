package postgres

import (
	"encoding/binary"
	"math"

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
	level, pre, held, capacity, leakRate pgtype.Float8
	atime, blocked, now                  pgtype.Timestamptz
}

func micros(t pgtype.Timestamptz) int64 {
	if !t.Valid {
		return 0
	}
	return t.Time.UnixMicro()
}

// keyed reads a row of try_fast.sql, without its key. A flush reads many, so keyed decodes the
// binary format by itself; the driver looks up types for each value. Where the connection uses the
// text format, the driver decodes.
func (c *columns) keyed(r pgx.Rows) error {
	for _, f := range r.FieldDescriptions()[1:] {
		if f.Format != pgx.BinaryFormatCode {
			err := r.Scan(nil, &c.level, &c.pre, &c.held, &c.now)
			c.atime = c.now
			return err
		}
	}
	raw := r.RawValues()
	c.level, c.pre, c.held = float(raw[1]), float(raw[2]), float(raw[3])
	c.now = pgtype.Timestamptz{Time: pgrun.Timestamp(epoch + int64(binary.BigEndian.Uint64(raw[4]))), Valid: true}
	c.atime = c.now
	return nil
}

// epoch is the time from which PostgreSQL counts microseconds, 2000-01-01, in microseconds since
// the Unix epoch.
const epoch = 946_684_800_000_000

// float decodes a double in the binary format, or null.
func float(raw []byte) pgtype.Float8 {
	if raw == nil {
		return pgtype.Float8{}
	}
	return pgtype.Float8{Float64: math.Float64frombits(binary.BigEndian.Uint64(raw)), Valid: true}
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
