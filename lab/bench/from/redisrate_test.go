package from

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/redisstore"
)

func redisRate(ctx context.Context, client *redis.Client, key string) error {
	perMinute := redis_rate.Limit{Rate: 5, Burst: 5, Period: time.Minute}
	res, err := redis_rate.NewLimiter(client).Allow(ctx, key, perMinute)
	switch {
	case err != nil:
		return err
	case res.Allowed == 0:
		return errRefused
	}
	return nil
}

func openRedis(client *redis.Client) (*brim.Limiter, error) {
	db, err := redisstore.New(client, nil) // the client stays yours
	if err != nil {
		return nil, err
	}
	return brim.New(db, nil), nil
}

// fromRedisRate puts into the bucket the units that redis_rate still counts for the key.
func fromRedisRate(ctx context.Context, client *redis.Client, limiter *brim.Limiter, key string, limit brim.Limit) error {
	empty, err := client.Get(ctx, "rate:"+key).Float64()
	if errors.Is(err, redis.Nil) {
		return nil // redis_rate removes a key that is empty
	} else if err != nil {
		return err
	}
	now, err := client.Time(ctx).Result()
	if err != nil {
		return err
	}
	epoch := time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC) // of the seconds in the key
	seconds := empty - now.Sub(epoch).Seconds()
	_, err = limiter.Fillup(ctx, limit.For(key), max(0, seconds*limit.LeakRate))
	return err
}

func TestRedisRate(t *testing.T) {
	client := redistest.Client(t)
	ctx, key := t.Context(), redistest.Prefix(t, client)+"user:42"
	t.Cleanup(func() { client.Del(context.WithoutCancel(ctx), "rate:"+key) })
	admitsFive(t, func() error { return redisRate(ctx, client, key) })
	limiter, err := openRedis(client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Reset(context.WithoutCancel(ctx), key) })
	limit := brim.Over(5, time.Minute)
	if err := fromRedisRate(ctx, client, limiter, key, limit); err != nil {
		t.Fatal(err)
	}
	level(t, limiter, limit.For(key), 5, 1) // a unit is 12 seconds
	if err := fromRedisRate(ctx, client, limiter, key+":unknown", limit); err != nil {
		t.Error(err)
	}

	// As much as fits goes in: the whole units of redis_rate, and all of a bucket.
	at := key + ":most"
	t.Cleanup(func() {
		client.Del(context.WithoutCancel(ctx), "rate:"+at)
		_ = limiter.Reset(context.WithoutCancel(ctx), at)
	})
	for _, c := range []struct{ n, allowed int }{{3, 3}, {4, 2}, {1, 0}} {
		res, err := redis_rate.NewLimiter(client).AllowAtMost(ctx, at, redis_rate.PerMinute(5), c.n)
		st, err2 := limiter.Fillup(ctx, limit.For(at), float64(c.n))
		if err != nil || err2 != nil || res.Allowed != c.allowed || int(float64(c.n)-st.Spilled) != c.allowed {
			t.Errorf("at most %d: redis_rate %+v, %v; brim %v, %v", c.n, res, err, st, err2)
		}
	}

	// A cost above the burst gets a time to come back at, and is refused then, too.
	res, err := redis_rate.NewLimiter(client).AllowN(ctx, key, redis_rate.Limit{Rate: 5, Burst: 5, Period: time.Minute}, 6)
	if err != nil || res.Allowed != 0 || res.RetryAfter <= 0 {
		t.Errorf("redis_rate answers %+v, %v; the page says that it names a time", res, err)
	}
}
