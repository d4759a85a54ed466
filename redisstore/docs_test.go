package redisstore

import (
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
)

// TestOperationsNames looks for the names of the alerts in docs/operations.md among those that
// servers report, and for its settings of Redis.
func TestOperationsNames(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	must(t, err)
	_, alerts, _ := strings.Cut(string(page), "### Redis and Valkey")
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
