package migrations

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/store"
)

// Period is the time for which a partition has the entries. Periods begin in UTC, weeks on Monday.
type Period string

// The periods.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// begin returns the beginning of the period with a time, and of the next one.
func (p Period) begin(t time.Time) (this, next time.Time) {
	y, m, d := t.UTC().Date()
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	switch p {
	case Month:
		this = day.AddDate(0, 0, 1-d)
		return this, this.AddDate(0, 1, 0)
	case Week:
		this = day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
		return this, this.AddDate(0, 0, 7)
	}
	return day, day.AddDate(0, 0, 1)
}

// Partitioned is the work of one [Partition].
type Partitioned struct {
	Created []string // names of new partitions
	Dropped []string // names of partitions that are gone with their entries
	// Strays is the number of entries in the default partition: their time had no other one.
	Strays int64
}

// Partition keeps the partitions of the entries of a ledger, whose table is partitioned by range of
// the column at. It creates those of this period and of so many ahead, and drops those that have
// ended and of whose entries no rule needs any, as Prune of package spend has told for each
// account. Run it as the owner of the tables, after each Prune, and as often as you like.
//
// Callers of the ledger go on meanwhile. Each try for a lock has them wait for a tenth of a second
// at most; after Options.LockTimeout the error is [ErrLocked]. Entries without a partition are in
// the default one, which Partition creates if it is missing. There the old ones are deleted. New
// partitions begin after the others. A period of which the default partition has entries gets none.
func Partition(ctx context.Context, pool *pgxpool.Pool, every Period, ahead int, o *Options) (Partitioned, error) {
	p, err := newPlan(o)
	switch {
	case err != nil:
	case pool == nil:
		err = store.ErrClosed
	case every != Day && every != Week && every != Month || ahead < 0:
		err = fmt.Errorf("%w: the period is %q and %d are ahead; a period is day, week or month, and 0 or more are ahead",
			store.ErrMisconfigured, every, ahead)
	}
	k := &keeper{plan: p, pool: pool, every: every, ahead: ahead}
	for _, step := range [...]func(context.Context, pgx.Tx, state) (bool, error){k.create, k.drop, k.clear} {
		for more := true; more && err == nil; {
			err = k.change(ctx, func(tx pgx.Tx, s state) (err error) {
				more, err = step(ctx, tx, s)
				return err
			})
			var pg *pgconn.PgError
			if errors.As(err, &pg) && pg.Code == stateCheckViolation { // an entry came to the default partition meanwhile
				more, err = true, nil
			}
		}
	}
	return k.done, fail("partition", err)
}

// keeper is one call of Partition.
type keeper struct {
	plan
	pool  *pgxpool.Pool
	every Period
	ahead int
	asked []string // the partitions that drop has looked at
	done  Partitioned
}

// state is the partitions at the beginning of a transaction, in the order of their ends.
type state struct {
	now  time.Time
	all  []partition
	rest string // the default partition, quoted; or "" without one
}

type partition struct {
	Name  string // with its schema, quoted
	Short string
	End   time.Time
}

// wait is how long callers of the ledger may wait behind a statement that waits for them.
const wait = 100 * time.Millisecond

// change runs a transaction on the partitions, beside which no other one changes them.
func (k *keeper) change(ctx context.Context, f func(pgx.Tx, state) error) error {
	return explain(ctx, pgx.BeginTxFunc(ctx, k.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var s state
		var ranged bool
		err := tx.QueryRow(ctx, `SELECT set_config('search_path', 'pg_catalog', true), set_config('statement_timeout', '0', true),
			set_config('TimeZone', 'UTC', true), set_config('lock_timeout', $1, true), now(),
			COALESCE(pg_get_partkeydef(to_regclass($2)) = 'RANGE (at)', false)`,
			fmt.Sprint(wait.Milliseconds()), k.QualifiedEntries()).Scan(nil, nil, nil, nil, &s.now, &ranged)
		if err == nil {
			err = k.lock(ctx, tx, `LOCK TABLE ONLY {{schema}}.{{entries}} IN SHARE UPDATE EXCLUSIVE MODE`)
		}
		switch {
		case err != nil:
			return err
		case !ranged:
			return fmt.Errorf("%w: the table %s is not partitioned by RANGE (at)", errors.ErrUnsupported, k.Entries())
		}
		rows, err := tx.Query(ctx, `
			SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name, c.relname AS short,
			       LEAST(CAST(substring(b.text FROM 'TO [(]''(.*)''[)]') AS timestamptz),
			             CASE WHEN b.text <> 'DEFAULT' THEN timestamptz '9999-01-01' ELSE timestamptz 'epoch' END) AS "end"
			FROM pg_class AS t JOIN pg_namespace AS s ON s.oid = t.relnamespace AND s.nspname = $1 AND t.relname = $2
			     JOIN pg_inherits AS i ON i.inhparent = t.oid
			     JOIN pg_class AS c ON c.oid = i.inhrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
			     CROSS JOIN LATERAL pg_get_expr(c.relpartbound, c.oid) AS b (text)
			ORDER BY 3`, k.Schema(), k.Entries())
		if err != nil {
			return err
		}
		if s.all, err = pgx.CollectRows(rows, pgx.RowToStructByName[partition]); err != nil {
			return err
		}
		if len(s.all) > 0 && s.all[0].End.Unix() == 0 { // the default
			s.rest, s.all = s.all[0].Name, s.all[1:]
		}
		return f(tx, s)
	}), k.plan)
}

