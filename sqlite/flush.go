package sqlite

import (
	"context"

	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/internal/sqliterun"
)

// flush decides a batch, and commits if anything has changed. An error is that of every request.
func (s *Store) flush(tx *sqliterun.Tx, batch []*records.Queued) error {
	v := s.view(s.sql.On(context.Background(), tx.Tx))
	if err := v.load(records.AllKeys(batch)); err != nil {
		return sqliterun.Explain(err)
	}
	now := s.run.Clock.Now() // with the lock: no other process decides earlier
	for _, r := range batch {
		v.Decide(r, now)
	}
	changed, err := v.end()
	if err == nil && changed {
		return tx.Commit()
	}
	return sqliterun.Explain(err)
}
