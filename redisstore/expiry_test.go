package redisstore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/store"
)

// TestExpiry tests when Redis removes a bucket: some minutes after it has expired, and never if it
// cannot.
func TestExpiry(t *testing.T) {
	client := redistest.Client(t)
	s := open(t, client, &Options{Prefix: redistest.Prefix(t, client)})
	limit := store.Limit{Capacity: 7200, LeakRate: 1}
	never := time.Duration(-1)
	for _, c := range []struct {
		name, why string
		ops       []store.Op
		want      time.Duration // from now until the bucket is empty
	}{
		{"filled", "it is empty when it has leaked", []store.Op{{Amount: 3600}}, time.Hour},
		{"filled twice", "the last write decides", []store.Op{{Amount: 60}, {Amount: 3540}}, time.Hour},
		{"drained", "an empty bucket still has a time", []store.Op{{Amount: 600}, {Amount: -600, Mode: store.Always}}, 0},
		{"held", "held units do not leak", []store.Op{{Amount: 60}, {Hold: 1}}, never},
		{
			"released", "the key had no expiry, and has to get one",
			[]store.Op{
				{Hold: 60},
				{Amount: 600, Hold: -60, Mode: store.Always},
			},
			10 * time.Minute,
		},
		{"blocked", "the block is longer than the leak", []store.Op{{Amount: 60}, {Mode: store.Block, BlockFor: time.Hour}}, time.Hour},
		{"unblocked", "the block is over", []store.Op{{Amount: 60}, {Mode: store.Block, BlockFor: time.Hour}, {Mode: store.Unblock}}, time.Minute},
		{"no leak", "it never empties", []store.Op{{Bucket: store.Bucket{Limit: store.Limit{Capacity: 9}}, Amount: 1}}, never},
		{
			"the leak ends", "a call with another limit changes when it is empty",
			[]store.Op{{Amount: 60}, {Bucket: store.Bucket{Limit: store.Limit{Capacity: 99}}, Amount: 1}},
			never,
		},
		{
			"in 10^12 years", "the time would overflow",
			[]store.Op{{Bucket: store.Bucket{Limit: store.Limit{Capacity: store.MaxAmount, LeakRate: store.MinLeakRate}}, Amount: 1 << 52}},
			never,
		},
		{"blocked for ever", "the end of its block is no time", []store.Op{{Mode: store.Block, BlockFor: store.Never}}, never},
		{"only blocked", "nothing is left after the block", []store.Op{{Mode: store.Block, BlockFor: time.Hour}}, time.Hour},
		{
			"only blocked, and unblocked", "nothing is left",
			[]store.Op{{Mode: store.Block, BlockFor: time.Hour}, {Mode: store.Unblock}},
			-2,
		},
		{
			"refused by another rate", "it changes the rate of the bucket, which from then on leaks twice as fast",
			[]store.Op{{Amount: 7200}, {Bucket: store.Bucket{Limit: store.Limit{Capacity: 7200, LeakRate: 2}}, Amount: 7200}},
			time.Hour,
		},
		{"refused", "a refusal creates no key", []store.Op{{Amount: 7201}}, -2},
	} {
		for i := range c.ops {
			c.ops[i].Key = c.name
			if c.ops[i].Limit == (store.Limit{}) && c.ops[i].Mode < store.Block {
				c.ops[i].Limit = limit
			}
			do(t, s, c.ops[i])
		}
		got, err := client.TTL(t.Context(), s.o.Prefix+c.name).Result()
		must(t, err)
		if c.want < 0 {
			if got != c.want {
				t.Errorf("%s: the key lives for %v, want %v\nwhy: %s", c.name, got, c.want, c.why)
			}
			continue
		}
		// MaxSkew and a minute; the rounding is up to another minute, and the test takes some
		// seconds.
		least, most := c.want+6*time.Minute-5*time.Second, c.want+7*time.Minute+5*time.Second
		if got < least || got > most {
			t.Errorf("%s: the key lives for %v, want from %v to %v\nwhy: %s", c.name, got, least, most, c.why)
		}
	}
}

// end returns the time in milliseconds at which a key expires, as PEXPIRETIME does from Redis 7 on.
var end = redis.NewScript(`
local left, now = redis.call('PTTL', KEYS[1]), redis.call('TIME')
return left < 0 and left or now[1] * 1000 + math.floor(now[2] / 1000) + left`)

// TestExpiryOutlivesBucket plays random operations, and compares the time at which Redis removes
// each key with the time at which the bucket expires.
func TestExpiryOutlivesBucket(t *testing.T) {
	client := redistest.Client(t)
	s := open(t, client, &Options{Prefix: redistest.Prefix(t, client)})
	g := &generator{Rand: rand.New(rand.NewPCG(4, 4)), limits: []store.Limit{
		{Capacity: 10, LeakRate: 0.1},
		{Capacity: 100, LeakRate: 1.0 / 3},
		{Capacity: 5},
		{Capacity: 1e6, LeakRate: 1e-3},
		{Capacity: 0.3, LeakRate: 1e-9},
		{Capacity: 1e9, LeakRate: 1e9},
	}}
	timed := 0
	for range 1500 {
		op := g.op(time.Now())
		if _, err := s.Fill(t.Context(), op); err != nil && op.Hold == 0 {
			t.Fatalf("%+v: %v", op, err)
		}
		raw, err := client.Get(t.Context(), s.o.Prefix+op.Key).Result()
		if err != nil {
			continue // no bucket
		}
		rec, whole := parse(raw)
		if !whole {
			t.Fatalf("%q is no bucket", raw)
		}
		at, err := end.Run(t.Context(), client, []string{s.o.Prefix + op.Key}).Int64()
		must(t, err)
		switch {
		case at == -1:
			// Without an end the bucket must never expire.
			if rec.Expired(store.MaxTime, store.DefaultMaxSkew) {
				t.Fatalf("%+v has no end", rec)
			}
		case !rec.Expired(at*1000-60_000_000, store.DefaultMaxSkew):
			t.Fatalf("%+v ends at %d, less than a minute after the bucket has expired", rec, at)
		case rec.Expired(at*1000-190_000_000, store.DefaultMaxSkew):
			t.Fatalf("%+v ends at %d, more than three minutes after the bucket has expired", rec, at)
		default:
			timed++
		}
	}
	if timed < 80 {
		t.Errorf("%d keys had an end, want at least 80", timed)
	}
}

// TestExpiryWithClock tests that a store with a clock of its own leaves pruning to Prune: the
// server's clock says nothing about its buckets. Of other stores Redis removes the buckets.
func TestExpiryWithClock(t *testing.T) {
	client := redistest.Client(t)
	now := time.Now()
	plain := open(t, client, &Options{Prefix: redistest.Prefix(t, client)})
	s := open(t, client, &Options{Prefix: redistest.Prefix(t, client), Clock: func() time.Time { return now }})
	b := store.Limit{Capacity: 10, LeakRate: 1}.For("b")
	for range 2 {
		for _, one := range []*Store{plain, s} {
			do(t, one, store.Op{Bucket: b, Amount: 1})
			ttl, err := client.TTL(t.Context(), one.name("b")).Result()
			if err != nil || (ttl == -1) != (one == s) {
				t.Errorf("with a clock: %t: the key lives for %v, %v", one == s, ttl, err)
			}
		}
	}
	now = now.Add(time.Hour)
	if n, err := s.Prune(t.Context()); err != nil || n != 1 {
		t.Errorf("pruned %d, %v; want 1", n, err)
	}
	now = time.Date(2600, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1}); err == nil {
		t.Error("a clock that is out of range decided")
	}
}
