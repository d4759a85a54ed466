package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/store"
)

func TestNewRefuses(t *testing.T) {
	ring := closing(t, redis.NewRing(&redis.RingOptions{}))
	clusterWith := func(o redis.ClusterOptions) redis.UniversalClient {
		o.Addrs = []string{"127.0.0.1:1"}
		return closing(t, redis.NewClusterClient(&o))
	}
	endless := closing(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: -1}))
	nobody := closing(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}))
	var none *redis.Client
	for _, c := range []struct {
		name   string
		client redis.UniversalClient
		o      *Options
		says   string
	}{
		{"nil", nil, nil, "redis.NewClient"},
		{"nil client", none, nil, "redis.NewClient"},
		{"ring", ring, nil, "Redis Cluster"},
		{"replicas", clusterWith(redis.ClusterOptions{ReadOnly: true}), nil, "replicas"},
		{"latency", clusterWith(redis.ClusterOptions{RouteByLatency: true}), nil, "replicas"},
		{"random", clusterWith(redis.ClusterOptions{RouteRandomly: true}), nil, "replicas"},
		{"another client", struct{ redis.UniversalClient }{nobody}, nil, "*redis.ClusterClient"},
		{"negative option", nobody, &Options{Lanes: -1}, "negative"},
		{"negative replicas", nobody, &Options{Replicas: -1}, "negative"},
		{"a prefix without an end", nobody, &Options{Prefix: "limits"}, "end in a colon"},
		{"a prefix that begins with another", nobody, &Options{Prefix: "limits:eu:"}, "have no other one"},
		{"batch size", nobody, &Options{BatchSize: 1_000_000}, "BatchSize"},
		{"no timeout", endless, nil, "ReadTimeout"},
		{"a long timeout", nobody, &Options{CallTimeout: time.Second}, "CallTimeout"},
		{"a map for ever", clusterWith(redis.ClusterOptions{ReadTimeout: -1, ContextTimeoutEnabled: true}), nil, "ReadTimeout"},
		{"call timeout", nobody, &Options{CallTimeout: time.Microsecond}, "CallTimeout"},
	} {
		s, err := New(c.client, c.o)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "redisstore: new: ") {
			t.Errorf("%s: %v; want an error of redisstore that says %q", c.name, err, c.says)
		}
		classed(t, c.name, err, store.ErrMisconfigured, c.says)
		if s != nil {
			t.Errorf("%s: a store beside an error", c.name)
		}
	}
}

