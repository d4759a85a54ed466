package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/cmd/brim/internal/bench"
	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/stores"
)

// opened is a store with further abilities of its backend. A function is nil if the backend does
// not have the ability.
type opened struct {
	store.Store
	// name is the name of the store in messages and reports, without a password.
	name string
	// update calls a function that makes many decisions, and commits them together.
	update func(ctx context.Context, decide func(store.Store) error) error
	// compact gives back unused space, and returns the size of the store before and after, in
	// bytes.
	compact func(ctx context.Context) (before, after int64, err error)
	// file is the store of a bbolt file.
	file *bolt.Store
	// reference makes the bare reference with which brim bench compares the store.
	reference func(ctx context.Context, keys int) (*bench.Reference, error)
}

// opening is the way in which a command opens a store.
type opening struct {
	create bool             // a file that is not there is created; else the command fails
	clock  func() time.Time // nil for the store's own
	conns  int              // the most connections to a server; 0 for the client's default
}

// place reads --store.
func (a *app) place() (place.Place, error) {
	return parsePlace("--store", a.store)
}

// parsePlace reads the name of a store that a flag gives.
func parsePlace(flag, name string) (place.Place, error) {
	if uiapi.IsAddress(name) {
		return place.Place{}, notThere(flag)
	}
	p, err := place.Parse(name)
	if err != nil {
		return place.Place{}, usagef("%s: %w", flag, err)
	}
	return p, nil
}

// logger writes warnings to stderr.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// open opens the store that --store names.
func (a *app) open(ctx context.Context, o opening) (*opened, error) {
	p, err := a.place()
	if err != nil {
		return nil, err
	}
	if !o.create {
		if err := present(p); err != nil {
			return nil, err
		}
	}
	options := &stores.Options{Clock: o.clock, MaxConns: o.conns, Logger: a.logger()}
	if o.clock != nil {
		options.MaxSkew = simulate.MaxSkew
	}
	s, err := stores.Open(ctx, p.Name(), options)
	if err != nil {
		return nil, openError{err}
	}
	return withAbilities(s, p), nil
}

// present returns an absentError if p is a file that is not there. A command that reads must neither
// create the file of a mistyped name nor answer for it.
func present(p place.Place) error {
	if p.Kind() != place.File {
		return nil
	}
	_, err := os.Stat(p.Path())
	if _, journal := os.Lstat(p.Path() + ".journal"); journal == nil {
		return nil // a journal without its file: the file was lost, and Open says so
	}
	if errors.Is(err, fs.ErrNotExist) {
		return absentError{err}
	}
	if err != nil {
		return openError{err}
	}
	return nil
}

// withAbilities finds the abilities of the backend.
func withAbilities(s *stores.Store, p place.Place) *opened {
	o := &opened{Store: s, name: s.Name}
	switch {
	case s.Bolt != nil:
		o.update, o.compact, o.file = s.Bolt.Update, s.Bolt.Compact, s.Bolt
		o.reference = func(ctx context.Context, keys int) (*bench.Reference, error) {
			return bench.BoltReference(ctx, filepath.Dir(p.Path()), keys)
		}
	case s.Postgres != nil:
		o.update = s.Postgres.Update
		o.reference = func(ctx context.Context, keys int) (*bench.Reference, error) {
			schema, _ := p.Tables()
			return bench.PostgresReference(ctx, s.Pool, schema, keys)
		}
	}
	return o
}

// with opens the store, calls f and closes the store. It returns an error of the closing, because
// written data may then not be on disk.
func (a *app) with(ctx context.Context, o opening, f func(*opened, *brim.Limiter) error) (err error) {
	s, err := a.open(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if e := s.Close(); e != nil && (err == nil || errors.As(err, new(status))) {
			err = e
		}
	}()
	return f(s, brim.New(s.Store, &brim.Options{AsStored: true}))
}
