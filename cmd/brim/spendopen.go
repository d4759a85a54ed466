package main

import (
	"context"
	"errors"

	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/spend/pgledger"
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
		return nil, usagef("spend keeps no ledger in Redis, because a fail-over there can lose what was acknowledged; " +
			"give a file or postgres://...")
	}
	if !create {
		if err := present(p); err != nil {
			return nil, err
		}
	}
	l, err := a.ledgerAt(ctx, p)
	if err != nil {
		return nil, openError{err}
	}
	return l, nil
}

func memoryLedger() *openedLedger { return &openedLedger{Ledger: memledger.New(nil)} }

// ledgerAt opens the ledger at p.
func (a *app) ledgerAt(ctx context.Context, p place.Place) (*openedLedger, error) {
	if p.Kind() == place.Memory {
		return memoryLedger(), nil
	}
	s, err := stores.Open(ctx, p.Name(), &stores.Options{Logger: a.logger()})
	if err != nil {
		return nil, err
	}
	var l ledger.Ledger
	if s.Bolt != nil {
		l, err = boltledger.New(s.Bolt, nil)
	} else if l, err = pgledger.New(s.Postgres, nil); err == nil {
		// Missing tables must show before any work begins.
		_, err = l.Accounts(ctx, "", "", 1)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &openedLedger{l, s}, nil
}
