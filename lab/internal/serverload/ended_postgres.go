package serverload

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// EndedPostgres calls hangUp, which closes the connections of that application name, until the
// server has ended their processes. A process may be committing until then, although nobody waits
// for its answer any more. direct is a pool of another name.
func EndedPostgres(ctx context.Context, direct *pgxpool.Pool, application string, hangUp func()) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(3 * time.Millisecond) {
		hangUp()
		n := 0
		const sql = "SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE application_name = $1"
		if err := direct.QueryRow(ctx, sql, application).Scan(&n); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d connections do not end", n)
		}
	}
}
