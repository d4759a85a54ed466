package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/spend/pgledger"
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
func (a *app) openLedger(ctx context.Context, absent absence) (*openedLedger, error) {
	kind, err := parseStore(a.store)
	if err != nil {
		return nil, err
	}
	var l *openedLedger
	switch kind {
	case inMemory:
		l = memoryLedger()
	case onServer:
		l, err = a.postgresLedger(ctx)
	default:
		l, err = a.boltLedger(absent)
	}
	if err != nil && !errors.As(err, new(usageError)) {
		return nil, openError{err}
	}
	return l, err
}

func memoryLedger() *openedLedger { return &openedLedger{Ledger: memledger.New(nil)} }

// boltLedger opens a ledger in a bbolt file. If the file does not exist and the command only
// reads, the ledger is empty.
func (a *app) boltLedger(absent absence) (*openedLedger, error) {
	if absent != create {
		_, err := os.Stat(a.store)
		switch missing := errors.Is(err, fs.ErrNotExist); {
		case missing && absent == fail:
			return nil, err
		case missing:
			fmt.Fprintf(a.stderr, "brim: %s does not exist: nothing was spent in it\n", a.store)
			return memoryLedger(), nil
		}
	}
	s, err := bolt.Open(a.store, &bolt.Options{Logger: a.logger()})
	if err != nil {
		return nil, err
	}
	l, err := boltledger.New(s, nil)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &openedLedger{l, s}, nil
}

// postgresLedger opens a ledger in PostgreSQL.
func (a *app) postgresLedger(ctx context.Context) (*openedLedger, error) {
	p, err := parsePlace(a.store)
	if err != nil {
		return nil, err
	}
	s, err := newPostgresStore(ctx, p, opening{log: a.logger()})
	if err != nil {
		return nil, err
	}
	l, err := pgledger.New(s.Store, nil)
	if err == nil {
		// A missing server, or missing tables, must show before any work begins.
		_, err = l.Accounts(ctx, "", "", 1)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &openedLedger{l, s}, nil
}
