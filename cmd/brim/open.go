package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/cmd/brim/internal/bench"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// opened is a store with further abilities of its backend. A function is nil if the backend does
// not have the ability.
type opened struct {
	store.Store
	// name is the name of the store in messages and reports. It contains no password.
	name string
	// update calls a function that makes many decisions, and commits them together.
	update func(ctx context.Context, decide func(store.Store) error) error
	// compact gives back unused space, and returns the size of the store before and after, in
	// bytes.
	compact func(ctx context.Context) (before, after int64, err error)
	// reference makes the bare reference with which brim bench compares the store.
	reference func(ctx context.Context, keys int) (*bench.Reference, error)
}

// opening is the way in which a command opens a store.
type opening struct {
	clock  func() time.Time // nil for the store's own
	absent absence
	conns  int // the most connections to a server; 0 for pgx's default
	log    *slog.Logger
}

// absence is the way in which a command treats a missing file.
type absence uint8

const (
	// create creates the file.
	create absence = iota
	// empty answers as if the file were empty, and does not create it, because a command that
	// reads must leave no file behind.
	empty
	// fail returns an error.
	fail
)

// backend is a kind of store.
type backend uint8

const (
	inMemory backend = iota
	inFile
	onServer
)

// parseStore returns the kind of store that a value of --store names.
func parseStore(value string) (backend, error) {
	scheme, _, hasScheme := strings.Cut(value, "://")
	switch {
	case value == "":
		return 0, usagef("--store is empty; give a file, memory: or postgres://...")
	case value == "memory:":
		return inMemory, nil
	case strings.HasPrefix(value, "postgres://"), strings.HasPrefix(value, "postgresql://"):
		return onServer, nil
	case hasScheme:
		return 0, usagef("stores of kind %q are unknown; give a file, memory: or postgres://...", scheme)
	}
	return inFile, nil
}

// logger writes warnings to stderr.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// open opens the store that --store names.
func (a *app) open(ctx context.Context, o opening) (*opened, error) {
	o.log = a.logger()
	s, err := openStore(ctx, a.store, o)
	if errors.Is(err, fs.ErrNotExist) && o.absent == empty {
		if _, e := os.Stat(a.store); errors.Is(e, fs.ErrNotExist) {
			fmt.Fprintf(a.stderr, "brim: %s does not exist: every bucket in it is empty\n", a.store)
			return openMemory(o)
		}
	}
	if err != nil && !errors.As(err, new(usageError)) {
		return nil, openError{err}
	}
	return s, err
}

// openStore opens the store that a value of --store names.
func openStore(ctx context.Context, value string, o opening) (*opened, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	kind, err := parseStore(value)
	if err != nil {
		return nil, err
	}
	switch kind {
	case inMemory:
		return openMemory(o)
	case onServer:
		return openPostgres(ctx, value, o)
	default:
		return openBolt(value, o)
	}
}

// believeAll is the MaxSkew of a store that replays a log, whose times may be out of order by any
// amount.
const believeAll = time.Duration(math.MaxInt64)

// maxSkew returns the MaxSkew of the store: that of a replay if the caller sets the clock, and
// otherwise the default.
func (o opening) maxSkew() time.Duration {
	if o.clock != nil {
		return believeAll
	}
	return 0
}

func openMemory(o opening) (*opened, error) {
	s, err := memory.New(&memory.Options{Clock: o.clock, MaxSkew: o.maxSkew(), Logger: o.log})
	if err != nil {
		return nil, err
	}
	return &opened{Store: s, name: "memory"}, nil
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
	return f(s, brim.New(s.Store, nil))
}
