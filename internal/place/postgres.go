package place

import (
	"context"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/postgres"
)

func parsePostgres(u *url.URL, t *target) error {
	server := *u
	own, err := takeOwn(&server, "brim_schema", "brim_table")
	if err != nil {
		return err
	}
	t.schema, t.table = own["brim_schema"], own["brim_table"]
	if _, err := pgname.New(t.schema, t.table); err != nil {
		return err
	}
	if t.pool, err = pgxpool.ParseConfig(server.String()); err != nil {
		return unreadable(err, u)
	}
	if params := t.pool.ConnConfig.RuntimeParams; params["application_name"] == "" { // nor in PGAPPNAME
		params["application_name"] = "brim"
	}
	return nil
}

// Pool returns a pool for a place of kind [PostgreSQL]. It sends nothing, and the caller closes the
// pool.
func (p Place) Pool(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := p.PoolConfig(0)
	if err != nil {
		return nil, err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// PoolConfig returns the configuration of a pool for a place of kind [PostgreSQL]. maxConns is the
// largest number of connections; 0 leaves it to the name.
func (p Place) PoolConfig(maxConns int) (*pgxpool.Config, error) {
	if p.kind != PostgreSQL {
		return nil, fmt.Errorf("a pool needs a server of PostgreSQL, and this is: %v", p.kind)
	}
	config := p.target.pool.Copy()
	if maxConns > 0 {
		config.MaxConns = int32(min(maxConns, 1<<20))
	}
	postgres.WatchCommits(config)
	postgres.KeepServer(config)
	return config, nil
}