// lock runs a statement that takes a lock, and tries it again while others have the lock.
func (k *keeper) lock(ctx context.Context, tx pgx.Tx, sql string) error {
	for end := time.Now().Add(k.lockTimeout); ; {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, k.Render(sql))
			return err
		})
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != stateLockUnavailable || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait + rand.N(wait)): // callers go on
		}
	}
}

// create creates the next partition, the default one first. Callers use the others meanwhile, as
// they could not beside PARTITION OF.
func (k *keeper) create(ctx context.Context, tx pgx.Tx, s state) (more bool, err error) {
	from, _ := k.every.begin(s.now)
	ahead := from
	for range k.ahead {
		_, ahead = k.every.begin(ahead)
	}
	if n := len(s.all); n > 0 && s.all[n-1].End.After(from) {
		from = s.all[n-1].End
	}
	_, next := k.every.begin(from)
	for strays := s.rest != ""; strays && !from.After(ahead); {
		err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+s.rest+" WHERE at >= $1 AND at < $2)", from, next).Scan(&strays)
		if err != nil {
			return false, err
		}
		if strays {
			from = next
			_, next = k.every.begin(from)
		}
	}
	name, bound := k.Table()+from.Format("_e20060102"), fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", from.Format(time.RFC3339), next.Format(time.RFC3339))
	switch {
	case s.rest == "":
		name, bound = k.Table()+"_e_default", "DEFAULT"
	case from.After(ahead):
		return false, nil
	}
	as := k.Render("{{schema}}." + pgname.Quote(name))
	if _, err := tx.Exec(ctx, k.Render("CREATE TABLE "+as+" (LIKE {{schema}}.{{entries}} INCLUDING ALL)")); err != nil {
		return false, err
	}
	if err = k.lock(ctx, tx, "ALTER TABLE {{schema}}.{{entries}} ATTACH PARTITION "+as+" "+bound); err == nil {
		k.done.Created = append(k.done.Created, name)
	}
	return true, err
}

// drop drops the next partition that has ended, if no rule needs its entries. Meanwhile none comes
// to it: one of a clock that is behind waits, or goes to the default partition afterwards.
func (k *keeper) drop(ctx context.Context, tx pgx.Tx, s state) (more bool, err error) {
	for _, p := range s.all {
		if p.End.After(s.now) || slices.Contains(k.asked, p.Name) {
			continue
		}
		k.asked = append(k.asked, p.Name)
		if err := k.lock(ctx, tx, "LOCK TABLE "+p.Name+" IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return false, err
		}
		var needed bool
		err := tx.QueryRow(ctx, k.Render("SELECT EXISTS (SELECT FROM "+p.Name+` AS e LEFT JOIN {{schema}}.{{accounts}} AS a ON a.id = e.account
			WHERE (e.at <= a.pruned) IS NOT TRUE)`)).Scan(&needed)
		if err != nil || needed {
			return true, err
		}
		if err = k.lock(ctx, tx, "DROP TABLE "+p.Name); err == nil {
			k.done.Dropped = append(k.done.Dropped, p.Short)
		}
		return true, err
	}
	return false, nil
}

// clear deletes the needless entries of the default partition, and counts the others.
func (k *keeper) clear(ctx context.Context, tx pgx.Tx, s state) (more bool, err error) {
	_, err = tx.Exec(ctx, k.Render("DELETE FROM "+s.rest+" AS e USING {{schema}}.{{accounts}} AS a WHERE a.id = e.account AND e.at <= a.pruned"))
	if err == nil {
		err = tx.QueryRow(ctx, "SELECT count(*) FROM "+s.rest).Scan(&k.done.Strays)
	}
	return false, err
}
