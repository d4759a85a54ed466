package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/spend/pgledger"
)

// openedLedger is a ledger with the stores that were opened for it.
type openedLedger struct {
	ledger.Ledger
	close []func() error
}

// end closes the ledger, and then the stores below it.
func (l *openedLedger) end() error {
	err := l.Ledger.Close()
	for _, f := range l.close {
		err = errors.Join(err, f())
	}
	return err
}

// openLedger opens the ledger in the store that --store names.
func (a *app) openLedger(ctx context.Context, absent absence) (*openedLedger, error) {
	log := a.logger()
	kind, err := parseStore(a.store)
	switch {
	case err != nil:
		return nil, err
	case kind == inMemory:
		return memoryLedger(), nil
	case kind == onServer:
		return postgresLedger(ctx, a.store, log)
	}
	if absent != create {
		if _, err := os.Stat(a.store); errors.Is(err, fs.ErrNotExist) {
			if absent == fail {
				return nil, openError{err}
			}
			fmt.Fprintf(a.stderr, "brim: %s does not exist: nothing was spent in it\n", a.store)
			return memoryLedger(), nil
		}
	}
	s, err := bolt.Open(a.store, &bolt.Options{Logger: log})
	if err != nil {
		return nil, openError{err}
	}
	l, err := boltledger.New(s, nil)
	if err != nil {
		return nil, openError{errors.Join(err, s.Close())}
	}
	return &openedLedger{Ledger: l, close: []func() error{s.Close}}, nil
}

func memoryLedger() *openedLedger { return &openedLedger{Ledger: memledger.New(nil)} }

func postgresLedger(ctx context.Context, value string, log *slog.Logger) (*openedLedger, error) {
	p, err := parsePlace(value)
	if err != nil {
		return nil, err
	}
	pool, err := p.connect(ctx, 0)
	if err != nil {
		return nil, err
	}
	s, err := postgres.New(pool, &postgres.Options{Schema: p.schema, Table: p.table, Logger: log})
	if err != nil {
		pool.Close()
		return nil, openError{err}
	}
	below := postgresStore{s, pool}
	l, err := pgledger.New(s, nil)
	if err == nil {
		// A missing server, or missing tables, must show before any work begins.
		_, err = l.Accounts(ctx, "", "", 1)
	}
	if err != nil {
		return nil, openError{errors.Join(err, below.Close())}
	}
	return &openedLedger{Ledger: l, close: []func() error{below.Close}}, nil
}
