package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/store"
)

// patient returns a client that waits for a server's answer, also on a busy machine.
func patient(t *testing.T, server *redistest.Server) *redis.Client {
	return waiting(t, server, time.Minute)
}

// hasty returns a client of a server that does not get the acknowledgements it needs.
func hasty(t *testing.T, server *redistest.Server) *redis.Client {
	return waiting(t, server, time.Second)
}

func waiting(t *testing.T, server *redistest.Server, timeout time.Duration) *redis.Client {
	return closing(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: timeout}))
}

// TestReplicas stops a replica. A write that it has not received is not acknowledged, and a call
// that writes nothing is answered.
func TestReplicas(t *testing.T) {
	primary := redistest.NewServer(t, "repl-diskless-sync-delay 0")
	replica := redistest.NewReplica(t, primary)
	s := open(t, patient(t, primary), &Options{Replicas: 1, CallTimeout: time.Minute})
	for range 3 {
		must(t, fill(t.Context(), s))
	}
	must(t, replica.Pause())
	late := open(t, hasty(t, primary), &Options{Replicas: 1})
	err := fill(t.Context(), late)
	if !errors.Is(err, store.ErrUnknownOutcome) || !strings.Contains(err.Error(), "0 of 1 (replicas)") {
		t.Errorf("%v; want ErrUnknownOutcome that counts the replicas", err)
	}
	res, err := late.Apply(t.Context(), store.Txn{{Bucket: tenUnits.For("b"), Amount: 1}, {Bucket: tenUnits.For("a"), Amount: 1}})
	if err == nil || !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Apply: %+v, %v; want ErrUnknownOutcome", res, err)
	}
	got, err := late.Fill(t.Context(), store.Op{Bucket: tenUnits.For("b"), Amount: 11})
	if err != nil || got.Accepted || got.Level != 5 {
		t.Errorf("refusal: %+v, %v; want an answer: it writes nothing, so there is nothing to receive", got, err)
	}
	before := time.Now()
	if got := level(t, s); got != 5 {
		t.Errorf("level %v, want 5: the primary has the writes", got)
	}
	if got, err := s.Fill(t.Context(), store.Op{Bucket: tenUnits.For("b"), Amount: 1, Mode: store.Ask}); err != nil || !got.Accepted {
		t.Errorf("Ask: %+v, %v; want an answer", got, err)
	}
	if took := time.Since(before); took > 20*time.Second {
		t.Errorf("reading and asking took %v: they waited for the replica", took)
	}
	must(t, replica.Resume())
	must(t, fill(t.Context(), s))

	two := open(t, hasty(t, primary), &Options{Replicas: 2})
	if err := fill(t.Context(), two); !errors.Is(err, store.ErrUnknownOutcome) || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("%v; want ErrUnknownOutcome: there is one replica", err)
	}
}

// TestSynced waits for the append-only file, where the server can.
func TestSynced(t *testing.T) {
	server := redistest.NewServer(t, "appendonly yes", "appendfsync everysec")
	info, err := server.Client(t).Info(t.Context(), "server").Result()
	must(t, err)
	if (&Store{o: Options{Synced: true}, single: &node{}}).checkVersion(fields(info)) != nil {
		if _, err := New(patient(t, server), &Options{Synced: true, CallTimeout: time.Minute}); err == nil || !strings.Contains(err.Error(), "7.2") {
			t.Errorf("%v; want an error: the server has no WAITAOF", err)
		}
		return
	}
	s := open(t, patient(t, server), &Options{Synced: true, CallTimeout: time.Minute})
	for want := range 5 {
		must(t, fill(t.Context(), s))
		must(t, server.Kill())
		must(t, server.Start())
		for { // connections that broke
			if _, err := s.Read(t.Context(), tenUnits.For("b")); err == nil {
				break
			}
		}
		if got := level(t, s); got != float64(want+1) {
			t.Errorf("level %v after %d acknowledged fills and kills", got, want+1)
		}
	}
	without := redistest.NewServer(t)
	if _, err := New(patient(t, without), &Options{Synced: true, CallTimeout: time.Minute}); err == nil || !strings.Contains(err.Error(), "appendonly") {
		t.Errorf("%v; want an error: there is no append-only file", err)
	}
}

// TestSentinel kills a primary that Sentinel watches. The store goes on with the replica, which has
// all that was acknowledged.
func TestSentinel(t *testing.T) {
	primary := redistest.NewServer(t, "repl-diskless-sync-delay 0")
	redistest.NewReplica(t, primary)
	sentinel := redistest.NewSentinel(t, primary)
	ask := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr()})
	defer ask.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		replicas, err := ask.Replicas(t.Context(), redistest.SentinelName).Result()
		must(t, err)
		if len(replicas) == 1 && replicas[0]["master-link-status"] == "ok" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("Sentinel does not find the replica")
		}
	}
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.SentinelName, SentinelAddrs: []string{sentinel.Addr()}, ReadTimeout: time.Minute, DialerRetries: 1,
	})
	defer client.Close()
	s := open(t, client, &Options{Replicas: 1, CallTimeout: time.Minute})
	limit := store.Limit{Capacity: 1 << 20}
	b := limit.For("b")
	sure, maybe := 0, 0
	for range 50 {
		_, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
		must(t, err)
		sure++
	}
	again := open(t, client, &Options{CallTimeout: time.Minute}) // the new primary has no replica to wait for
	must(t, primary.Kill())
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := again.Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
		if err == nil {
			sure++
			break
		}
		if errors.Is(err, store.ErrUnknownOutcome) {
			maybe++
		} else if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v; want ErrUnavailable while nobody is primary", err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("no fail-over: %v", err)
		}
	}
	got, err := again.Read(t.Context(), b)
	must(t, err)
	if l := int(got[0].Level); l < sure || l > sure+maybe {
		t.Errorf("level %d, acknowledged %d, unknown %d", l, sure, maybe)
	}
}
