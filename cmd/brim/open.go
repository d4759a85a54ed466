package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/stores"
)

// opened is an open store and its place.
type opened struct {
	*stores.Store
	place place.Place
	name  string      // of the store in messages and reports, without a password
	file  *bolt.Store // nil for a store that is no file
}

// opening is the way in which a command opens a store.
type opening struct {
	create bool             // a file that is not there is created; else the command fails
	clock  func() time.Time // nil for the store's own
	conns  int              // the most connections to a server; 0 for the client's default
}

// place reads --store.
func (a *app) place() (place.Place, error) {
	if uiapi.IsAddress(a.store) {
		return place.Place{}, notThere()
	}
	p, err := place.Parse(a.store)
	if err != nil {
		return place.Place{}, usagef("--store: %w", err)
	}
	return p, nil
}

// isFile returns an error unless --store names a bbolt file. does is the command and its verb.
func (a *app) isFile(does string) error {
	p, err := a.place()
	if err == nil && p.Kind() != place.File {
		err = usagef("%s a bbolt file; give its path with --store", does)
	}
	return err
}

// logger writes warnings to stderr.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// open opens the store at p. A command that reads must neither create the file of a mistyped name
// nor answer for it.
func (a *app) open(ctx context.Context, p place.Place, o opening) (*opened, error) {
	if !o.create {
		if err := present(p); err != nil {
			return nil, err
		}
	}
	// A command prunes only when it is told to.
	options := &stores.Options{Clock: o.clock, PruneEvery: -1, Lazy: true, MaxConns: o.conns, Logger: a.logger()}
	if o.clock != nil {
		options.MaxSkew = simulate.MaxSkew
	}
	// A file that another process has locked takes some seconds.
	s, err := atOnce(ctx, func() (*stores.Store, error) { return stores.Open(ctx, p.Name(), options) })
	if err != nil {
		err = inFile(p, err)
		if a.asksPages && boltfile.Locked(err) {
			err = fmt.Errorf("%w; if that process mounts package ui, ask it, with the address of its page as --store", err)
		}
		return nil, openError{err}
	}
	return &opened{Store: s, place: p, name: s.Name, file: s.Bolt}, nil
}

// present returns an absentError if p is a file that is not there.
func present(p place.Place) error {
	if p.Kind() != place.File && p.Kind() != place.SQLite {
		return nil
	}
	_, err := os.Stat(p.Path())
	if _, journal := os.Lstat(p.Path() + ".journal"); journal == nil && p.Kind() == place.File {
		return nil // a journal without its file: the file was lost, and Open says so
	}
	if errors.Is(err, fs.ErrNotExist) {
		return absentError{p.Path()}
	}
	if err != nil {
		return openError{err}
	}
	return nil
}

// inFile names the whole path in an error about a file, whose backend names its last element.
func inFile(p place.Place, err error) error {
	if e := (*store.Error)(nil); p.Kind() == place.File && errors.As(err, &e) {
		return fmt.Errorf("%s: %w", p.Path(), e.Err)
	}
	return err
}

// with opens the store, calls f and closes the store. It returns an error of the closing, because
// written data may then not be on disk.
func (a *app) with(ctx context.Context, o opening, f func(*opened, *brim.Limiter) error) (err error) {
	p, err := a.place()
	if err != nil {
		return err
	}
	s, err := a.open(ctx, p, o)
	if err != nil {
		return err
	}
	defer func() {
		if e := s.Close(); e != nil && (err == nil || errors.As(err, new(status))) {
			err = e
		}
	}()
	return f(s, brim.New(s.Store.Store, &brim.Options{AsStored: true}))
}
