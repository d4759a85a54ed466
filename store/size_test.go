package store

import (
	"context"
	"errors"
	"testing"
)

// sized is a store that tells its size.
type sized struct {
	Store
	bytes int64
	err   error
}

func (s sized) Size(context.Context) (int64, error) { return s.bytes, s.err }

func TestSize(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Store
		want int64
		err  error
	}{
		{"a store that does not tell", struct{ Store }{}, 0, errors.ErrUnsupported},
		{"a store that tells", sized{bytes: 4711}, 4711, nil},
		{"a store that fails", sized{err: ErrUnavailable}, 0, ErrUnavailable},
	} {
		got, err := Size(t.Context(), c.s)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, got, err, c.want, c.err)
		}
	}
}
