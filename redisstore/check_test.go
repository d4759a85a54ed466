package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/seed"
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

// check returns the findings of a check as "severity subject", joined by commas.
func check(t *testing.T, client redis.UniversalClient, o *Options) (findings []store.Finding, names string) {
	t.Helper()
	findings, err := Check(t.Context(), client, o)
	must(t, err)
	return findings, strings.Join(subjects(t, findings), ",")
}

// send sends a command whose words are apart by blanks. A tab is a blank in a word.
func send(t *testing.T, admin *redis.Client, text string) {
	t.Helper()
	var args []any
	for _, word := range strings.Split(text, " ") {
		args = append(args, strings.ReplaceAll(word, "\t", " "))
	}
	if err := admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// mend runs the commands in the remedies of all findings, and fails the test unless a check then
// finds nothing.
func mend(t *testing.T, admin *redis.Client, client redis.UniversalClient) {
	t.Helper()
	findings, _ := check(t, client, nil)
	for _, f := range findings {
		commands := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(f.Remedy, -1)
		if commands == nil {
			t.Fatalf("there is no command in %q", f.Remedy)
		}
		for _, c := range commands {
			send(t, admin, c[1])
		}
	}
	// BGSAVE ends later than its answer, and a replica is counted later than it is connected.
	for end := time.Now().Add(time.Minute); ; {
		_, got := check(t, client, nil)
		if got == "" {
			return
		}
		if got != "broken persistence" && got != "broken min-replicas-to-write" || time.Now().After(end) {
			t.Fatalf("after the remedies: %s", got)
		}
	}
}

// TestCheckFindsAndMends makes each fault of a server, and runs the commands of the remedies.
func TestCheckFindsAndMends(t *testing.T) {
	server := redistest.NewServer(t, append(redistest.Enabled(t, "protected-configs"), "appendonly yes", "appendfsync always")...)
	admin := server.Client(t)
	send(t, admin, "ACL SETUSER full on >pw ~brim:* +@all")
	send(t, admin, "ACL SETUSER blind on >pw ~brim:* -@all +ping +hello")
	lost := filepath.Join(t.TempDir(), "lost")
	for _, c := range []struct {
		name, user string
		commands   []string
		want       string
	}{
		{"a sound server", "full", nil, ""},
		{"it evicts", "full", []string{"CONFIG SET maxmemory-policy volatile-ttl"}, "broken maxmemory-policy"},
		{"it persists nothing", "full", []string{"CONFIG SET appendonly no"}, "broken appendonly"},
		{"everysec", "full", []string{"CONFIG SET appendfsync everysec"}, "warning appendfsync"},
		{
			"no syncs", "full",
			[]string{"CONFIG SET appendfsync no", "CONFIG SET no-appendfsync-on-rewrite yes"},
			"warning appendfsync,warning no-appendfsync-on-rewrite",
		},
		{"its memory is full", "full", []string{"CONFIG SET maxmemory 1"}, "broken maxmemory"},
		{"it has too few replicas", "full", []string{"CONFIG SET min-replicas-to-write 1"}, "broken min-replicas-to-write"},
		{"it cannot save", "full", []string{"CONFIG SET save 3600\t1000000", "CONFIG SET dir " + lost}, "broken persistence"},
		{"no EVALSHA", "full", []string{"ACL SETUSER full -evalsha -eval"}, "broken rights"},
		{"no keys", "full", []string{"ACL SETUSER full resetkeys ~other:*"}, "broken rights"},
		{"no right at all", "blind", nil, "broken rights,unchecked CONFIG GET,unchecked INFO"},
	} {
		if strings.Contains(c.want, "persistence") {
			must(t, os.Mkdir(lost, 0o700))
		}
		for _, text := range c.commands {
			send(t, admin, text)
		}
		if strings.Contains(c.want, "persistence") {
			must(t, os.Remove(lost))
			for state := map[string]string{}; state["rdb_last_bgsave_status"] != "err"; {
				if state["rdb_bgsave_in_progress"] == "0" {
					_ = admin.Do(t.Context(), "BGSAVE").Err() // refused while the append-only file is rewritten
				}
				text, err := admin.Info(t.Context(), "persistence").Result()
				must(t, err)
				state = fields(text)
			}
		}
		user := redis.Options{Addr: server.Addr(), Username: c.user, Password: "pw"}
		client := closing(t, redis.NewClient(&user))
		if _, got := check(t, client, nil); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
		if strings.Contains(c.want, "persistence") {
			must(t, os.Mkdir(lost, 0o700)) // the operator mends the directory
			must(t, admin.ConfigSet(t.Context(), "dir", lost).Err())
		}
		mend(t, admin, client)
	}
	if _, got := check(t, admin, &Options{Replicas: 1}); got != "broken acknowledgement" {
		t.Errorf("a replica that Options ask for: %s", got)
	}
	if n := admin.Exists(t.Context(), "brim:k").Val(); n != 0 {
		t.Errorf("%d keys", n)
	}
	for _, key := range admin.Keys(t.Context(), "*").Val() {
		if ttl := admin.TTL(t.Context(), key).Val(); !strings.HasPrefix(key, "brim:brim.check/") || ttl <= 0 || ttl > 10*time.Minute {
			t.Errorf("a check has left %s for %v", key, ttl)
		}
	}
}

// TestCheckOfLoading checks a server that loads its data.
func TestCheckOfLoading(t *testing.T) {
	server := redistest.NewServer(t, append(redistest.Enabled(t, "debug-command"), "appendonly yes", "appendfsync always")...)
	client := server.Client(t)
	found := false
	during(t, load(t, server, 5_000), func() {
		findings, got := check(t, client, nil)
		if found = found || got == "broken loading"; got != "" && got != "broken loading" {
			t.Fatalf("%+v while it loads", findings)
		}
	})
	if _, got := check(t, client, nil); got != "" || !found {
		t.Errorf("%q after it has loaded, and found before: %v", got, found)
	}
}

// TestCheckOfReplicas checks a replica, and a primary that has one.
func TestCheckOfReplicas(t *testing.T) {
	sound := []string{"appendonly yes", "appendfsync always"}
	primary := redistest.NewServer(t, sound...)
	_, port, err := net.SplitHostPort(primary.Addr())
	must(t, err)
	replica := redistest.NewServer(t, append(sound, "replicaof 127.0.0.1 "+port)...)
	if _, got := check(t, replica.Client(t), nil); got != "broken role" {
		t.Errorf("a replica: %s", got)
	}
	client := primary.Client(t)
	for { // the primary counts the replica as soon as that is connected
		text, err := client.Info(t.Context(), "replication").Result()
		must(t, err)
		if fields(text)["connected_slaves"] != "0" {
			break
		}
	}
	if _, got := check(t, client, nil); got != "warning min-replicas-to-write" {
		t.Errorf("a primary with a replica: %s", got)
	}
	mend(t, client, client)
}

func TestCheckOfCluster(t *testing.T) {
	cluster := redistest.NewCluster(t, "appendonly yes", "appendfsync always", "min-replicas-to-write 1")
	client := cluster.Client(t)
	for {
		got, err := Check(t.Context(), client, nil)
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
		got, err := Check(t.Context(), client, nil)
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
	got, err := Check(t.Context(), cluster.Client(t), nil)
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
	if _, err := Check(t.Context(), ring, nil); err == nil || !strings.HasPrefix(err.Error(), "redisstore: check: ") {
		t.Errorf("a ring: %v", err)
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	if _, err := Check(t.Context(), client, nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
}

// TestCheckNoFalseAlarm checks a healthy server and a healthy cluster again and again, in two
// places at once.
func TestCheckNoFalseAlarm(t *testing.T) {
	sound := []string{"appendonly yes", "appendfsync always", "cluster-require-full-coverage no"}
	single := redistest.NewServer(t, sound[:2]...).Client(t)
	cluster := redistest.NewCluster(t, append(sound, "min-replicas-to-write 1")...).Client(t)
	for { // the replicas are connected
		if _, got := check(t, cluster, nil); got == "" {
			break
		}
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			client := []redis.UniversalClient{single, cluster}[i%2]
			for range seed.Attempts(10, 500) {
				if got, err := Check(t.Context(), client, nil); err != nil || len(got) > 0 {
					t.Errorf("%v, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
