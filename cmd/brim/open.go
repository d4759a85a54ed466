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

// opened is a store and what its backend can do beyond the contract. A nil function is something it cannot do.
type opened struct {
	store.Store
	// name is what to call the store in messages and reports; it holds no password.
	name string
	// update has a function make many decisions that are committed together.
	update func(ctx context.Context, decide func(store.Store) error) error
	// compact gives back space that the store takes up and does not use, and reports its size before and after, in bytes.
	compact func(ctx context.Context) (before, after int64, err error)
	// reference makes the bare reference that brim bench compares the store with.
	reference func(ctx context.Context, keys int) (*bench.Reference, error)
}

// opening says how a command opens a store.
type opening struct {
	clock func() time.Time // nil: the store's own
	// absent says what to do where a file is not there.
	absent absence
	conns  int // to a server, at most; 0: as many as a pool usually has
	log    *slog.Logger
}

type absence uint8

const (
	create absence = iota // make it
	empty                 // answer as if it were empty, and make nothing: a reading command must not leave a file behind
	fail
)

// open opens the store that --store names.
func (a *app) open(ctx context.Context, o opening) (*opened, error) {
	o.log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
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

// openStore is where a value of --store becomes a store.
func openStore(ctx context.Context, value string, o opening) (*opened, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	scheme, _, hasScheme := strings.Cut(value, "://")
	switch {
	case value == "":
		return nil, usagef("--store is empty; give a file, memory: or postgres://...")
	case value == "memory:":
		return openMemory(o)
	case isPostgres(value):
		return openPostgres(ctx, value, o)
	case hasScheme:
		return nil, usagef("stores of kind %q are unknown; give a file, memory: or postgres://...", scheme)
	}
	return openBolt(value, o)
}

// believeAll is the MaxSkew of a store that replays a log, whose times are out of order by as much as they are.
const believeAll = time.Duration(math.MaxInt64)

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

// with opens the store, calls f and closes the store. An error on closing counts: what was written may not be on disk.
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
