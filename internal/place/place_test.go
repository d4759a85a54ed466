package place

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  Kind
		shown string
	}{
		{"limits.db", File, "limits.db"},
		{"/var/lib/limits.db", File, "/var/lib/limits.db"},
		{`C:\limits.db`, File, `C:\limits.db`},
		{"2026-01-01T10:00.db", File, "2026-01-01T10:00.db"},
		{"C:/my limits.db", File, "C:/my limits.db"},
		{"/Library/Application Support/a=b?c:1", File, "/Library/Application Support/a=b?c:1"},
		{"./localhost:5432", File, "./localhost:5432"},
		{`..\my limits.db`, File, `..\my limits.db`},
		{"file:my limits.db", File, "my limits.db"},
		{"localhost", File, "localhost"},
		{"memory", File, "memory"},
		{"file", File, "file"},
		{"file:limits.db", File, "limits.db"},
		{"file:what?:a#b%20", File, "what?:a#b%20"},
		{"file:user:pw@host", File, "user:pw@host"},
		{"file:postgres://u:pw@host/db", File, "postgres://u:pw@host/db"},
		{"file:memory:", File, "memory:"},
		{"FILE:limits.db", File, "limits.db"},
		{"sqlite:app.db", SQLite, "sqlite:app.db"},
		{"SQLite:/var/lib/my app?.db", SQLite, "SQLite:/var/lib/my app?.db"},
		{"memory:", Memory, "memory:"},
		{"postgres://u:pw@h:5433/db?sslmode=disable", PostgreSQL, "postgres://h:5433/db"},
		{"postgres://u:pw@h1:1,h2:2/db", PostgreSQL, "postgres://h1:1,h2:2/db"},
		{"postgresql:///db?host=/tmp&password=pw", PostgreSQL, "postgresql:///db"},
		{"Postgres://u:pw@h/db", PostgreSQL, "postgres://h/db"},
		{"postgres://u:p%40w%2F@h/db", PostgreSQL, "postgres://h/db"},
		{"redis://u:pw@h:6380/3?read_timeout=1s", Redis, "redis://h:6380/3"},
		{"redis://", Redis, "redis:"},
		{"redis://[::1]:7000", Redis, "redis://[::1]:7000"},
		{"rediss://u:pw@h", Redis, "rediss://h"},
		{"redis+unix://u:pw@/run/redis.sock?db=2", Redis, "redis+unix:///run/redis.sock"},
		{"redis+cluster://u:pw@h:1?addr=h:2&addr=h:3", Redis, "redis+cluster://h:1"},
		{"rediss+cluster://u:pw@h:1/0", Redis, "rediss+cluster://h:1/0"},
		{"redis+sentinel://u:pw@h:1/2?master_name=m&password=pw", Redis, "redis+sentinel://h:1/2"},
		{"rediss+sentinel://h:1?master_name=m", Redis, "rediss+sentinel://h:1"},
	} {
		p, err := Parse(c.name)
		if err != nil || p.Kind() != c.kind || p.String() != c.shown {
			t.Errorf("%s: %v %q, %v; want %v %q", c.name, p.Kind(), p, err, c.kind, c.shown)
			continue
		}
		want := map[Kind]string{File: c.shown, SQLite: c.shown[min(len(c.shown), len("sqlite:")):]}[c.kind]
		if p.Path() != want {
			t.Errorf("%s: the path is %q; want %q", c.name, p.Path(), want)
		}
	}
}

