package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/ui"
)

// fault is a fault that begin makes and end mends. Meanwhile the first line of the page contains
// says.
type fault struct {
	name, says string
	begin, end func() error
}

// outages are the stores in which TestOutage makes faults.
var outages = map[string]func(t *testing.T, p *program) (place, []fault){
	"memory": func(_ *testing.T, p *program) (place, []fault) {
		return place{store: memory.New(nil)}, []fault{
			p.pretend("a failure", "store unavailable", func() *atomic.Bool { return &p.store.down }),
			p.pretend("no answer", "", func() *atomic.Bool { return &p.store.hangs }),
		}
	},
	"bolt":     inBolt,
	"postgres": inPostgres,
	"redis":    inRedis,
}

// pretend is a fault of the store that stands before the real one.
func (p *program) pretend(name, says string, on func() *atomic.Bool) fault {
	set := func(to bool) func() error {
		return func() error { on().Store(to); return nil }
	}
	return fault{name, says, set(true), set(false)}
}

// without leaves findings about a subject out, which tells of the machine that tests.
func without(subject string, check func(context.Context) ([]store.Finding, error)) func(context.Context) ([]store.Finding, error) {
	return func(ctx context.Context) (others []store.Finding, err error) {
		all, err := check(ctx)
		for _, f := range all {
			if f.Subject != subject {
				others = append(others, f)
			}
		}
		return others, err
	}
}

func inBolt(t *testing.T, p *program) (place, []fault) {
	dir := t.TempDir()
	faults := []fault{p.pretend("no answer", "", func() *atomic.Bool { return &p.store.hangs })}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=40m"); err != nil {
		t.Logf("NOT TESTED: a full disk, because only root can mount a small file system: %v", err)
	} else {
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		})
		filler := filepath.Join(dir, "filler")
		faults = append(faults, fault{"a full disk", "free space", func() error {
			f, err := os.Create(filler)
			if err != nil {
				return err
			}
			for block := make([]byte, 64<<10); err == nil; {
				_, err = f.Write(block)
			}
			if errors.Is(err, syscall.ENOSPC) {
				err = nil
			}
			return errors.Join(err, f.Close())
		}, func() error { return os.Remove(filler) }})
	}
	s, err := bolt.Open(filepath.Join(dir, "limits.db"), nil)
	must(t, err)
	l, err := boltledger.New(s, nil)
	must(t, err)
	return place{s, l, without("file system", s.Check)}, faults
}

func inPostgres(t *testing.T, _ *program) (place, []fault) {
	server := pgtest.NewServer(t)
	t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) }) // else a server that hangs does not end
	admin := server.Pool(t)
	must(t, migrations.Up(t.Context(), admin, nil))
	text, err := migrations.SQL(nil)
	must(t, err)
	execute := func(statements ...string) func() error {
		return func() error {
			for _, sql := range statements {
				if _, err := admin.Exec(t.Context(), sql); err != nil {
					return fmt.Errorf("%s: %w", sql, err)
				}
			}
			return nil
		}
	}
	must(t, execute("CREATE ROLE app LOGIN; GRANT pg_read_all_stats TO app")())
	for _, m := range regexp.MustCompile(`(?m)^--   (GRANT .*;)$`).FindAllStringSubmatch(text, -1) {
		must(t, execute(m[1])())
	}
	must(t, execute("GRANT INSERT ON brim.buckets_rules TO app")()) // the program brings the rules
	var stranger *pgxpool.Conn
	holds := func(name, says, sql string) fault {
		return fault{name, says, func() (err error) {
			if stranger, err = admin.Acquire(t.Context()); err == nil {
				_, err = stranger.Exec(t.Context(), "BEGIN; "+sql)
			}
			return err
		}, func() error {
			_, err := stranger.Exec(t.Context(), "ROLLBACK")
			stranger.Release()
			return err
		}}
	}
	const set, reload = "ALTER SYSTEM SET ", "SELECT pg_reload_conf()"
	faults := []fault{
		{"a missing right", "rights", execute("REVOKE UPDATE ON brim.buckets FROM app"), execute("GRANT UPDATE ON brim.buckets TO app")},
		{
			"row security", "row security",
			execute("ALTER TABLE brim.buckets ENABLE ROW LEVEL SECURITY"), execute("ALTER TABLE brim.buckets DISABLE ROW LEVEL SECURITY"),
		},
		{"no table", "table", execute("ALTER TABLE brim.buckets RENAME TO lost"), execute("ALTER TABLE brim.lost RENAME TO buckets")},
		{
			"no key", "key",
			execute("ALTER TABLE brim.buckets DROP CONSTRAINT buckets_pkey"), execute("ALTER TABLE brim.buckets ADD PRIMARY KEY (key)"),
		},
		{
			"read-only", "default_transaction_read_only",
			execute(set+"default_transaction_read_only = on", reload), execute(set+"default_transaction_read_only = off", reload),
		},
		{
			"no standby", "synchronous_standby_names",
			execute(set+"synchronous_standby_names = '*'", reload), execute(set+"synchronous_standby_names = ''", reload),
		},
		{
			"no connection", "too many connections",
			execute("ALTER ROLE app CONNECTION LIMIT 0", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'"),
			execute("ALTER ROLE app CONNECTION LIMIT -1"),
		},
		holds("held rows", "warning: held rows", "SELECT FROM brim.buckets FOR UPDATE"),
		holds("a locked table", "", "LOCK TABLE brim.buckets"),
		{"a server that hangs", "", func() error { return server.Signal(syscall.SIGSTOP) }, func() error { return server.Signal(syscall.SIGCONT) }},
		{"a server that ended", "connection refused", func() error { return server.Stop(true) }, func() error { return server.Start() }},
	}
	pool := pgtest.PoolAt(t, strings.Replace(server.URL(), "postgres@", "app@", 1), postgres.WatchCommits)
	s, err := postgres.New(pool, nil)
	must(t, err)
	l, err := pgledger.New(s, nil)
	must(t, err)
	return place{s, l, ui.JoinChecks(
		func(ctx context.Context) ([]store.Finding, error) { return postgres.Check(ctx, pool, nil) },
		func(ctx context.Context) ([]store.Finding, error) { return pgledger.Check(ctx, pool, nil) },
	)}, faults
}

