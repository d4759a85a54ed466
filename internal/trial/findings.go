package trial

import (
	"context"
	"errors"

	"github.com/brimgo/brim/store"
)

// Findings are the results of a check.
type Findings []store.Finding

// Add adds a finding.
func (f *Findings) Add(severity store.Severity, subject, problem, remedy string) {
	*f = append(*f, store.Finding{Severity: severity, Subject: subject, Problem: problem, Remedy: remedy})
}

// Try makes a decision of each kind on buckets of its own, and deletes them again. failed tells why
// the store cannot decide, and err that it is closed or that ctx has ended.
func Try(ctx context.Context, s store.Store) (failed, err error) {
	key := Key()
	failed = Decide(ctx, s, key)
	if failed == nil {
		failed = s.Delete(ctx, Keys(key)...)
	}
	if failed != nil && (errors.Is(failed, store.ErrClosed) || ctx.Err() != nil) {
		return nil, failed
	}
	return failed, nil
}
