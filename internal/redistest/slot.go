package redistest

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// MoveSlot moves a hash slot to another primary of the cluster, key by key. It pauses after each
// key, so that a load meets a slot of which a part has moved.
func MoveSlot(ctx context.Context, client *redis.ClusterClient, slot int) error {
	var from, to *redis.Client
	var ids [2]string
	var mu sync.Mutex
	var all []*redis.Client
	err := client.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, c)
		//lint:ignore SA1019 CLUSTER SHARDS needs Redis 7
		slots, err := c.ClusterSlots(ctx).Result() //nolint:staticcheck // see above
		if err != nil {
			return err
		}
		id, err := c.ClusterMyID(ctx).Result()
		for _, s := range slots {
			if s.Start <= slot && slot <= s.End && s.Nodes[0].ID == id {
				from, ids[0] = c, id
				return err
			}
		}
		to, ids[1] = c, id
		return err
	})
	if err != nil {
		return err
	}
	if from == nil || to == nil {
		return errors.New("redistest: the cluster has no two primaries")
	}
	if err := to.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0]).Err(); err != nil {
		return err
	}
	if err := from.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1]).Err(); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(to.Options().Addr)
	if err != nil {
		return err
	}
	for {
		keys, err := from.ClusterGetKeysInSlot(ctx, slot, 1).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		if err := from.Migrate(ctx, host, port, keys[0], 0, 5*time.Second).Err(); err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	for _, c := range append([]*redis.Client{to, from}, all...) {
		if err := c.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[1]).Err(); err != nil {
			return err
		}
	}
	return nil
}
