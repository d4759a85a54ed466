package pgrun

import (
	"cmp"
	"context"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// growth knows the size of the store's table, roughly.
//
// The server makes a plan when a statement is prepared, and keeps it until somebody analyzes the
// table. For a table of a few pages it plans to read all of them, and it would go on to read all
// of a table that has grown. Two means prevent that:
//
//   - Statements for several keys are planned by index while the table is small; see
//     [Runner.QueryByIndex]. That costs a lone statement a tenth of its time.
//   - So statements for one key, which read a table of some pages fast enough, get another text
//     when the table has grown, and with it a new plan. For a table of 16 pages and more, that is
//     a plan by index, whatever the statistics say.
type growth struct {
	pages   string    // see Options.Pages; empty where nobody asks
	resized func()    // the table has grown or shrunk by so much that plans are not to be kept
	start   time.Time // of the clock of next
	next    atomic.Int64
	class   atomic.Int32
}

// Pauses between two looks at the size of the table.
const (
	smallPause = time.Second // while plans may have to change soon
	largePause = time.Minute
)

// small is the first class of a table for which the planner chooses the index by itself. It takes
// the index for cheaper than 256 pages, whatever the number of keys.
const small = 2

// sizeClass maps up to 15 pages to 0, up to 255 to 1, up to 4095 to 2, and so on.
func sizeClass(pages int64) int32 { return int32(bits.Len64(uint64(pages>>4))+3) / 4 }

// Small reports whether the store's table is so small that statements for several keys must be
// sent by [Runner.QueryByIndex].
func (r *Runner) Small() bool { return r.growth.class.Load() < small }

// measure asks for the size of the table, now and then. Outside of a transaction the statement that
// follows reports an error as well.
func (r *Runner) measure(ctx context.Context, q Queryer) error {
	g := &r.growth
	now, next := int64(time.Since(g.start)), g.next.Load()
	if g.pages == "" || now < next || !g.next.CompareAndSwap(next, now+int64(smallPause)) {
		return nil
	}
	rows, err := q.Query(ctx, g.pages)
	if err != nil {
		return err
	}
	var pages pgtype.Int8
	if rows.Next() {
		err = rows.Scan(&pages)
	}
	rows.Close()
	if err := cmp.Or(rows.Err(), err); err != nil {
		return err
	}
	class := sizeClass(pages.Int64)
	if g.class.Swap(class) != class {
		g.resized()
	}
	if class >= small {
		g.next.Store(now + int64(largePause))
	}
	return nil
}