func TestNewChecksEviction(t *testing.T) {
	for _, policy := range []string{"allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "noeviction"} {
		client := redistest.NewServer(t, "maxmemory-policy "+policy).Client(t)
		_, err := New(client, nil)
		if (err == nil) != (policy == "noeviction") || err != nil && !strings.Contains(err.Error(), "AllowEviction") {
			t.Errorf("%s: %v", policy, err)
		}
		if _, err := New(client, &Options{AllowEviction: true}); err != nil {
			t.Errorf("%s, allowed: %v", policy, err)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for _, c := range []struct {
		info   string
		synced bool
		says   string // "" if the server will do
	}{
		{"redis_version:7.0.15\r\nredis_mode:standalone", false, ""},
		{"# Server\r\nredis_version:6.2.0\r\n", false, ""},
		{"# Server\r\nredis_version:6.0.16\r\n", false, "6.2"},
		{"redis_version:5.0.7", false, "6.2"},
		{"redis_version:10.0.0", true, ""},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1", true, ""},
		{"redis_version:7.0.15", true, "WAITAOF"},
		{"something else", true, ""},
		{"redis_version:7.0.15\r\nredis_mode:cluster", false, "NewClusterClient"},
		{"redis_version:7.2.4\r\nserver_mode:cluster", false, "NewClusterClient"},
	} {
		s := &Store{o: Options{Synced: c.synced}}
		err := s.checkVersion(fields(c.info))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q, synced = %v: %v; want %q", c.info, c.synced, err, c.says)
		}
	}
}

// aclLine returns the command of docs/redis.md that creates a user.
func aclLine(t *testing.T) (args []any) {
	t.Helper()
	page, err := os.ReadFile("../docs/redis.md")
	must(t, err)
	for _, word := range strings.Fields(regexp.MustCompile(`(?m)^ACL SETUSER .*$`).FindString(string(page))) {
		args = append(args, word)
	}
	return args
}

// TestACLCluster has a user with the rights of the documentation work over a cluster.
func TestACLCluster(t *testing.T) {
	admin := redistest.ClusterClient(t)
	must(t, admin.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
		return c.Do(ctx, append(aclLine(t), "+cluster|slots", "+asking")...).Err()
	}))
	t.Cleanup(func() {
		must(t, admin.ForEachMaster(context.Background(), func(ctx context.Context, c *redis.Client) error {
			return c.Do(ctx, "ACL", "DELUSER", "brim").Err()
		}))
	})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: admin.Options().Addrs, Username: "brim", Password: "secret"})
	defer client.Close()
	var log bytes.Buffer
	s := open(t, client, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var txns []store.Txn
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprint("acl", i))
		txns = append(txns, store.Txn{{Bucket: tenUnits.For(keys[i]), Amount: 1}})
	}
	res, err := s.Apply(t.Context(), txns...)
	must(t, err)
	for _, r := range res {
		must(t, r.Err)
	}
	must(t, redistest.MoveSlot(t.Context(), admin, s.slotOf(keys[0])))
	visited, err := list(t.Context(), s, "acl")
	if err != nil || len(visited) != 50 {
		t.Errorf("Visit: %d, %v; want 50", len(visited), err)
	}
	_, err = s.Prune(t.Context())
	must(t, err)
	must(t, s.Delete(t.Context(), keys...))
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("the store complains about its rights: %s", log.String())
	}
}

// TestACL has a user with the rights of the documentation do everything, and one with fewer get an
// error that names the page.
func TestACL(t *testing.T) {
	server := redistest.NewServer(t)
	admin := server.Client(t)
	must(t, admin.Do(t.Context(), aclLine(t)...).Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "brim", Password: "secret"})
	defer client.Close()
	var log bytes.Buffer
	s := open(t, client, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, fill(t.Context(), s))
	if got := level(t, s); got != 1 {
		t.Errorf("level %v", got)
	}
	_, err := s.Apply(t.Context(), store.Txn{{Bucket: tenUnits.For("b"), Amount: 1}, {Bucket: tenUnits.For("c"), Amount: 1}})
	must(t, err)
	visited, err := list(t.Context(), s, "")
	if err != nil || len(visited) != 2 {
		t.Errorf("Visit: %v, %v", visited, err)
	}
	_, err = s.Prune(t.Context())
	must(t, err)
	must(t, s.Delete(t.Context(), "b"))
	if log.Len() > 0 {
		t.Errorf("the store complains about its rights: %s", log.String())
	}

	other := open(t, client, &Options{Prefix: "other:"})
	if err := fill(t.Context(), other); err == nil || !strings.Contains(err.Error(), "docs/redis.md") {
		t.Errorf("a prefix without rights: %v; want where to look", err)
	}
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", "brim", "-config", "-info").Err())
	open(t, client, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "command=INFO") {
		t.Errorf("the log does not say that INFO is forbidden: %s", log.String())
	}
}

// reply is an error that a server answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// answering answers INFO by a reply.
type answering reply

func (answering) DialHook(next redis.DialHook) redis.DialHook { return next }
func (answering) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a answering) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "info" {
			cmd.SetErr(reply(a))
			return reply(a)
		}
		return next(ctx, cmd)
	}
}

// TestNewAsksAgain: New does not take a server that cannot answer now for one that forbids the
// question. It may evict keys.
func TestNewAsksAgain(t *testing.T) {
	for _, text := range []string{
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.", "ERR max number of clients reached",
	} {
		client := redistest.NewServer(t).Client(t)
		client.AddHook(answering(text))
		if s, err := New(client, nil); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, %v; want ErrUnavailable", text, s, err)
		}
	}
}
