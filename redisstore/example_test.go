package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/redisstore"
)

// serve decides on three calls of a user, over the Redis at addr.
func serve(ctx context.Context, addr string) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	buckets, err := redisstore.New(client, nil)
	if err != nil {
		return err
	}
	defer buckets.Close() // the client stays open
	limiter := brim.New(buckets, nil)

	calls := brim.Over(2, time.Minute) // two at once, then one more every 30 seconds
	for range 3 {
		st, err := limiter.TryFillup(ctx, calls.For("user:42"), 1)
		if err != nil {
			return err
		}
		fmt.Println(st.Accepted, st.RetryAfter.Round(time.Second))
	}
	return client.Close()
}

// TestExample runs the program of the documentation.
func TestExample(t *testing.T) {
	if err := serve(t.Context(), redistest.NewServer(t).Addr()); err != nil {
		t.Error(err)
	}
}

func ExampleNew() {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"10.0.0.1:6379", "10.0.0.2:6379"}})
	defer client.Close()

	// Wait for one replica before a fill is acknowledged.
	buckets, err := redisstore.New(client, &redisstore.Options{Replicas: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer buckets.Close()

	// The buckets of one transaction share a hash tag.
	limiter := brim.New(buckets, nil)
	user := brim.Over(100, time.Minute).For("{user:42}calls")
	bytes := brim.Over(1e9, time.Hour).For("{user:42}bytes")
	states, err := limiter.TryFillupAll(context.Background(), brim.Fill{Bucket: user, Amount: 1}, brim.Fill{Bucket: bytes, Amount: 4096})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(states[0].Accepted)
}
