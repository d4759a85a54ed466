//go:build linux

package pgcrash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/lab/internal/serverload"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/pgledger"
)

// rig is a server that crashes, and a proxy before it that holds answers up: between a commit and
// its answer there is then time for a crash. Answers that are under way are lost in the crash.
type rig struct {
	t       *testing.T
	server  *pgtest.Server
	proxy   *wire.Proxy
	sound   *postgres.Store // reads what is there
	runs    int             // so far
	down    atomic.Bool     // from a crash to the recovery
	mending atomic.Int64    // nanoseconds from all crashes to the first answers after them
}

// delay is the longest time that the proxy holds up an answer.
const delay = 4 * time.Millisecond

func newRig(t *testing.T) *rig {
	t.Helper()
	// A server that has crashed syncs its whole directory before it recovers: in one call, which
	// takes a tenth of the time of one for each file.
	r := &rig{t: t, server: pgtest.NewServer(t, "recovery_init_sync_method=syncfs")}
	var err error
	r.proxy, err = wire.New(r.server.URL(), func(_ *wire.Link, d wire.Direction, piece []byte) wire.Fate {
		if d == wire.ToServer {
			return wire.Pass(piece)
		}
		time.Sleep(rand.N(delay)) // not by the seed, since the system's scheduler decides as much
		if r.down.Load() {
			return wire.Fate{End: wire.Close}
		}
		return wire.Pass(piece)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	pool := r.server.Pool(t)
	if err := migrations.Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	r.sound = r.store(pool)
	return r
}

// scope returns a prefix of keys and IDs that no other run has.
func (r *rig) scope() string {
	r.runs++
	return fmt.Sprintf("%d/", r.runs)
}

// pool returns a pool with settings, such as "a=b", in its URL.
func (r *rig) pool(url string, settings ...string) *pgxpool.Pool {
	r.t.Helper()
	pool, err := pgxpool.New(r.t.Context(), url+"&"+strings.Join(settings, "&"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(pool.Close)
	return pool
}

func (r *rig) store(pool *pgxpool.Pool) *postgres.Store {
	r.t.Helper()
	s, err := postgres.New(pool, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// buckets returns the subject of a store over a pool. An empty defect is none.
func (r *rig) buckets(pool *pgxpool.Pool, d serverload.Defect) serverload.Subject {
	return serverload.NewTransactions(r.store(pool), d, pool, r.sound)
}

// ledger returns the subject of a ledger over a pool.
func (r *rig) ledger(pool *pgxpool.Pool, d serverload.Defect) serverload.Subject {
	r.t.Helper()
	open := func(s *postgres.Store) *pgledger.Ledger {
		l, err := pgledger.New(s, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { _ = l.Close() })
		return l
	}
	joiner := &serverload.SpoiledLedger{Joiner: open(r.store(pool)), Defect: d}
	s, err := serverload.NewLedger(joiner, pool, open(r.sound))
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// crash is a way to crash the server and to have it back.
type crash struct {
	name string
	do   func(r *rig, pick *rand.Rand) error
}

var crashes = []crash{
	{"kill of the server", func(r *rig, _ *rand.Rand) error { return errors.Join(r.server.Kill(), r.server.Start()) }},
	{"kill of the server", func(r *rig, _ *rand.Rand) error { return errors.Join(r.server.Kill(), r.server.Start()) }},
	{"kill of a backend", func(r *rig, pick *rand.Rand) error { return r.killOne(pick, "127.0.0.1(") }},
	{"kill of a backend", func(r *rig, pick *rand.Rand) error { return r.killOne(pick, "127.0.0.1(") }},
	{"kill of a process of the server's own", func(r *rig, pick *rand.Rand) error {
		return r.killOne(pick, [...]string{"walwriter", "checkpointer", "background writer"}[pick.IntN(3)])
	}},
	{"immediate stop", func(r *rig, _ *rand.Rand) error { return errors.Join(r.server.Stop(true), r.server.Start()) }},
}

// killOne kills a process whose title contains a text. The server then ends all connections and
// recovers by itself.
func (r *rig) killOne(pick *rand.Rand, title string) error {
	all, err := r.server.Processes()
	if err != nil {
		return err
	}
	var fit []int
	for _, p := range all[1:] {
		if strings.Contains(p.Title, title) {
			fit = append(fit, p.PID)
		}
	}
	if len(fit) == 0 {
		return errors.New("the server has no process " + title)
	}
	pid := fit[pick.IntN(len(fit))]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	// The first process sees the death and refuses connections from then on.
	deadline := time.Now().Add(time.Minute)
	for gone := false; time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		gone = gone || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		if gone && answers(r.server.URL()) {
			return nil
		}
	}
	return errors.New("the server does not recover")
}

func answers(url string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false
	}
	_ = conn.Close(ctx) // it has answered
	return true
}
