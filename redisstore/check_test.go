package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/store"
)

// subjects returns the findings as "severity subject", and checks that each has all of its texts.
func subjects(t *testing.T, findings []store.Finding) (list []string) {
	t.Helper()
	for _, f := range findings {
		if f.Subject == "" || f.Problem == "" || f.Remedy == "" {
			t.Errorf("a text is missing in %+v", f)
		}
		list = append(list, fmt.Sprint(f.Severity, " ", f.Subject))
	}
	slices.Sort(list)
	return list
}

func TestCheck(t *testing.T) {
	sound := []string{"appendonly yes", "appendfsync always"}
	primary := redistest.NewServer(t, sound...)
	_, port, err := net.SplitHostPort(primary.Addr())
	must(t, err)
	for _, c := range []struct {
		name string
		conf []string
		want []string
	}{
		{"sound", nil, nil},
		{"evicts", []string{"maxmemory-policy volatile-ttl"}, []string{"broken maxmemory-policy"}},
		{"persists nothing", []string{"appendonly no"}, []string{"broken appendonly"}},
		{"everysec", []string{"appendfsync everysec"}, []string{"warning appendfsync"}},
		{"no syncs", []string{"appendfsync no", "no-appendfsync-on-rewrite yes"}, []string{"warning appendfsync", "warning no-appendfsync-on-rewrite"}},
		{"a replica", []string{"replicaof 127.0.0.1 " + port}, []string{"broken role"}},
	} {
		got, err := Check(t.Context(), redistest.NewServer(t, append(sound, c.conf...)...).Client(t))
		if list := subjects(t, got); err != nil || !slices.Equal(list, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, list, err, c.want)
		}
	}

	// The primary counts the replica of the last case as soon as that is connected.
	client := primary.Client(t)
	for {
		text, err := client.Info(t.Context(), "replication").Result()
		must(t, err)
		if fields(text)["connected_slaves"] != "0" {
			break
		}
	}
	got, err := Check(t.Context(), client)
	if list := subjects(t, got); err != nil || !slices.Equal(list, []string{"warning min-replicas-to-write"}) {
		t.Errorf("a primary with a replica: %q, %v", list, err)
	}
	must(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	if got, err := Check(t.Context(), client); err != nil || len(got) != 0 {
		t.Errorf("a primary that asks for its replica: %v, %v", got, err)
	}
}

// TestCheckTellsMissingRights checks a server as users who may not ask it everything.
func TestCheckTellsMissingRights(t *testing.T) {
	server := redistest.NewServer(t, "maxmemory-policy allkeys-lru")
	for user, c := range map[string]struct{ rights, want string }{
		"none":   {"-@all +ping +hello", "unchecked CONFIG GET,unchecked INFO"},
		"info":   {"-@all +ping +hello +info", "broken appendonly,broken maxmemory-policy,unchecked CONFIG GET"},
		"config": {"-@all +ping +hello +config|get", "unchecked INFO,warning appendfsync"},
	} {
		args := []any{"ACL", "SETUSER", user, "on", ">pw"}
		for _, word := range strings.Fields(c.rights) {
			args = append(args, word)
		}
		must(t, server.Client(t).Do(t.Context(), args...).Err())
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: user, Password: "pw"})
		got, err := Check(t.Context(), client)
		if list := strings.Join(subjects(t, got), ","); err != nil || list != c.want {
			t.Errorf("%s: %s, %v; want %s", user, list, err, c.want)
		}
		must(t, client.Close())
	}
}

func TestCheckOfCluster(t *testing.T) {
	cluster := redistest.NewCluster(t, "appendonly yes", "appendfsync always", "min-replicas-to-write 1")
	client := cluster.Client(t)
	for {
		got, err := Check(t.Context(), client)
		must(t, err)
		if list := subjects(t, got); len(list) == redistest.Primaries && !slices.ContainsFunc(list, func(s string) bool {
			return !strings.HasPrefix(s, "warning cluster-require-full-coverage on 127.0.0.1:")
		}) {
			break
		} else if slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, "broken") }) {
			t.Fatalf("a whole cluster: %q", list)
		}
	}
	// A slot without a server breaks the cluster.
	slot, err := client.ClusterKeySlot(t.Context(), "k").Result()
	must(t, err)
	must(t, client.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
		err := c.Do(ctx, "CLUSTER", "DELSLOTS", slot).Err()
		if err != nil && strings.Contains(err.Error(), "already unassigned") {
			err = nil
		}
		return err
	}))
	for {
		got, err := Check(t.Context(), client)
		must(t, err)
		if slices.ContainsFunc(subjects(t, got), func(s string) bool { return strings.HasPrefix(s, "broken cluster_state on ") }) {
			break
		}
	}
}

// A primary without a replica is told in a cluster alone: a single server has its append-only file.
func TestCheckMissesReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the tests that start a Redis")
	}
	cluster, err := redistest.LaunchCluster(false, "appendonly yes", "appendfsync always")
	must(t, err)
	defer cluster.Close()
	got, err := Check(t.Context(), cluster.Client(t))
	n := 0
	for _, s := range subjects(t, got) {
		if strings.HasPrefix(s, "warning replicas on ") {
			n++
		}
	}
	if err != nil || n != redistest.Primaries {
		t.Errorf("%v, %v; want %d primaries without a replica", got, err, redistest.Primaries)
	}
}

func TestCheckFails(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	if _, err := Check(t.Context(), ring); err == nil || !strings.HasPrefix(err.Error(), "redisstore: check: ") {
		t.Errorf("a ring: %v", err)
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	if _, err := Check(t.Context(), client); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
}
