package main

import (
	"context"
	"errors"

	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/spend/sqliteledger"
	"github.com/brimgo/brim/stores"
)

// openedLedger is a ledger with the store below it.
type openedLedger struct {
	ledger.Ledger
	store interface{ Close() error } // nil for a ledger in memory
}

// end closes the ledger, and then the store.
func (l *openedLedger) end() error {
	err := l.Ledger.Close()
	if l.store != nil {
		err = errors.Join(err, l.store.Close())
	}
	return err
}

// openLedger opens the ledger in the store that --store names.
func (a *app) openLedger(ctx context.Context, create bool) (*openedLedger, error) {
	p, err := a.place()
	switch {
	case err != nil:
		return nil, err
	case p.Kind() == place.Redis:
		return nil, notInRedis()
	case p.Kind() == place.Memory:
		return &openedLedger{Ledger: memledger.New(nil)}, nil
	}
	s, err := a.open(ctx, p, opening{create: create})
	if err != nil {
		return nil, err
	}
	l, err := ledgerIn(ctx, s.Store)
	if err == nil && s.Postgres != nil {
		_, _, err = l.Accounts(ctx, "", "", 0, 1) // missing tables must show before any work begins
	}
	if err != nil {
		return nil, openError{errors.Join(inFile(p, err), s.Close())}
	}
	return &openedLedger{l, s}, nil
}

// notInRedis is the error of a command about spends that got a store in Redis.
func notInRedis() error {
	return usagef("spend keeps no ledger in Redis, because a fail-over there can lose what was acknowledged; " +
		"give a file, sqlite:PATH or postgres://...")
}

// ledgerIn returns the ledger in a file, in a SQLite database or in PostgreSQL.
func ledgerIn(ctx context.Context, s *stores.Store) (ledger.Ledger, error) {
	switch {
	case s.Bolt != nil:
		return boltledger.New(s.Bolt, nil)
	case s.SQLite != nil:
		return sqliteledger.New(ctx, s.SQLite, nil)
	}
	return pgledger.New(s.Postgres, nil)
}
