package pgrun

import (
	"context"
	_ "embed" // for the statements
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgname"
)

var (
	//go:embed placement.sql
	placementFile string
	//go:embed placement_citus.sql
	citusFile string

	placement      = pgname.Names{}.Statement("placement", placementFile, nil)
	placementCitus = pgname.Names{}.Statement("placement_citus", citusFile, nil)
)

// Placement knows whether Citus keeps one of some tables on other servers. It asks the server
// until one of the tables exists, and then remembers the answer. Any number of goroutines may use
// it at once.
type Placement struct {
	schema string
	tables []string
	known  atomic.Pointer[placed]
}

// placed is the answer: the name of the first distributed table, or "".
type placed struct{ distributed string }

// NewPlacement returns the placement of tables in a schema.
func NewPlacement(schema string, tables ...string) *Placement {
	return &Placement{schema: schema, tables: tables}
}

// Distributed returns the name of a distributed table, or "" if there is none. Its statements never
// fail because of a table or a right that is missing, so that they do not end a transaction of the
// application.
func (p *Placement) Distributed(ctx context.Context, q Queryer) (string, error) {
	if known := p.known.Load(); known != nil {
		return known.distributed, nil
	}
	var tables int64
	var citus bool
	rows, err := q.Query(ctx, placement, p.schema, p.tables)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&tables, &citus}, func() error { return nil })
	}
	if err != nil || tables == 0 {
		return "", err
	}
	var found placed
	if citus {
		rows, err := q.Query(ctx, placementCitus, p.schema, p.tables)
		if err != nil {
			return "", err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return "", err
		}
		if len(names) > 0 {
			found.distributed = slices.Min(names)
		}
	}
	p.known.Store(&found)
	return found.distributed, nil
}
