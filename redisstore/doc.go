// Package redisstore keeps buckets in Redis, in Valkey or in a Redis Cluster, shared by any
// number of processes and machines.
//
// The name of the package leaves the name redis to the client, github.com/redis/go-redis/v9, which
// programs import beside it:
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	buckets, err := redisstore.New(client, nil)
//
// A Lua script on the server makes each decision, from the server's clock and the stored bucket.
// Calls that are made at the same time share a script, and a lone caller waits for nobody. The
// answers are exactly those of package store. A bucket is one text that redis-cli shows. Redis
// removes it some minutes after the bucket has leaked empty.
//
// # Durability
//
// An acknowledged fill is as durable as the server makes it. With an append-only file and
// appendfsync always, or with Options.Synced, it survives a crash of the server. Otherwise a
// crash loses the last fills, and a fail-over loses the fills that the new primary has not
// received; Options.Replicas narrows that. A bucket that has lost fills lets more through than its
// limit says. A server that evicts keys forgets whole buckets; [New] refuses such a server.
//
// # Cluster
//
// Calls are combined for each primary. The buckets of one transaction must be in one hash slot. If
// a key has a part between braces, that part decides the slot, as the specification of Redis
// Cluster says.
package redisstore
