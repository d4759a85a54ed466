package drivers

import (
	"testing"
	"time"

	"github.com/brimgo/brim/internal/intx"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func conformance(t *testing.T, d Driver) { harness{Driver: d}.conform(t, 0, 0) }

func conformanceOfOne(t *testing.T, d Driver) {
	harness{Driver: d, one: true}.conform(t, seed.Attempts(1000, 5000), 500)
}

func (h harness) conform(t *testing.T, operations, keys int) {
	storetest.Run(t, func(t *testing.T) store.Store { return h.store(t, nil) }, &storetest.Options{
		OpenAt: func(t *testing.T, clock func() time.Time) store.Store { return h.store(t, clock) },
		Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
			was := s.(opened)
			must(t, was.Close())
			must(t, was.db.Close())
			return h.over(t, h.database(t, was.path), was.path, clock)
		},
		Peer: func(t *testing.T, s store.Store) store.Store {
			path := s.(opened).path
			return h.over(t, h.database(t, path), path, nil)
		},
		Operations: operations, Keys: keys,
	})
}

// inTransactions makes each call of a store in a transaction of its own.
func inTransactions(o opened) store.Store {
	return intx.Store{Store: o, In: func(fn func(s store.Store) error) error {
		tx, err := o.db.Begin()
		if err != nil {
			return err
		}
		if err := fn(o.With(tx)); err != nil {
			_ = tx.Rollback()
			return err
		}
		return tx.Commit()
	}}
}

// conformanceWith has a pool of one connection: of several, one can wait for the lock for longer
// than any busy timeout.
func conformanceWith(t *testing.T, d Driver) {
	h := harness{Driver: d, one: true}
	storetest.Run(t, func(t *testing.T) store.Store { return inTransactions(h.store(t, nil)) }, &storetest.Options{
		OpenAt: func(t *testing.T, clock func() time.Time) store.Store { return inTransactions(h.store(t, clock)) },
		Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
			was := s.(intx.Store).Store.(opened)
			must(t, was.Close())
			must(t, was.db.Close())
			return inTransactions(h.over(t, h.database(t, was.path), was.path, clock))
		},
		Operations: seed.Attempts(500, 1000), Keys: 500,
	})
}
