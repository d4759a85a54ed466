package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/store"
)

func TestSlotOf(t *testing.T) {
	client := redistest.ClusterClient(t)
	for _, key := range []string{
		"", "a", "123456789", "{a}b", "x{a}b", "{}a", "a{}b", "{{a}}b", "{a", "a}b{c}", "{a}{b}", "é{ü}", "}{a}", strings.Repeat("k", 512),
	} {
		want, err := client.ClusterKeySlot(t.Context(), "brim:"+key).Result()
		if got := (&Store{o: Options{Prefix: "brim:"}}).slotOf(key); err != nil || int64(got) != want {
			t.Errorf("%q is in slot %d, want %d, %v", key, got, want, err)
		}
	}
}

// TestEncodeBraces has buckets under their own keys whatever the keys contain, and in the slots of
// the whole names.
func TestEncodeBraces(t *testing.T) {
	client := redistest.ClusterClient(t)
	s := open(t, client, &Options{Prefix: redistest.Prefix(t, client), EncodeBraces: true})
	keys := []string{"%25{a}", "%7Ba}", "a%", "a}b{c}", "{a}", "{a}b", "{}"} // in order
	slots := map[int]bool{}
	for i, key := range keys {
		slots[s.slotOf(key)] = true
		do(t, s, store.Op{Bucket: tenUnits.For(key), Amount: float64(i + 1)})
	}
	if len(slots) < len(keys) {
		t.Errorf("%d keys are in %d slots", len(keys), len(slots))
	}
	if got, err := list(t.Context(), s, ""); err != nil || !slices.Equal(got, keys) {
		t.Errorf("%q, %v; want %q", got, err, keys)
	}
	if got, err := list(t.Context(), s, "{a"); err != nil || !slices.Equal(got, []string{"{a}", "{a}b"}) {
		t.Errorf("with a prefix: %q, %v", got, err)
	}
	for i, key := range keys {
		if got, err := s.Read(t.Context(), tenUnits.For(key)); err != nil || got[0].Level != float64(i+1) {
			t.Errorf("%q: %+v, %v", key, got, err)
		}
	}
}

// refusal is an answer of a server.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// before is a hook on each round trip of a client: on a command, or on nil for a pipeline. An error
// is the answer of the command, in the place of the server's.
type before func(redis.Cmder) error

func (before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := b(cmd); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (b before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		_ = b(nil)
		return next(ctx, cmds)
	}
}

// withoutFlags makes the servers of a client refuse scripts over several slots.
func withoutFlags(t *testing.T, client *redis.ClusterClient) {
	t.Helper()
	hook := before(func(cmd redis.Cmder) error {
		if cmd == nil {
			return nil
		}
		if args := cmd.Args(); len(args) > 1 && (args[1] == crossScript.hash || args[1] == crossScript.source) {
			return refusal("ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'")
		}
		return nil
	})
	must(t, client.ForEachMaster(t.Context(), func(_ context.Context, c *redis.Client) error {
		c.AddHook(hook)
		return nil
	}))
}

// TestClusterOverSlots plays random operations on buckets of many slots, through several callers at
// once, and compares each bucket with package store.
func TestClusterOverSlots(t *testing.T) {
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("apart=%v", apart), func(t *testing.T) {
			client := redistest.ClusterClient(t)
			if apart {
				withoutFlags(t, client)
			}
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			s := open(t, client, &Options{Prefix: redistest.Prefix(t, client), Clock: func() time.Time { return now }})
			const keys = 60
			key := func(i int) string { return fmt.Sprint("k", i) }
			var wg sync.WaitGroup
			for i := range keys {
				wg.Go(func() {
					g := newGenerator(uint64(i))
					rec := store.NewRecord(now.UnixMicro())
					for range 20 {
						op := g.op(now)
						op.Key = key(i)
						want, _, wantErr := rec.Fill(&op, now.UnixMicro(), store.DefaultMaxSkew)
						got, err := s.Fill(t.Context(), op)
						same := errors.Is(err, wantErr) || errors.Is(err, store.ErrInvalidAmount) && errors.Is(wantErr, store.ErrInvalidAmount)
						if d := differ.Fields(got, want); d != "" || !same {
							t.Errorf("%+v: %v, want %v\n%s", op, err, wantErr, d)
							return
						}
					}
				})
			}
			wg.Wait()
			var txns []store.Txn
			var all, fit []string
			for i := range keys {
				b := tenUnits.For("t" + key(i))
				all = append(all, b.Key)
				if i%12 < 10 {
					fit = append(fit, b.Key)
				}
				txns = append(txns, store.Txn{{Bucket: b, Amount: float64(i % 12)}, {Bucket: b, Amount: 1}})
			}
			res, err := s.Apply(t.Context(), txns...)
			must(t, err)
			for i, r := range res {
				if r.Err != nil || r.Accepted != slices.Contains(fit, all[i]) {
					t.Errorf("transaction %d: %+v", i, r)
				}
			}
			slices.Sort(fit)
			if visited, err := list(t.Context(), s, "t"); err != nil || !slices.Equal(visited, fit) {
				t.Errorf("visited %q, %v; want %q", visited, err, fit)
			}
			must(t, s.Delete(t.Context(), all...))
			if left, err := list(t.Context(), s, "t"); err != nil || len(left) != 0 {
				t.Errorf("%d left after Delete, %v", len(left), err)
			}
			for _, n := range s.nodes() {
				if want := apart || redistest.Before7(t); n.apart.Load() != want { // the flag came with Redis 7
					t.Errorf("a primary has apart = %v, want %v", n.apart.Load(), want)
				}
			}
		})
	}
}

