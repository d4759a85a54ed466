package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// shared holds the servers of this test binary. It is global because tests share nothing else.
var shared struct {
	sync.Mutex
	server  *Server
	cluster *Cluster
	failed  error // the first error of a start
}

// Tests are the tests of a binary: a [*testing.M], or the result of [With].
type Tests interface{ Run() int }

// With returns tests that stop the shared servers when they have run, for a TestMain that has more
// to do, such as pgtest.Main or goleak.VerifyTestMain.
func With(m Tests) Tests { return with{m} }

type with struct{ Tests }

func (w with) Run() (code int) {
	code = w.Tests.Run()
	shared.Lock()
	defer shared.Unlock()
	var err error
	if shared.server != nil {
		err = shared.server.Close()
	}
	if shared.cluster != nil {
		err = errors.Join(err, shared.cluster.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "redistest:", err)
		code = max(code, 1)
	}
	return code
}

// URL returns the shared server's URL. The first call starts the server. Tests that run at the same
// time share it, so each must keep to its own prefix; see [Prefix]. With -short, nothing starts a
// server, and t is skipped unless BRIM_TEST_REDIS holds a URL.
func URL(t testing.TB) string {
	t.Helper()
	if url := sharedURL(); url != "" {
		return url
	}
	skipShort(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.failed == nil {
		shared.server, shared.failed = Launch()
	}
	if shared.failed != nil {
		t.Fatalf("redistest: %v", shared.failed)
	}
	return shared.server.URL()
}

// Client returns a client of the shared server, which is closed at the end of t. change may change
// the client's options.
func Client(t testing.TB, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(URL(t))
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	for _, f := range change {
		f(o)
	}
	return closing(t, redis.NewClient(o))
}

// ClusterClient returns a client of the shared cluster, which is closed at the end of t. The first
// call starts the cluster.
func ClusterClient(t testing.TB) *redis.ClusterClient {
	t.Helper()
	skipShort(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.failed == nil {
		shared.cluster, shared.failed = LaunchCluster(true)
	}
	if shared.failed != nil {
		t.Fatalf("redistest: %v", shared.failed)
	}
	return shared.cluster.Client(t)
}

// Prefix returns a prefix for keys that no other test uses. At the end of t, the keys with the
// prefix are removed from the server or cluster of client.
func Prefix(t testing.TB, client redis.UniversalClient) string {
	t.Helper()
	prefix := "test_" + strings.ToLower(rand.Text()) + ":"
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := each(ctx, client, func(ctx context.Context, c *redis.Client) error { return remove(ctx, c, "*"+prefix+"*") }); err != nil {
			t.Errorf("redistest: %v", err)
		}
	})
	return prefix
}

// each calls f for the server of client, or for each primary of its cluster.
func each(ctx context.Context, client redis.UniversalClient, f func(context.Context, *redis.Client) error) error {
	switch c := client.(type) {
	case *redis.Client:
		return f(ctx, c)
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, f)
	}
	return fmt.Errorf("a client of type %T", client)
}

func remove(ctx context.Context, c *redis.Client, pattern string) error {
	keys := c.Scan(ctx, 0, pattern, 10_000).Iterator()
	pipe := c.Pipeline()
	for keys.Next(ctx) {
		pipe.Unlink(ctx, keys.Val())
	}
	if err := keys.Err(); err != nil || pipe.Len() == 0 {
		return err
	}
	_, err := pipe.Exec(ctx)
	return err
}

// closing closes the client at the end of t, if the test has not.
func closing[C interface{ Close() error }](t testing.TB, client C) C {
	t.Helper()
	t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Errorf("redistest: %v", err)
		}
		driver.tell(t)
	})
	return client
}

// skipShort skips t with -short.
func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("redistest: -short leaves out the tests that start a Redis")
	}
}
