package pgrun

import (
	"context"
	_ "embed" // for the statement
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/sleep"
	"github.com/brimgo/brim/store"
)

//go:embed check_open.sql
var checkOpenFile string

// old is the age at which an open transaction is a finding. Every transaction of a store is
// younger, unless it waits.
const old = 3 * time.Second

// openTransaction is a transaction of somebody else; see check_open.sql.
type openTransaction struct {
	PID            *int32
	GID            *string
	Identity       string
	ID             *string
	Touches        bool
	User, Database string
	Seconds        *float64
	State, Query   *string
}

// Open finds the transactions that hold rows of tables up, in the schema of k, and if ids is set
// those anywhere on the server that have a transaction id: while one is open, the space of old
// versions of rows is not used again. It reports whether there are any. The age of another user's
// transaction is hidden from a user without pg_read_all_stats; Open then looks twice, with a pause
// between. Each look asks on a connection that look lends.
func (k *Check) Open(ctx context.Context, ids bool, tables []string, look func(func(context.Context, *pgx.Conn) error) error) (found bool, err error) {
	var all []openTransaction
	ask := func() error {
		return look(func(ctx context.Context, conn *pgx.Conn) error {
			rows, err := conn.Query(ctx, k.Names.Statement("check_open", checkOpenFile, nil), Plain, tables)
			if err == nil {
				all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[openTransaction])
			}
			all = slices.DeleteFunc(all, func(o openTransaction) bool {
				return !o.Touches && !ids || o.Seconds != nil && *o.Seconds < old.Seconds()
			})
			return err
		})
	}
	if err := ask(); err != nil {
		return false, err
	}
	if first := all; slices.ContainsFunc(all, func(o openTransaction) bool { return o.Seconds == nil }) {
		if err := sleep.For(ctx, old); err != nil {
			return false, err
		}
		if err := ask(); err != nil {
			return false, err
		}
		all = slices.DeleteFunc(all, func(o openTransaction) bool {
			return !slices.ContainsFunc(first, func(before openTransaction) bool { return before.Identity == o.Identity })
		})
	}
	for i := range all {
		k.addOpen(&all[i], tables)
	}
	return len(all) > 0, nil
}

// addOpen adds the finding of a transaction.
func (k *Check) addOpen(o *openTransaction, tables []string) {
	holder, end := "", ""
	if o.GID != nil {
		holder = fmt.Sprintf("the prepared transaction %s", pgname.Literal(*o.GID))
		end = fmt.Sprintf("`ROLLBACK PREPARED %s` in that database, unless its coordinator ends it", pgname.Literal(*o.GID))
	} else if o.PID != nil {
		holder = fmt.Sprintf("the session with the pid %d", *o.PID)
		end = fmt.Sprintf("`SELECT pg_terminate_backend(%d)`, unless its program ends it", *o.PID)
	}
	if o.ID != nil {
		holder += fmt.Sprintf(", transaction id %s,", *o.ID)
	}
	holder += fmt.Sprintf(" of user %s in database %s", o.User, o.Database)
	switch {
	case o.Seconds == nil:
		holder += ", open for some seconds or longer"
		end += fmt.Sprintf("; `GRANT pg_read_all_stats TO %s` shows its age and its statement", k.User)
	case o.State != nil:
		holder += fmt.Sprintf(", %s, open for %v", *o.State, time.Duration(*o.Seconds*float64(time.Second)).Truncate(time.Second))
	}
	if o.Seconds != nil && o.Query != nil {
		holder += ", with the last statement " + strings.Join(strings.Fields(*o.Query), " ") + ","
	}
	end += fmt.Sprintf("; then `VACUUM %s.%s`, or wait a minute for the autovacuum", pgname.Quote(k.Names.Schema()), pgname.Quote(tables[0]))
	if o.Touches {
		k.Add(store.Warning, "held rows", holder+" may hold rows of these tables: whoever needs such a row waits for it and then fails", end)
		return
	}
	k.Add(store.Warning, "old transaction", holder+" keeps the server from using the space of old versions of rows again: "+
		"every change of a busy row takes longer, until a vacuum after its end", end)
}
