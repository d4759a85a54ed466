package memtable

import (
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/clock"
)

// Parts are the parts of a bolt.Store that a ledger in the same file shares.
type Parts struct {
	File   *boltfile.File
	Tables Writer
	Clock  *clock.Clock
}

// PartsOf returns the parts of a *bolt.Store. Package bolt sets it when it is linked, so that Store
// needs no exported method for packages of this module.
var PartsOf func(store any) Parts
