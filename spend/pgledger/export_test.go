package pgledger

import (
	"context"
	"time"

	"github.com/brimgo/brim/store"
)

// SetProcess replaces the clock of the process.
func SetProcess(l *Ledger, clock func() time.Time) { l.process = clock }

// CheckBy is Check, by the clock of the ledger's process.
func CheckBy(ctx context.Context, l *Ledger) ([]store.Finding, error) { return l.check(ctx) }
