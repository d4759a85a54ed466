package redisstore

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/store"
)

// scanCount is how many keys one SCAN looks at: some tenths of a millisecond of the server.
const scanCount = "1000"

// globs escapes the characters that have a meaning in a pattern of SCAN.
var globs = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// scan calls f for the keys of the buckets with a prefix, some at a time, until f returns an
// error. A key may come twice.
func (s *Store) scan(ctx context.Context, prefix string, f func(keys []string) error) error {
	return s.primaries(ctx, func(c *redis.Client) error { return s.scanOne(ctx, c, prefix, f) })
}

// scanOne is scan for one server.
func (s *Store) scanOne(ctx context.Context, c *redis.Client, prefix string, f func(keys []string) error) error {
	pattern := globs.Replace(s.name(prefix)) + "*"
	for cursor := uint64(0); ; {
		if err := s.ready(ctx); err != nil {
			return err
		}
		names, next, err := ask(ctx, s, c, func(ctx context.Context, args ...any) *redis.ScanCmd {
			return redis.NewScanCmd(ctx, c.Process, args...)
		}, "scan", strconv.FormatUint(cursor, 10), "match", pattern, "count", scanCount, "type", "string").Result()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return explain(nil, err, s.patience)
		}
		for i := range names {
			if names[i] = strings.TrimPrefix(names[i], s.o.Prefix); s.o.EncodeBraces {
				names[i] = decode.Replace(names[i])
			}
		}
		if err := f(names); err != nil || next == 0 {
			return err
		}
		cursor = next
	}
}

// errStop ends a visit whose function has returned false.
var errStop = errors.New("no further bucket is wanted")

// Visit calls f for each bucket whose key starts with prefix, in one pass over the keys of the
// server and in no order. It keeps 16 bytes for each bucket that it has visited, since Redis may
// name a key twice. While a cluster moves slots between its servers, a bucket that moves can be
// missing. See [store.Store].
func (s *Store) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	if err := s.ready(ctx); err != nil {
		return wrap("visit", err)
	}
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	visited := make(map[[2]uint64]struct{})
	var damage error
	err := s.scan(ctx, prefix, func(keys []string) error {
		keys = slices.DeleteFunc(keys, func(key string) bool {
			hash := [2]uint64{maphash.String(seeds[0], key), maphash.String(seeds[1], key)}
			_, again := visited[hash]
			visited[hash] = struct{}{}
			return again
		})
		buckets := make([]store.Bucket, len(keys))
		for i, key := range keys {
			buckets[i].Key = key
		}
		got, errs := s.each(ctx, modeRead, buckets...)
		for _, err := range errs {
			if err != nil {
				return onlyRead(ctx, err)
			}
		}
		for i, key := range keys {
			damage = cmp.Or(damage, got[i].result.Err)
			if got[i].found && !f(store.Entry{Key: key, State: got[i].state}) {
				return errStop
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == errStop {
		return nil
	}
	return wrap("visit", cmp.Or(err, damage))
}

// Size returns [errors.ErrUnsupported]: Redis does not tell the bytes that the keys of a prefix
// take.
func (s *Store) Size(ctx context.Context) (int64, error) {
	return 0, wrap("size", cmp.Or(s.ready(ctx), errors.ErrUnsupported))
}

// Prune removes the buckets that have expired, in one pass over the keys of the server, for a store
// with Options.Clock. Of any other store Redis removes them by itself, some minutes later, and
// Prune has nothing to do. See [store.Store].
func (s *Store) Prune(ctx context.Context) (removed int64, err error) {
	if err := s.ready(ctx); err != nil || s.o.Clock == nil {
		return 0, wrap("prune", err)
	}
	err = s.scan(ctx, "", func(keys []string) error {
		n, err := s.remove(ctx, modePrune, keys)
		removed += n
		return err
	})
	return removed, wrap("prune", err)
}