// nodes returns the primaries that the store has called.
func (s *Store) nodes() (list []*node) {
	s.cluster.nodes.Range(func(_, n any) bool {
		list = append(list, n.(*node))
		return true
	})
	return list
}

// TestClusterTransactions tests that a transaction over several slots is refused, and its
// neighbours are not.
func TestClusterTransactions(t *testing.T) {
	client := redistest.ClusterClient(t)
	s := open(t, client, &Options{Prefix: redistest.Prefix(t, client)})
	op := func(key string) store.Op { return store.Op{Bucket: tenUnits.For(key), Amount: 1} }
	res, err := s.Apply(t.Context(),
		store.Txn{op("a")},
		store.Txn{op("a"), op("b")},
		store.Txn{op("{x}a"), op("{x}b"), op("y{x}c")},
		store.Txn{op("a"), op("a")},
	)
	must(t, err)
	for i, want := range []bool{true, false, true, true} {
		if res[i].Accepted != want || (res[i].Err == nil) != want {
			t.Errorf("transaction %d: %+v, want accepted = %v", i, res[i], want)
		}
	}
	if err := res[1].Err; !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "hash tag") {
		t.Errorf("%v; want errors.ErrUnsupported that names hash tags", err)
	}
	got, err := s.Read(t.Context(), tenUnits.For("a"), tenUnits.For("b"), tenUnits.For("{x}b"))
	if err != nil || got[0].Level != 3 || got[1].Level != 0 || got[2].Level != 1 {
		t.Errorf("%+v, %v; want levels 3, 0 and 1", got, err)
	}
}

// TestResharding moves a slot from primary to primary and back under load, key by key. No
// acknowledged fill may be lost and none may go in twice.
func TestResharding(t *testing.T) {
	client := redistest.ClusterClient(t)
	prefix := redistest.Prefix(t, client)
	s := open(t, client, &Options{Prefix: prefix})
	const keys = 24
	limit := store.Limit{Capacity: 1 << 40}
	key := func(i int) string { return fmt.Sprintf("{tag}%d", i%keys) }
	var sure, maybe [keys]atomic.Int64
	var refused atomic.Int64
	count := func(err error, at ...int) {
		for _, i := range at {
			switch {
			case err == nil:
				sure[i].Add(1)
			case errors.Is(err, store.ErrUnknownOutcome):
				maybe[i].Add(1)
			case errors.Is(err, store.ErrUnavailable):
				refused.Add(1)
			default:
				t.Errorf("%v; want ErrUnknownOutcome or ErrUnavailable", err)
			}
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for {
				select {
				case <-stop:
					return
				default:
				}
				i, j := rng.IntN(keys), rng.IntN(keys)
				if g < 6 || i == j {
					_, err := s.Fill(t.Context(), store.Op{Bucket: limit.For(key(i)), Amount: 1, Mode: store.Mode(g % 3)})
					count(err, i)
					continue
				}
				res, err := s.Apply(t.Context(), store.Txn{{Bucket: limit.For(key(i)), Amount: 1}, {Bucket: limit.For(key(j)), Amount: 1}})
				if err == nil {
					err = res[0].Err
				}
				count(err, i, j)
			}
		})
	}
	slot := s.slotOf(key(0))
	acknowledged := func() (n int64) {
		for i := range sure {
			n += sure[i].Load()
		}
		return n
	}
	for range 4 {
		// The slot has keys to move, and the load goes on between the moves.
		for least := acknowledged() + 200; acknowledged() < least && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		must(t, redistest.MoveSlot(t.Context(), client, slot))
	}
	close(stop)
	wg.Wait()
	total := int64(0)
	for i := range keys {
		got, err := s.Read(t.Context(), limit.For(key(i)))
		must(t, err)
		least, most := sure[i].Load(), sure[i].Load()+maybe[i].Load()
		if l := int64(got[0].Level); l < least || l > most {
			t.Errorf("key %d: level %d, acknowledged %d, unknown %d", i, l, least, most-least)
		}
		total += least
	}
	t.Logf("%d fills acknowledged, %d refused while the slot moved", total, refused.Load())
	if total < 800 {
		t.Error("the load did not get through")
	}
}
