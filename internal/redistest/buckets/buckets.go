// Package buckets opens stores of package redisstore for the tests of other packages. It stands
// apart from package redistest, which the tests of redisstore import.
package buckets

import (
	"testing"
	"time"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/redisstore"
)

// Open returns an empty store on the shared server, which is closed at the end of t. clock is that
// of its Options.
func Open(t testing.TB, clock func() time.Time) *redisstore.Store {
	t.Helper()
	client := redistest.Client(t)
	s, err := redisstore.New(client, &redisstore.Options{Prefix: redistest.Prefix(t, client), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
