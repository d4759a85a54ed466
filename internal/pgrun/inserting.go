package pgrun

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// inserting returns those of the missing rows that other transactions are inserting. Nobody sees
// such a row before its transaction commits, but an insertion of the same row waits. So each name
// is inserted in a transaction of its own, which waits for a millisecond and is rolled back. All of
// them take one round trip.
func (c *Combiner[Q, A]) inserting(ctx context.Context, l *Lane, missing map[string]bool) (held map[string]bool, err error) {
	names := slices.Sorted(maps.Keys(missing))
	err = l.Attempt(ctx, func(conn *pgxpool.Conn) (err error) {
		held = make(map[string]bool)
		p := conn.Conn().PgConn().StartPipeline(ctx)
		defer func() {
			if closed := p.Close(); err == nil && !Stalled(closed) {
				err = closed
			}
		}()
		send := func(sql string, args ...[]byte) { p.SendQueryParams(sql, args, nil, nil, nil) }
		for _, name := range names {
			sql, args := c.rows.Insert(name)
			send(begin)
			send("SET LOCAL lock_timeout = 1")
			send(sql, args...)
			p.SendPipelineSync()
			send("ROLLBACK")
		}
		if err := p.Sync(); err != nil {
			return err
		}
		for tried := 0; ; {
			result, err := p.GetResults()
			if reader, is := result.(*pgconn.ResultReader); is {
				_, err = reader.Close()
			}
			switch {
			case Stalled(err):
				held[names[tried]] = true
			case err != nil:
				return err
			case result == nil:
				return nil
			}
			if _, is := result.(*pgconn.PipelineSync); is {
				tried++
			}
		}
	})
	return held, err
}
