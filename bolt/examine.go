package bolt

import (
	"context"
	"path/filepath"
	"time"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// Examine reads the file at path and its journal for the command "brim verify", and changes
// neither. The type of the report is internal: only this repository can use it, and it may change
// at any time.
func Examine(ctx context.Context, path string, lockTimeout time.Duration) (*boltfile.Report, error) {
	x, err := kv.Examine(ctx, path, defaultName, lockTimeout)
	return &x.Report, store.Wrap(backend, "verify "+filepath.Base(path), err)
}