func inRedis(t *testing.T, _ *program) (place, []fault) {
	server := redistest.NewServer(t, "appendonly yes", "appendfsync always")
	t.Cleanup(func() { _ = server.Resume() })
	admin := server.Client(t)
	send := func(text string) func() error {
		return func() error {
			var args []any
			for _, word := range strings.Fields(text) {
				args = append(args, word)
			}
			return admin.Do(t.Context(), args...).Err()
		}
	}
	must(t, send("ACL SETUSER app on >pw ~brim:* +@all")())
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "app", Password: "pw"})
	t.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(client, nil)
	must(t, err)
	check := func(ctx context.Context) ([]store.Finding, error) { return redisstore.Check(ctx, client, nil) }
	return place{store: s, check: check}, []fault{
		{"a missing right", "rights", send("ACL SETUSER app -evalsha -eval"), send("ACL SETUSER app +evalsha +eval")},
		{"a full memory", "maxmemory", send("CONFIG SET maxmemory 1"), send("CONFIG SET maxmemory 0")},
		{"too few replicas", "min-replicas-to-write", send("CONFIG SET min-replicas-to-write 1"), send("CONFIG SET min-replicas-to-write 0")},
		{"a server that hangs", "", server.Pause, server.Resume},
		{"a server that ended", "connection refused", server.Kill, func() error {
			return errors.Join(server.Start(), send("ACL SETUSER app on >pw ~brim:* +@all")()) // it is in no file
		}},
	}
}

// banner is the first line of the page.
type banner struct{ Class, Text, Findings string }

const first = `(() => {
	const line = document.querySelector(".health");
	return {Class: line.className, Text: line.innerText, Findings: line.querySelector("ul")?.innerText ?? ""};
})()`

// TestOutage keeps the first page open while a store has faults, with callers and without: the page
// tells of each fault and of each recovery within five seconds where a check is quick.
// BRIM_SCREENSHOTS keeps pictures.
func TestOutage(t *testing.T) {
	for name, open := range outages {
		for _, called := range []bool{true, false} {
			t.Run(fmt.Sprint(name, "-", called), func(t *testing.T) {
				p := new(program)
				at, faults := open(t, p)
				p.serve(t, at)
				limit := brim.Limit{Capacity: 5, LeakRate: 1}
				call := func(ctx context.Context, i int) {
					for _, f := range []func(context.Context){ // which fail, as the test wants
						func(ctx context.Context) { _, _ = p.lim.TryFillup(ctx, limit.For("a"), 1) },
						func(ctx context.Context) {
							_, _ = p.cards.Charge(ctx, spend.Request{ID: fmt.Sprint("pay-", i), Account: fmt.Sprint("card:", i%7), Amount: cents(1_00)})
						},
					} {
						limited, end := context.WithTimeout(ctx, time.Second)
						f(limited)
						end()
					}
				}
				call(t.Context(), 0) // makes the rows
				if called {
					ctx, cancel := context.WithCancel(t.Context())
					var wg sync.WaitGroup
					defer wg.Wait()
					defer cancel()
					wg.Go(func() {
						for i := 1; ctx.Err() == nil; i++ {
							call(ctx, i)
							time.Sleep(50 * time.Millisecond)
						}
					})
				}
				for _, f := range faults {
					b := newTab(t, look{dark: true})
					b.open(p.page(""))
					// tells waits until the page tells of the fault, or of its end. A check that is
					// slow makes both slower, and one that takes more than 0.3 s is seldom made
					// unless calls fail.
					tells := func(faulty bool, since time.Time) {
						t.Helper()
						for {
							now := evaluate[banner](b, first)
							bad, took, slowest := now.Class == "health bad", time.Since(since), time.Duration(p.slowest.Load())
							bound := 5*time.Second + 8*slowest
							if (faulty || strings.HasPrefix(f.says, "warning")) && f.says != "" && slowest > 300*time.Millisecond {
								bound += 20 * slowest
							}
							if faulty && strings.Contains(now.Text, f.says) && (bad || strings.HasPrefix(f.says, "warning")) ||
								!faulty && !bad && now.Findings == "" && !strings.HasPrefix(now.Text, "Not tried") {
								t.Logf("%s: %v, told after %.1f s, a check takes %.2f s: %s", f.name, faulty, took.Seconds(), slowest.Seconds(), now.Text)
								return
							}
							if took > bound {
								t.Fatalf("%s: %v, not told after %v, a check takes %v, on\n%s", f.name, faulty, took, slowest, b.text())
							}
							time.Sleep(20 * time.Millisecond)
						}
					}
					tells(false, time.Now())
					must(t, f.begin())
					tells(true, time.Now())
					if called && os.Getenv("BRIM_SCREENSHOTS") != "" {
						for _, l := range looks {
							if l.width == 768 {
								continue
							}
							b := newTab(t, l)
							b.open(p.page(""))
							b.see(strings.ReplaceAll(fmt.Sprint("outage ", name, " ", f.name), " ", "-"))
						}
					}
					must(t, f.end())
					tells(false, time.Now())
					b.quiet()
				}
			})
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
