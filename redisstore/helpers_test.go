package redisstore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/store"
)

// open returns a store that is closed at the end of t.
func open(t testing.TB, client redis.UniversalClient, o *Options) *Store {
	t.Helper()
	var s *Store
	must(t, lives(func() (err error) { s, err = New(client, o); return err }))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// lives makes a call to a server that lives until it succeeds, five times at most: a busy machine
// may take longer than CallTimeout.
func lives(call func() error) (err error) {
	for range 5 {
		if err = call(); err == nil {
			break
		}
	}
	return err
}

// list returns the keys of the buckets with a prefix, in order.
func list(ctx context.Context, s *Store, prefix string) (keys []string, err error) {
	err = s.Visit(ctx, prefix, func(e store.Entry) bool {
		keys = append(keys, e.Key)
		return true
	})
	slices.Sort(keys)
	return keys, err
}

// toClock returns a clock that stands, at microseconds since 1970.
func toClock(us int64) func() time.Time { return func() time.Time { return time.UnixMicro(us) } }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// do makes a fill.
func do(t testing.TB, s store.Store, op store.Op) store.State {
	t.Helper()
	st, err := s.Fill(t.Context(), op)
	must(t, err)
	return st
}

// closing closes a client at the end of t.
func closing[C redis.UniversalClient](t testing.TB, client C) C {
	t.Cleanup(func() { _ = client.Close() })
	return client
}
