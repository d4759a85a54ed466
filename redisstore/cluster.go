package redisstore

import (
	"context"
	"fmt"
	"math"
	"net"
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
		return nil, fmt.Errorf("%w: %w: %w", store.ErrUnavailable, errNoPrimary, err)
	}
	return client, nil
}

// primaries returns the clients of all primaries.
func (c *cluster) primaries(ctx context.Context) (clients []*redis.Client, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.s.o.CallTimeout)
	defer cancel()
	found := make(chan []*redis.Client, 1)
	failed := make(chan error, 1)
	go func() { // the client asks its servers for the map one after the other, each for its ReadTimeout
		var mu sync.Mutex
		var all []*redis.Client
		if err := c.client.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, client)
			return nil
		}); err != nil {
			failed <- err
			return
		}
		found <- all
	}()
	select {
	case clients = <-found:
	case err = <-failed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, explain(store.ErrUnavailable, err, c.s.patience)
	}
	if len(clients) == 0 {
		return nil, fmt.Errorf("%w: the cluster has no primary", store.ErrUnavailable)
	}
	return clients, nil
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

// slots sorts requests into batches of one hash slot each.
func (s *Store) slots(reqs []*fillRequest) (batches []*batch) {
	bySlot := make(map[int][]*fillRequest)
	var order []int
	for _, r := range reqs {
		slot := 0
		for key := range r.In.keys { // all keys of a request are of one slot
			slot = slotOf(s.o.Prefix, key)
			break
		}
		if bySlot[slot] == nil {
			order = append(order, slot)
		}
		bySlot[slot] = append(bySlot[slot], r)
	}
	for _, slot := range order {
		for left := bySlot[slot]; len(left) > 0; {
			b := newBatch(s.o.Prefix)
			left = b.take(left, s.o.BatchSize)
			batches = append(batches, b)
		}
	}
	return batches
}

// follow answers requests whose keys have moved in the cluster, or whose primary has failed.
// Nothing of them was applied. It follows the redirections of the servers, slot by slot, until a
// time.
func (s *Store) follow(reqs []*fillRequest, until time.Time) {
	s.cluster.client.ReloadState(context.Background())
	for _, b := range s.slots(reqs) {
		if time.Now().After(until) {
			b.fail(errLate)
			continue
		}
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
		if client == nil {
			var err error
			if client, err = s.cluster.primary(b.keys[0]); err != nil {
				b.fail(err)
				return
			}
		}
		c := s.call(b, slotScript)
		if c == nil {
			return
		}
		here := client.Options().Addr
		s.run(client, []*call{c}, asking, until)
		client, asking = nil, false
		if c.err == nil {
			s.settle(b, c)
			return
		}
		meaning := c.judge()
		last := attempt == hops || time.Now().After(until)
		switch {
		case meaning == redirect && !last:
			var addr string
			addr, asking = redirection(c.err, here)
			if client = s.cluster.at(addr, until); client != nil {
				continue
			}
			asking = false
		case meaning == split && len(b.keys) > 1 && b.separate():
			for _, one := range b.byKey() {
				s.followOne(one, until)
			}
			return
		case (meaning == again || meaning == split || meaning == unsent) && !last:
		default:
			b.fail(s.explainCall(c))
			return
		}
		if meaning == unsent {
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

// separate reports whether the batch has requests that do not share all of their keys.
func (b *batch) separate() bool { return len(b.byKey()) > 1 }

// byKey sorts the requests of a batch into batches: those for one key together, and each of several
// keys alone.
func (b *batch) byKey() (batches []*batch) {
	one := make(map[string][]*fillRequest)
	var order []string
	for _, r := range b.reqs {
		var keys []string
		for key := range r.In.keys {
			keys = append(keys, key)
		}
		name := strings.Join(keys, "\x00")
		if one[name] == nil {
			order = append(order, name)
		}
		one[name] = append(one[name], r)
	}
	for _, name := range order {
		single := newBatch(b.prefix)
		single.take(one[name], math.MaxInt) // one script: they were in one before
		batches = append(batches, single)
	}
	return batches
}
