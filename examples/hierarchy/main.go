// Command hierarchy limits the users of tenants of a service: a request goes through if the user,
// the tenant and the whole service have room for it. A POST weighs five times as much as a GET.
//
//	go run ./examples/hierarchy
//
// Note that a refused request takes nothing from any of the three buckets, and that the answer
// names the bucket that refused. The program moves its own clock, so each run prints the same.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hierarchy:", err)
		os.Exit(1)
	}
}

// weights are the units of a request, by method.
var weights = map[string]float64{"GET": 1, "POST": 5}

// The limits of a user, of a tenant and of the service.
var (
	perUser   = brim.Over(10, 10*time.Second)
	perTenant = brim.Over(16, 10*time.Second)
	overall   = brim.Over(25, 10*time.Second)
)

// request is a request of a user of a tenant.
type request struct {
	at                   time.Duration
	method, tenant, user string
}

var requests = []request{
	{0, "POST", "red", "ann"},
	{0, "POST", "red", "ann"},
	{0, "GET", "red", "ann"},
	{0, "POST", "red", "bob"},
	{0, "POST", "red", "bob"},
	{0, "GET", "red", "bob"},
	{0, "POST", "blue", "cyd"},
	{0, "POST", "blue", "dan"},
	{2 * time.Second, "POST", "blue", "dan"},
}

func run(ctx context.Context, out io.Writer) error {
	noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	now := noon
	db := memory.New(&memory.Options{Clock: func() time.Time { return now }})
	lim := brim.New(db, nil)
	for _, r := range requests {
		now = noon.Add(r.at)
		n := weights[r.method]
		states, err := lim.TryFillupAll(ctx,
			brim.Fill{Bucket: perUser.For("user:" + r.user), Amount: n},
			brim.Fill{Bucket: perTenant.For("tenant:" + r.tenant), Amount: n},
			brim.Fill{Bucket: overall.For("all"), Amount: n})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%2v  %-4s  %-4s  %s  user %2v  tenant %2v  all %2v  %s\n", r.at, r.method, r.tenant, r.user,
			states[0].Level, states[1].Level, states[2].Level, answer(states))
	}
	now = noon.Add(time.Hour)
	pruned, err := lim.Prune(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "an hour later all %d buckets are empty, and Prune has removed them\n", pruned)
	return db.Close()
}

// answer tells which bucket refused, and when the request would fit.
func answer(states []brim.State) string {
	for i, name := range []string{"user", "tenant", "all"} {
		if st := states[i]; st.RetryAfter > 0 {
			return fmt.Sprintf("refused by %s, retry in %v", name, st.RetryAfter)
		}
	}
	return "accepted"
}
