package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/store"
)

var tenUnits = store.Limit{Capacity: 10}

// fill puts one unit into the bucket b.
func fill(ctx context.Context, s *Store) error {
	_, err := s.Fill(ctx, store.Op{Bucket: tenUnits.For("b"), Amount: 1})
	return err
}

// level returns the level of the bucket b.
func level(t *testing.T, s *Store) float64 {
	t.Helper()
	got, err := s.Read(t.Context(), tenUnits.For("b"))
	must(t, err)
	return got[0].Level
}

// TestRefusals puts a server into states in which it refuses scripts. The error must say what to
// do, nothing may be applied, and the store must work again afterwards.
func TestRefusals(t *testing.T) {
	server := redistest.NewServer(t)
	admin := server.Client(t)
	ctx := t.Context()
	set := func(name, value string) {
		t.Helper()
		must(t, admin.ConfigSet(ctx, name, value).Err())
	}
	for _, c := range []struct {
		name      string
		want      error
		says      string
		set, undo func(s *Store)
	}{
		{
			"memory full", store.ErrUnavailable, "maxmemory",
			func(*Store) { set("maxmemory", "1") },
			func(*Store) { set("maxmemory", "0") },
		},
		{
			"replica", store.ErrUnavailable, "primary",
			func(*Store) { must(t, admin.ReplicaOf(ctx, "127.0.0.1", "1").Err()) },
			func(*Store) { must(t, admin.ReplicaOf(ctx, "NO", "ONE").Err()) },
		},
		{
			"too few replicas", store.ErrUnavailable, "min-replicas-to-write",
			func(*Store) { set("min-replicas-to-write", "1") },
			func(*Store) { set("min-replicas-to-write", "0") },
		},
		{
			"another type", store.ErrCorrupt, "Options.Prefix",
			func(s *Store) {
				must(t, admin.Rename(ctx, s.o.Prefix+"b", "aside").Err())
				must(t, admin.HSet(ctx, s.o.Prefix+"b", "field", "value").Err())
			},
			func(s *Store) {
				if typ, err := admin.Type(ctx, s.o.Prefix+"b").Result(); typ != "hash" || err != nil {
					t.Errorf("the value of another type is now a %s, %v", typ, err)
				}
				must(t, admin.Rename(ctx, "aside", s.o.Prefix+"b").Err())
			},
		},
		{
			"a script for ever", store.ErrUnavailable, "SCRIPT KILL",
			func(*Store) {
				set("lua-time-limit", "1") // from Redis 7 on another name of busy-reply-threshold
				started := make(chan struct{})
				looping := server.Client(t)
				t.Cleanup(func() { <-started })
				go func() {
					defer close(started)
					_ = looping.Eval(context.WithoutCancel(ctx), "while true do end", nil).Err() // killed below
				}()
				for admin.Ping(ctx).Err() == nil {
					time.Sleep(time.Millisecond)
				}
			},
			func(*Store) { must(t, admin.ScriptKill(ctx).Err()) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, admin, &Options{Prefix: redistest.Prefix(t, admin)})
			must(t, fill(ctx, s))
			c.set(s)
			err := fill(ctx, s)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want %v and the words %q", err, c.want, c.says)
			}
			res, err := s.Apply(ctx, store.Txn{{Bucket: tenUnits.For("a"), Amount: 1}, {Bucket: tenUnits.For("b"), Amount: 1}})
			if err == nil {
				err = res[0].Err
			}
			if !errors.Is(err, c.want) {
				t.Errorf("Apply: %v; want %v", err, c.want)
			}
			c.undo(s)
			if got := level(t, s); got != 1 {
				t.Errorf("level %v, want 1: refused calls change nothing", got)
			}
			if got, err := s.Read(ctx, tenUnits.For("a")); err != nil || got[0].Level != 0 {
				t.Errorf("%+v, %v: a refused transaction went in by half", got, err)
			}
			must(t, fill(ctx, s))
		})
	}
}

// TestScriptFlush has the server forget its scripts.
func TestScriptFlush(t *testing.T) {
	server := redistest.NewServer(t)
	client := server.Client(t)
	s := open(t, client, nil)
	for range 3 {
		must(t, fill(t.Context(), s))
		must(t, client.ScriptFlush(t.Context()).Err())
	}
	if got := level(t, s); got != 3 {
		t.Errorf("level %v after 3 fills", got)
	}
}

// TestRenamedCommands disables commands that the store needs, or can do without.
func TestRenamedCommands(t *testing.T) {
	remove := func(ctx context.Context, s *Store) error { return s.Delete(ctx, "b") }
	visit := func(ctx context.Context, s *Store) error { _, err := list(ctx, s, ""); return err }
	for _, c := range []struct {
		command string
		works   bool
		call    func(context.Context, *Store) error
	}{
		{"INFO", true, fill},
		{"EVALSHA", false, fill},
		{"EVAL", false, fill},
		{"TIME", false, fill},
		{"SET", false, fill},
		{"DEL", false, remove},
		{"SCAN", false, visit},
	} {
		t.Run(c.command, func(t *testing.T) {
			server := redistest.NewServer(t, fmt.Sprintf(`rename-command %s ""`, c.command))
			client := server.Client(t)
			content := func() string {
				got, err := client.Get(t.Context(), DefaultPrefix+"b").Result()
				if err != nil && !errors.Is(err, redis.Nil) {
					t.Fatal(err)
				}
				return got
			}
			if c.command == "DEL" {
				must(t, client.Set(t.Context(), DefaultPrefix+"b", "to be removed", 0).Err())
			}
			before := content()
			var log bytes.Buffer
			s := open(t, client, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			err := c.call(t.Context(), s)
			switch {
			case c.works && (err != nil || !strings.Contains(log.String(), c.command)):
				t.Errorf("%v; want the fill done and a log line about %s, have %q", err, c.command, log.String())
			case !c.works && (!errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "docs/redis.md")):
				t.Errorf("%v; want ErrMisconfigured and where to look", err)
			}
			if got := content(); !c.works && got != before {
				t.Errorf("the bucket is %q, and was %q; want nothing applied", got, before)
			}
		})
	}
}

