package redisstore

import (
	"context"
	"fmt"
	"math/bits"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/docpage"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/store"
)

// TestLevelNow runs the line of docs/redis.md that shows the level of a bucket.
func TestLevelNow(t *testing.T) {
	page, err := os.ReadFile("../docs/redis.md")
	must(t, err)
	line := regexp.MustCompile(`(?m)^redis-cli EVAL "(.*)" 1 brim:user:1$`).FindSubmatch(page)
	if line == nil {
		t.Fatal("docs/redis.md has no such line")
	}
	client := redistest.Client(t)
	s := open(t, client, &Options{Prefix: redistest.Prefix(t, client)})
	op := store.Op{Bucket: store.Limit{Capacity: 1000, LeakRate: 0.5}.For("user:1"), Amount: 900}
	do(t, s, op)
	before, err := s.Read(t.Context(), op.Bucket)
	must(t, err)
	got, err := client.Eval(t.Context(), string(line[1]), []string{s.name("user:1")}).Float64()
	must(t, err)
	after, err := s.Read(t.Context(), op.Bucket)
	must(t, err)
	if got > before[0].Level+1e-6 || got < after[0].Level-1e-6 {
		t.Errorf("level %v, and by reads %v before and %v after", got, before[0].Level, after[0].Level)
	}
}

// TestEditedByHand has a store believe a text that somebody has written.
func TestEditedByHand(t *testing.T) {
	client := redistest.Client(t)
	s := open(t, client, &Options{Prefix: redistest.Prefix(t, client), Clock: toClock(1795603652_855853)})
	must(t, client.Set(t.Context(), s.name("k"), "8.5 1795603642.855853 100 0.5", 0).Err())
	got, err := s.Read(t.Context(), store.Bucket{Key: "k"})
	if err != nil || got[0].Level != 3.5 || got[0].Capacity != 100 {
		t.Errorf("%+v, %v; want level 3.5", got, err)
	}
}

// TestOperationsNames looks for the names of the alerts in docs/alerts.md among those that
// servers report, and for the settings of Redis in docs/operations.md.
func TestOperationsNames(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	must(t, err)
	text, err := os.ReadFile("../docs/alerts.md")
	must(t, err)
	_, alerts, _ := strings.Cut(string(text), "### Redis and Valkey")
	alerts, _, _ = strings.Cut(alerts, "\n## ")
	_, settings, _ := strings.Cut(string(page), "| Redis | `maxmemory-policy`")
	settings, _, _ = strings.Cut(settings, "\n| all |")
	client := redistest.ClusterClient(t)
	var mu sync.Mutex
	var reported strings.Builder
	config := map[string]string{}
	must(t, client.ForEachShard(t.Context(), func(ctx context.Context, c *redis.Client) error {
		info, err := c.Info(ctx, "everything").Result()
		if err != nil {
			return err
		}
		cluster, err := c.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		all, err := c.ConfigGet(ctx, "*").Result()
		mu.Lock()
		defer mu.Unlock()
		reported.WriteString("\n" + info + cluster)
		config = all
		return err
	}))
	persistent, err := redistest.NewServer(t, "appendonly yes").Client(t).Info(t.Context(), "persistence").Result()
	must(t, err)
	reported.WriteString(persistent)
	names := 0
	for _, line := range strings.Split(alerts, "\n| ") {
		metric, _, _ := strings.Cut(line, " | ")
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(metric, -1) {
			names++
			if !strings.Contains(reported.String(), "\n"+m[1]+":") && m[1] != "offset" {
				t.Errorf("no server reports %s", m[1])
			}
		}
	}
	for _, line := range strings.Split("`maxmemory-policy`"+settings, "\n| ") {
		setting, _, _ := strings.Cut(line, " | wanted")
		setting, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(setting, "Redis Cluster"), "| "), " | ")
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(setting, -1) {
			names++
			if _, ok := config[m[1]]; !ok {
				t.Errorf("no server has a setting %s", m[1])
			}
		}
	}
	if names < 20 {
		t.Errorf("found %d names; the search for them is broken", names)
	}
}

// TestPage compares the figures in docs/internals/redis.md with the script.
func TestPage(t *testing.T) {
	formats := regexp.MustCompile(`%\.(\d+)g`).FindAllStringSubmatch(source, -1)
	for _, m := range formats {
		lacks := docpage.Lacks("../docs/internals/redis.md", "Lua with up to "+m[1]+" digits.",
			fmt.Sprintf("that a double holds exactly up to 2^%d.", bits.Len(store.MaxTime)-1))
		if lacks != "" {
			t.Error(lacks)
		}
	}
	if len(formats) == 0 {
		t.Error("the script formats no number")
	}
}
