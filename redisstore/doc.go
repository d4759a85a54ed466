// Package redisstore keeps buckets in Redis, in Valkey or in a Redis Cluster, shared by any
// number of processes and machines.
//
// Its name leaves the name redis to the client, github.com/redis/go-redis/v9, which stands in the
// same file:
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	buckets, err := redisstore.New(client, nil)
//
// A decision is made by a Lua script, from the server's clock and the stored bucket. Calls that are
// made at the same time share a script, and a lone caller waits for nobody. The answers are exactly
// those of package store. A bucket is one string, which Redis removes some minutes after the bucket
// has leaked empty.
//
// # Durability
//
// An acknowledged fill is as durable as the server makes it. With an append-only file and
// appendfsync always, or with Options.Synced, it survives a crash of the server. Otherwise a
// crash loses the last fills, and a fail-over loses those that the new primary has not received;
// Options.Replicas narrows that. A bucket that has lost fills lets more through than its limit
// says. A server that evicts keys forgets whole buckets; [New] refuses it.
//
// # Cluster
//
// Calls are combined for each primary. The buckets of one transaction must be in one hash slot,
// which the part of their keys between braces decides.
package redisstore