// load has a server load data, 300 keys with a delay in microseconds for each, and returns the end
// of that.
func load(t *testing.T, server *redistest.Server, delay int) <-chan error {
	t.Helper()
	client := server.Client(t)
	// The server answers while it loads, between each of the keys, or before Redis 7 every 2 MiB.
	must(t, client.ConfigSet(t.Context(), "rdbcompression", "no").Err())
	size := 256 << 10
	if !redistest.Before7(t) {
		size = 1024
		must(t, client.ConfigSet(t.Context(), "loading-process-events-interval-bytes", strconv.Itoa(size)).Err())
	}
	must(t, client.ConfigSet(t.Context(), "key-load-delay", strconv.Itoa(delay)).Err())
	for i := range 300 {
		must(t, client.Set(t.Context(), fmt.Sprint("filler", i), strings.Repeat("x", size), 0).Err())
	}
	loaded := make(chan error, 1)
	other := server.Client(t).WithTimeout(time.Minute)
	go func() { loaded <- other.Do(context.WithoutCancel(t.Context()), "DEBUG", "RELOAD").Err() }()
	return loaded
}

// during calls f until ended has an error or nil.
func during(t *testing.T, ended <-chan error, f func()) {
	t.Helper()
	for {
		select {
		case err := <-ended:
			must(t, err)
			return
		default:
			f()
		}
	}
}

// TestLoading calls a server that loads its data.
func TestLoading(t *testing.T) {
	server := redistest.NewServer(t, redistest.Enabled(t, "debug-command")...)
	s := open(t, server.Client(t), nil)
	must(t, fill(t.Context(), s))
	refused := false
	during(t, load(t, server, 2000), func() {
		if _, err := s.Fill(t.Context(), store.Op{Bucket: tenUnits.For("b"), Amount: 11}); err != nil {
			refused = true
			if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "loading") {
				t.Fatalf("%v; want ErrUnavailable, and that the server is loading", err)
			}
		}
	})
	must(t, fill(t.Context(), s))
	if got := level(t, s); got < 2 || !refused {
		t.Errorf("level %v, want at least 2; the server was loading: %v", got, refused)
	}
}

// TestCuts cuts connections at random bytes, of either direction. A call whose connection died
// has an unknown outcome or none, never a wrong one, and no call is applied twice.
func TestCuts(t *testing.T) {
	server := redistest.NewServer(t)
	rng := rand.New(rand.NewPCG(9, 9))
	var mu sync.Mutex
	left := map[*wire.Link]int{} // bytes until the cut
	cuts, armed := 0, true
	proxy, err := wire.New(server.URL(), func(l *wire.Link, _ wire.Direction, piece []byte) wire.Fate {
		mu.Lock()
		defer mu.Unlock()
		if !armed {
			return wire.Pass(piece)
		}
		if _, known := left[l]; !known {
			left[l] = 100 + rng.IntN(1<<(8+rng.IntN(5)))
		}
		if left[l] -= len(piece); left[l] >= 0 {
			return wire.Pass(piece)
		}
		cuts++
		return wire.Fate{Pass: max(0, len(piece)+left[l]), End: []wire.End{wire.Close, wire.Reset, wire.Half}[rng.IntN(3)]}
	})
	must(t, err)
	defer proxy.Close()
	o, err := redis.ParseURL(proxy.URL())
	must(t, err)
	o.ContextTimeoutEnabled = true
	client := redis.NewClient(o)
	defer client.Close()
	armed = false
	s := open(t, client, &Options{CallTimeout: 2 * time.Second})
	must(t, fill(t.Context(), s)) // the server now remembers the script
	mu.Lock()
	armed = true
	mu.Unlock()
	limit := store.Limit{Capacity: 1 << 50}
	done, unknown, failed := 1, 0, 0
	wanted := 100
	if os.Getenv("BRIM_TORTURE") == "1" {
		wanted = 1000
	}
	for {
		mu.Lock()
		enough := cuts >= wanted
		mu.Unlock()
		if enough {
			break
		}
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				op := store.Op{Bucket: limit.For("b"), Amount: 1, Mode: store.Mode(g % 3)}
				_, err := s.Fill(t.Context(), op)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					done++
				case errors.Is(err, store.ErrUnknownOutcome):
					unknown++
				case errors.Is(err, store.ErrUnavailable):
					failed++
				default:
					t.Errorf("%v; want ErrUnknownOutcome or ErrUnavailable", err)
				}
			})
		}
		wg.Wait()
	}
	mu.Lock()
	armed = false
	mu.Unlock()
	direct := open(t, server.Client(t), nil)
	got := int(level(t, direct))
	t.Logf("%d cuts: %d fills acknowledged, %d unknown, %d not applied, level %d", cuts, done, unknown, failed, got)
	if got < done || got > done+unknown {
		t.Errorf("level %d, acknowledged %d, unknown %d", got, done, unknown)
	}
	if done < 20 || unknown < 20 {
		t.Error("the cuts did not meet the calls")
	}
}