// password is the password in the names of these tests. No message contains it by chance.
const password = "s3cr3t"

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, says string }{
		{"", "it is empty"},
		{"memory:limits", "nothing may follow"},
		{"memory://", "nothing may follow"},
		{"file:", "path after file:"},
		{"postgres:/user:s3cr3t@host", "two slashes"},
		{"postgres:user:s3cr3t@host", "two slashes"},
		{"redis:s3cr3t", "two slashes"},
		{"redis:x//s3cr3t://", "two slashes"},
		{"user:s3cr3t@host", "file:NAME"},
		{"user:s3cr3t@host/db.db", "file:NAME"},
		{"s3cr3t://host", "redis+cluster://"},
		{"mysql://user:s3cr3t@host/db", "redis+cluster://"},
		{" postgres://user:s3cr3t@host/db", "redis+cluster://"},
		{"host=h user=u password=s3cr3t", "redis+cluster://"},
		{"/run password=s3cr3t", "file:NAME"},
		{"localhost:5432", "file:NAME"},
		{"localhost:6379/0", "file:NAME"},
		{"10.0.0.7:6379", "file:NAME"},
		{"[::1]:6379", "file:NAME"},
		{":6379", "file:NAME"},
		{"db.example.com:", "file:NAME"},
		{"h1:1,h2:2", "file:NAME"},
		{"host=h", "file:NAME"},
		{"dbname = limits", "file:NAME"},
		{"limits.db\n", "file:NAME"},
		{"my limits.db", "file:NAME"},
		{"limits.db?mode=memory", "file:NAME"},
		{"mysql:limits", "file:NAME"},
		{"//db.example.com/limits", "file:NAME"},
		{"postgres://u:s3cr3t@[::1/db", "%40"},
		{"postgres://u:s3cr3t%zz@h/db", "%25"},
		{"postgres://u:s3cr3t/x@h/db", "%2F"},
		{"postgres://u:12/s3cr3t@h/db", "%2F"},
		{"postgres://u:12?s3cr3t@h/db", "%3F"},
		{"postgres://u:12#s3cr3t@h/db", "%23"},
		{"postgres://u:12#s3cr3t", "%23"},
		{"postgres://u:s3cr3t", "%40"},
		{"postgres://u:s3cr3t@h/db?sslmode=s3cr3t", "sslmode"},
		{"postgres://u@h/db?password=s3cr3t&connect_timeout=s3cr3t", "withheld"},
		{"postgres://u:s3cr3t@h:99999999/db", "port"},
		{"postgres://u:s3cr3t@h/db?pool_max_conns=x", "pool_max_conns"},
		{"postgres://u:s3cr3t@h/db?brim_schema=pg_x", "pg_"},
		{"postgres://u:s3cr3t@h/db?brim_table=%00", "table"},
		{"postgres://u:s3cr3t@h/db?brim_tabel=x", "brim_schema, brim_table"},
		{"postgres://u:s3cr3t@h/db?brim_table=x&brim_table=y", "each once"},
		{"postgres://u:s3cr3t@h/db?a=%zz", "a parameter after ?"},
		{"redis://u:s3cr3t@h:x", "%40"},
		{"redis://:999999", "port"},
		{"redis://u:s3cr3t@h:0", "port"},
		{"redis://u:s3cr3t@h/x", "database number"},
		{"redis://u:s3cr3t@h/s3cr3t", "withheld"},
		{"redis://u:s3cr3t@h/1/2", "path"},
		{"redis://u:s3cr3t@h?db=x", "database number"},
		{"redis://u:s3cr3t@h?read_timeout=x", "read_timeout"},
		{"redis://u:s3cr3t@h?poolsize=x", "unexpected option: poolsize"},
		{"redis://u:s3cr3t@h?brim_prefex=x", "brim_prefix"},
		{"redis://u:s3cr3t@h?brim_replicas=one", "brim_replicas=1"},
		{"redis://u:s3cr3t@h?brim_replicas=-1", "brim_replicas=1"},
		{"redis://u:s3cr3t@h?brim_synced=maybe", "brim_synced is neither"},
		{"redis://u:s3cr3t@h?pool_size=-1", "number of connections"},
		{"redis://u:s3cr3t@h?pool_size=1000000000000", "number of connections"},
		{"redis://u:s3cr3t@h?min_idle_conns=1000000000000", "number of connections"},
		{"redis://u:s3cr3t@h?pipeline_read_buffer_size=1000000000000", "buffer"},
		{"redis://u:s3cr3t@h1:1,h2:2", "?addr=host2:port2"},
		{"redis+unix://u:s3cr3t@h/run/redis.sock", "three slashes"},
		{"redis+unix://u:s3cr3t@", "socket path"},
		{"redis+cluster://u:s3cr3t@h:1,h:2", "?addr=host2:port2"},
		{"redis+cluster://u:s3cr3t@h:1/3", "no database but 0"},
		{"redis+cluster://u:s3cr3t@h:1?addr=h", "addr"},
		{"redis+cluster://u:s3cr3t@h:1?addr=u:s3cr3t%40h:1", "withheld"},
		{"redis+cluster://u:s3cr3t@h:1?pool_size=-1", "number of connections"},
		{"redis+sentinel://u:s3cr3t@h:1", "master_name"},
		{"redis+sentinel://u:s3cr3t@h:1?master_name=m&route_randomly=true", "replicas"},
		{"redis+sentinel://u:s3cr3t@h:1?master_name=m&route_by_latency=true", "replicas"},
		{"redis+sentinel://u:s3cr3t@h:1?master_name=m&replica_only=true", "replicas"},
		{"redis+sentinel://h:1?master_name=m&password=s3cr3t&db=s3cr3t", "withheld"},
		{"redis+sentinel://u:s3cr3t@h:1?master_name=m&pool_size=-1", "number of connections"},
	} {
		p, err := Parse(c.name)
		if p != (Place{}) || !errors.Is(err, ErrName) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want an ErrName that says %q", c.name, err, c.says)
			continue
		}
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, password) {
			t.Errorf("%s: the error quotes the password: %s", c.name, text)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// parsed returns the place of that name.
func parsed(t *testing.T, name string) Place {
	t.Helper()
	p, err := Parse(name)
	must(t, err)
	return p
}

// TestPlaceHidesPassword prints a place by all verbs, also as an unexported field, where fmt cannot
// call its methods.
func TestPlaceHidesPassword(t *testing.T) {
	for _, name := range []string{
		"postgres://u:s3cr3t@h/db", "postgres:///db?password=s3cr3t", "redis://u:s3cr3t@h", "redis+cluster://u:s3cr3t@h",
		"redis+sentinel://u:s3cr3t@h?master_name=m&password=s3cr3t",
	} {
		p := parsed(t, name)
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("open", "store", p)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("open", "store", p)
		data, err := json.Marshal(p)
		text := fmt.Sprintf("%v %s", err, data)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text += fmt.Sprintf(verb, p) + fmt.Sprintf(verb, struct{ p Place }{p})
		}
		if strings.Contains(text+log.String(), password) {
			t.Errorf("%s: the password shows in %s, or in the log %s", name, text, log.String())
		}
	}
}

