package redisstore

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// open returns a store that is closed at the end of t.
func open(t testing.TB, client redis.UniversalClient, o *Options) *Store {
	t.Helper()
	s, err := New(client, o)
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
