package stores

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/sqlite"
	"github.com/brimgo/brim/store"
)

func (s *Store) openSQLite(ctx context.Context, p place.Place, o *Options) error {
	op := "open " + filepath.Base(p.Path())
	db, empty, err := p.Database(ctx, o.MaxConns)
	if err != nil {
		return store.Wrap("sqlite", op, err)
	}
	s.SQLite, err = sqlite.New(ctx, db, &sqlite.Options{
		NoMigrate: o.Lazy && !empty,
		Clock:     o.Clock, MaxSkew: o.MaxSkew, PruneEvery: o.PruneEvery, Logger: o.Logger, Trace: o.Trace,
	})
	if err != nil {
		return store.Wrap("sqlite", op, errors.Join(err, db.Close()))
	}
	s.Store, s.DB, s.release = s.SQLite, db, db.Close
	return nil
}
