package store

import (
	"context"
	"errors"
)

// Sizer is a capability that a [Store] may have beside its methods. A wrapper asks the store that
// it wraps. Call [Size], which works with every store.
type Sizer interface {
	// Size returns the bytes that the buckets take where the store keeps them: of its file and
	// journal, of its table with indexes, or of memory. Space that is free for later buckets counts
	// too. Size reads no bucket, so it is cheap however many there are.
	Size(ctx context.Context) (int64, error)
}

// Size returns the bytes that the buckets of s take where s keeps them; see [Sizer]. It returns
// [errors.ErrUnsupported] if s is no Sizer, for instance a store in Redis.
func Size(ctx context.Context, s Store) (int64, error) {
	if sizer, ok := s.(Sizer); ok {
		return sizer.Size(ctx)
	}
	return 0, errors.ErrUnsupported
}
