package observe

import (
	"context"
	"errors"
	"time"

	"github.com/brimgo/brim/internal/cached"
	"github.com/brimgo/brim/store"
)

// Count tells how many buckets a store had, and how much room they took.
type Count struct {
	Buckets int64         // without damaged ones
	Bytes   int64         // as [store.Size] returns them; -1 if the store does not tell
	At      time.Time     // the beginning of the count, by this process's clock
	Took    time.Duration // the duration of the count
}

// BucketCounter counts the buckets of a store for metrics, which ask often. A count visits every
// bucket. So all who ask share one count. After a count that took one second, the BucketCounter
// rests for 20 seconds, and in proportion after a shorter or longer count; Count.At tells how old
// the answer is. It is safe for concurrent use.
type BucketCounter struct{ value *cached.Value[Count] }

// NewBucketCounter returns a BucketCounter of s. It counts only when somebody asks. Count s itself,
// not the store that [New] makes of it, whose hooks would see each count as a call.
func NewBucketCounter(s store.Store) *BucketCounter {
	return &BucketCounter{cached.New(func(ctx context.Context) (Count, error) { return count(ctx, s) }, nil, time.Now)}
}

// count counts the buckets of s. Damaged buckets do not count, and are no error: Verify tells them.
func count(ctx context.Context, s store.Store) (Count, error) {
	n := Count{Bytes: -1}
	err := s.Visit(ctx, "", func(store.Entry) bool { n.Buckets++; return true })
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return n, err
	}
	switch bytes, err := s.Size(ctx); {
	case err == nil:
		n.Bytes = bytes
	case !errors.Is(err, errors.ErrUnsupported):
		return n, err
	}
	return n, nil
}

// Count returns the last count, and begins the next one if it is time for it. It waits for the
// first count only. The error is that of ctx, or that of the store at the last count.
func (c *BucketCounter) Count(ctx context.Context) (Count, error) {
	r, err := c.value.Latest(ctx)
	if err == nil {
		err = r.Err
	}
	r.Value.At, r.Value.Took = r.At, r.Took
	return r.Value, err
}

// Close ends a count that runs. Close the BucketCounter before its store.
func (c *BucketCounter) Close() { c.value.Close() }