// An operator of the server sees whose connections these are, unless the URL or PGAPPNAME gives
// another name.
func TestApplicationName(t *testing.T) {
	for _, c := range []struct{ name, env, want string }{
		{"postgres://h/db", "", "brim"},
		{"postgres://h/db?application_name=limits", "", "limits"},
		{"postgres://h/db", "cron", "cron"},
	} {
		t.Setenv("PGAPPNAME", c.env)
		p := parsed(t, c.name)
		config, err := p.PoolConfig(3)
		must(t, err)
		if got := config.ConnConfig.RuntimeParams["application_name"]; got != c.want || config.MaxConns != 3 {
			t.Errorf("%s with PGAPPNAME=%q: application_name is %q, MaxConns %d; want %q, 3", c.name, c.env, got, config.MaxConns, c.want)
		}
	}
}

// TestRedisParameters reads the options of the client back.
func TestRedisParameters(t *testing.T) {
	client := func(name string) redis.UniversalClient {
		t.Helper()
		p := parsed(t, name)
		c, _, err := p.Client(7)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	for _, c := range []struct {
		name, network, addr, user, password string
		db                                  int
		tls                                 bool
	}{
		{"redis://h", "tcp", "h:6379", "", "", 0, false},
		{"redis://u:p%40%2Fw@h:1/3", "tcp", "h:1", "u", "p@/w", 3, false},
		{"rediss://:pw@h/0", "tcp", "h:6379", "", "pw", 0, true},
		{"redis+unix://u:pw@/run/a%20b.sock?db=2", "unix", "/run/a b.sock", "u", "pw", 2, false},
	} {
		o := client(c.name).(*redis.Client).Options()
		if o.Network != c.network || o.Addr != c.addr || o.Username != c.user || o.Password != c.password || o.DB != c.db ||
			(o.TLSConfig != nil) != c.tls || o.PoolSize != 7 {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
	o := client("rediss+cluster://u:pw@h:1?addr=h:2&addr=h:3&max_redirects=9").(*redis.ClusterClient).Options()
	if fmt.Sprint(o.Addrs) != "[h:1 h:2 h:3]" || o.Username != "u" || o.Password != "pw" || o.TLSConfig == nil ||
		o.MaxRedirects != 9 || o.PoolSize != 7 {
		t.Errorf("cluster: %+v", o)
	}
	s := client("rediss+sentinel://su:spw@h:1/4?addr=h:2&master_name=m&username=u&password=pw").(*redis.Client).Options()
	if s.Username != "u" || s.Password != "pw" || s.DB != 4 || s.TLSConfig == nil || s.PoolSize != 7 {
		t.Errorf("sentinel: %+v", s)
	}
	p := parsed(t, "redis://h?brim_prefix=%7Bx%7D:&brim_replicas=2&brim_synced=true&brim_allow_eviction=true")
	if o := p.target.options; o.Prefix != "{x}:" || o.Replicas != 2 || !o.Synced || !o.AllowEviction {
		t.Errorf("brim's own parameters: %+v", o)
	}
}

// FuzzParse reads arbitrary names. An error is an ErrName and quotes no password. A place that was
// read can make its client, and its name and the URL for the client are free of what is not theirs.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"limits.db", "memory:", "", "file:a?b:c@d", "mysql://x", "postgres://host:5432/db?brim_schema=a&brim_table=b&sslmode=disable",
		"postgres://[::1/db", "postgresql:///db?host=/tmp", "postgres://h/%zz", "postgres://h/d?brim_schema=pg_x",
		"postgres://h/d?brim_table=%00", "redis://h:1/2?brim_prefix=x", "rediss://h?skip_verify=true", "redis+unix:///a?db=1",
		"redis+cluster://h?addr=h:1", "redis+sentinel://h?master_name=m&password=x", "redis://h?pool_size=9999999999999",
		"redis:/h", "redis://h?pipeline_pool_size=-5", "redis://h?max_concurrent_dials=-5&min_idle_conns=0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		_, err := Parse(name)
		if err != nil && !errors.Is(err, ErrName) {
			t.Errorf("%q: %v; want an ErrName", name, err)
		}
		scheme, rest, ok := strings.Cut(name, "://")
		if strings.Contains(rest, password) || !ok {
			return
		}
		for _, with := range []string{
			scheme + "://user:" + password + "@" + rest, scheme + ":/user:" + password + "@" + rest,
			"user:" + password + "@" + rest,
		} {
			p, err := Parse(with)
			if err != nil {
				if !errors.Is(err, ErrName) || strings.Contains(err.Error(), password) {
					t.Errorf("%q: %v; want an ErrName without the password", with, err)
				}
				continue
			}
			if p.Kind() == File {
				if strings.ToLower(scheme) != "file" {
					t.Errorf("%q is read as a file", with)
				}
				continue
			}
			if shown, _ := url.PathUnescape(p.String()); strings.Contains(shown, password) {
				t.Errorf("%q: its name %q holds the password", with, p)
			}
			switch p.Kind() {
			case Redis:
				// min_idle_conns would dial in the background.
				if !strings.Contains(rest, "idle") {
					c, _, err := p.Client(0)
					must(t, err)
					_ = c.Close()
				}
			case PostgreSQL:
				if _, has := p.target.pool.ConnConfig.RuntimeParams["brim_schema"]; has {
					t.Errorf("%q: a parameter of brim is left for the server", with)
				}
			}
		}
	})
}

func TestOtherKinds(t *testing.T) {
	for _, name := range []string{"memory:", "limits.db", "redis://h"} {
		p, err := Parse(name)
		if err != nil || p.Name() != name {
			t.Fatal(p.Name(), err)
		}
		if pool, err := p.Pool(t.Context()); err == nil || pool != nil {
			t.Errorf("%s gives a pool", name)
		}
	}
	p := parsed(t, "postgres://h/db?brim_schema=a&brim_table=b")
	if c, _, err := p.Client(0); err == nil || c != nil {
		t.Error("PostgreSQL gives a client of Redis")
	}
	if schema, table := p.Tables(); schema != "a" || table != "b" {
		t.Errorf("the table is %q.%q", schema, table)
	}
}
