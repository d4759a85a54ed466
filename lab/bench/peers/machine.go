package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// machine describes the machine and the versions that the figures were measured with.
type machine struct {
	OS       string            `json:"os"`
	Kernel   string            `json:"kernel"`
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	Go       string            `json:"go"`
	Modules  map[string]string `json:"modules"`
	Servers  map[string]string `json:"servers"` // versions
	Settings []string          `json:"settings"`
}

// compared are the modules whose versions the report shows.
var compared = []string{
	"github.com/jackc/pgx/v5", "go.etcd.io/bbolt", "golang.org/x/time",
	"github.com/throttled/throttled/v2", "github.com/go-redis/redis_rate/v10", "github.com/redis/go-redis/v9",
	"github.com/ulule/limiter/v3", "go.uber.org/ratelimit", "github.com/sethvargo/go-limiter",
}

// describe collects the machine and the versions. A value that the system does not tell is
// "unknown".
func (e *env) describe(ctx context.Context) (*machine, error) {
	m := &machine{
		OS: runtime.GOOS + "/" + runtime.GOARCH, Kernel: "unknown", CPU: "unknown",
		Cores: runtime.NumCPU(), Go: runtime.Version(),
		Modules: make(map[string]string), Servers: make(map[string]string),
		Settings: []string{
			fmt.Sprintf("%d buckets with room, uniform, by Zipf's law with exponent 1.1, or one of them", keyCount) +
				"; client and servers on the same machine",
			fmt.Sprintf("up to %d connections in each pool; PostgreSQL's and Redis's over the loopback interface",
				connections),
		},
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		m.CPU = cpuModel(bufio.NewScanner(f))
		_ = f.Close() // only read from
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if slices.Contains(compared, dep.Path) {
				m.Modules[dep.Path] = dep.Version
			}
		}
	}
	if e.pool != nil {
		for _, name := range []string{
			"fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "checkpoint_timeout",
		} {
			value, err := e.show(ctx, name)
			if err != nil {
				return nil, err
			}
			m.Settings = append(m.Settings, "PostgreSQL: "+name+"="+value)
		}
		var err error
		if m.Servers[postgresServer], err = e.show(ctx, "server_version"); err != nil {
			return nil, err
		}
	}
	for name, r := range e.redis {
		if r == nil {
			continue
		}
		version, err := r.Version(ctx)
		if err != nil {
			return nil, err
		}
		m.Servers[name] = version
		m.Settings = append(m.Settings,
			name+": "+strings.Join(redisConf[name], ", "))
	}
	slices.Sort(m.Settings[2:])
	return m, nil
}

func (e *env) show(ctx context.Context, setting string) (value string, err error) {
	err = e.pool.QueryRow(ctx, `SELECT current_setting($1)`, setting).Scan(&value)
	return value, err
}

// cpuModel returns the name of the processor from the lines of Linux's /proc/cpuinfo.
func cpuModel(lines *bufio.Scanner) string {
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
