package redisstore

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/store"
)

// cluster finds the primary of a bucket.
type cluster struct {
	s      *Store
	client *redis.ClusterClient

	nodes sync.Map // from a primary's *redis.Client to its *node
	addrs sync.Map // from an address to the *redis.Client of that primary

	mu     sync.Mutex
	closed bool
}

// nodeOf returns the node that combines the requests for a key of Redis.
func (c *cluster) nodeOf(key string) (*node, error) {
	client, err := c.primary(key)
	if err != nil {
		return nil, err
	}
	if n, ok := c.nodes.Load(client); ok {
		return n.(*node), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, store.ErrClosed
	}
	if n, ok := c.nodes.Load(client); ok {
		return n.(*node), nil
	}
	n, err := newNode(c.s, client)
	if err == nil {
		c.nodes.Store(client, n)
	}
	return n, err
}

// primary returns the client of the server that is the primary of the key, as far as is known. The
// map of the cluster is loaded by now, so this does not wait for a server.
func (c *cluster) primary(key string) (*redis.Client, error) {
	client, err := c.client.MasterForKey(context.Background(), key)
	if err != nil {
		return nil, explain(nil, err, c.s.patience)
	}
	return client, nil
}

// primaries returns the clients of all primaries.
func (c *cluster) primaries(ctx context.Context) (clients []*redis.Client, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.s.o.CallTimeout)
	defer cancel()
	found := make(chan error, 1)
	var all []*redis.Client
	go func() { // the client asks its servers for the map one after the other, each for its ReadTimeout
		var mu sync.Mutex
		found <- c.client.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, client)
			return nil
		})
	}()
	select {
	case err = <-found:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, explain(nil, err, c.s.patience)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: the cluster has no primary", store.ErrUnavailable)
	}
	return all, nil
}

// at returns the client of the primary with that address, or nil if the client does not know it
// yet. It asks until a time.
func (c *cluster) at(addr string, until time.Time) *redis.Client {
	if client, ok := c.addrs.Load(addr); ok {
		return client.(*redis.Client)
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	clients, _ := c.primaries(ctx) // without an answer the caller asks the map again
	var found *redis.Client
	for _, client := range clients {
		c.addrs.Store(client.Options().Addr, client)
		if client.Options().Addr == addr {
			found = client
		}
	}
	return found
}

// close refuses further nodes and closes those there are.
func (c *cluster) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.nodes.Range(func(_, n any) bool {
		n.(*node).calls.Close()
		return true
	})
}

// sorted sorts requests into batches: those of one name together, in the order of their first.
func (s *Store) sorted(reqs []*fillRequest, name func(*fillRequest) string) (batches []*batch) {
	of := make(map[string][]*fillRequest)
	var order []string
	for _, r := range reqs {
		name := name(r)
		if of[name] == nil {
			order = append(order, name)
		}
		of[name] = append(of[name], r)
	}
	for _, name := range order {
		for left := of[name]; len(left) > 0; {
			b := newBatch(s.name)
			left = b.take(left, s.o.BatchSize)
			batches = append(batches, b)
		}
	}
	return batches
}

// bySlot is the name of requests that are decided together where a script takes one hash slot.
func (s *Store) bySlot(r *fillRequest) string { return strconv.Itoa(s.slotOf(r.In.ops()[0].Key)) }

// byKeys is the name of requests that are decided together while the keys of a slot are on two
// servers.
func byKeys(r *fillRequest) string {
	var keys []string
	for _, op := range r.In.ops() {
		keys = append(keys, op.Key)
	}
	return strings.Join(keys, "\x00")
}

// follow answers requests whose keys have moved in the cluster, or whose primary has failed.
// Nothing of them was applied. It follows the redirections of the servers, slot by slot, until a
// time.
func (s *Store) follow(reqs []*fillRequest, until time.Time) {
	s.cluster.client.ReloadState(context.Background())
	for _, b := range s.sorted(reqs, s.bySlot) {
		s.followOne(b, until)
	}
}

// hops is the largest number of attempts to find the server of a slot.
const hops = 8

// followOne is follow for the requests of one slot.
func (s *Store) followOne(b *batch, until time.Time) {
	var client *redis.Client
	asking := false
	for attempt := 1; ; attempt++ {
		var err error
		if client == nil {
			client, err = s.cluster.primary(b.keys[0])
		}
		if time.Now().After(until) {
			err = errLate
		}
		if err != nil {
			b.fail(err)
			return
		}
		c := s.call(b, slotScript)
		if c == nil {
			return
		}
		here := client.Options().Addr
		s.run(client, []*call{c}, asking, until)
		client, asking = nil, false
		meaning := c.judge()
		if c.err == nil {
			s.answer(b, c)
			return
		}
		if attempt == hops || time.Now().After(until) || meaning != redirect && meaning != again && meaning != split && meaning != unsent {
			b.fail(s.explainCall(c))
			return
		}
		switch meaning {
		case redirect:
			var addr string
			addr, asking = redirection(c.err, here)
			if client = s.cluster.at(addr, until); client != nil {
				continue
			}
			asking = false
		case split:
			if apart := s.sorted(b.reqs, byKeys); len(apart) > 1 {
				for _, one := range apart {
					s.followOne(one, until)
				}
				return
			}
		case unsent:
			s.cluster.addrs.Delete(here) // the server may be gone for good
		}
		s.retrying(attempt, s.explainCall(c))
		s.cluster.client.ReloadState(context.Background())
		backoff(attempt)
	}
}

// redirection returns the address in a redirection by the server at here, and whether it holds for
// this call alone.
func redirection(err error, here string) (addr string, asking bool) {
	addr, moved := redis.IsMovedError(err)
	if !moved {
		addr, asking = redis.IsAskError(err)
	}
	if strings.HasPrefix(addr, ":") { // the same host
		host, _, _ := net.SplitHostPort(here) // the client has connected to it
		addr = net.JoinHostPort(host, addr[1:])
	}
	return addr, asking
}
