package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/cmd/brim/internal/bench"
)

// openBolt opens a store in a bbolt file.
func openBolt(path string, o opening) (*opened, error) {
	if o.absent != create {
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
	}
	s, err := bolt.Open(path, &bolt.Options{Clock: o.clock, MaxSkew: o.maxSkew(), Logger: o.log})
	if err != nil {
		return nil, err
	}
	return &opened{
		Store:   s,
		name:    path,
		update:  s.Update,
		compact: s.Compact,
		reference: func(ctx context.Context, keys int) (*bench.Reference, error) {
			return bench.BoltReference(ctx, filepath.Dir(path), keys)
		},
	}, nil
}
