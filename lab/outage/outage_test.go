package outage

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/lab/internal/harness"
)

var out = flag.String("out", "", "a file for the rows in JSON, one a line")

func TestMain(m *testing.M) {
	logging.Disable() // the client of Redis writes each failed connection to stderr
	pgtest.Main(redistest.With(m))
}

// limit is that of each bucket.
var limit = brim.Limit{Capacity: 10, LeakRate: 1}

// sharing is the number of clients of a bucket, in rows with many buckets. In all rushes together
// they ask for more than both bounds of it.
const sharing = 20

// row is a row of the table: clients, the door that they come to, and a fault of the store behind
// it.
type row struct {
	Door     string        `json:"door"`
	Store    string        `json:"store"`
	Fault    string        `json:"fault"`
	Keys     int           `json:"keys"`
	HangUp   int           `json:"hang_up"`  // percent of the clients
	Deadline time.Duration `json:"deadline"` // in ns; of a call to the store, or of the callers of a Fallback
	Clients  int           `json:"clients"`

	planted bool // the door has no limit
}

// result is the outcome of a row. Requests of clients who have left are counted nowhere, unless
// they have passed.
type result struct {
	row
	Seconds float64 `json:"seconds"` // T
	Passed  int64   `json:"passed"`
	Overdue int64   `json:"overdue"` // those of Passed whose caller got an error: it had a deadline of its own
	Refused int64   `json:"refused"`
	Failed  int64   `json:"failed"` // told that the store failed, or of an unknown outcome
	Bound   float64 `json:"bound"`  // c + r T, times Keys
	Beyond  float64 `json:"beyond"`
	Allowed float64 `json:"allowed"` // of a bucket: c + r T by the store, and by the memory of each process
	Most    int64   `json:"most"`    // of a bucket
}

func (r *result) holds() bool { return float64(r.Most) <= r.Allowed }

const head = "door        store        fault     keys  hang up  deadline  requests     T s  passed  overdue  refused  failed     bound    beyond  most  allowed"

func (r *result) String() string {
	verdict := "holds"
	if !r.holds() {
		verdict = "BROKEN"
	}
	return fmt.Sprintf("%-10s  %-11s  %-8s  %4d  %5d %%  %8v  %8d  %6.3f  %6d  %7d  %7d  %6d  %8.1f  %8.1f  %4d  %7.2f  %s",
		r.Door, r.Store, r.Fault, r.Keys, r.HangUp, r.Deadline, rushes*r.Clients, r.Seconds, r.Passed, r.Overdue, r.Refused,
		r.Failed, r.Bound, r.Beyond, r.Most, r.Allowed, verdict)
}

// The numbers of clients, by day and by night.
const few, many = 300, 2000

// rows returns the whole table, or the part of it that a day has time for.
func rows() (all []row) {
	if !harness.Night() {
		for _, door := range doors {
			for _, r := range []row{
				{Store: "memory", Fault: "hung", Keys: 1, HangUp: 90, Deadline: 5 * time.Millisecond},
				{Store: "memory", Fault: "hung", Keys: few / sharing, HangUp: 60, Deadline: 50 * time.Millisecond},
				{Store: "memory+2ms", Fault: "none", Keys: 1, HangUp: 60, Deadline: 5 * time.Millisecond},
				{Store: "memory+2ms", Fault: "refusing", Keys: 1, HangUp: 60, Deadline: 250 * time.Millisecond},
				{Store: "postgres", Fault: "locked", Keys: 1, HangUp: 60, Deadline: 50 * time.Millisecond},
				{Store: "redis", Fault: "hung", Keys: 1, HangUp: 90, Deadline: 50 * time.Millisecond},
			} {
				r.Door, r.Clients = door, few
				all = append(all, r)
			}
		}
		return all
	}
	for _, door := range doors {
		for _, in := range places {
			for _, fault := range in.faults {
				r := row{Door: door, Store: in.name, Fault: fault, Keys: 1, Clients: many}
				for _, r.HangUp = range []int{60, 90} {
					for _, r.Deadline = range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond} {
						all = append(all, r)
					}
				}
				r.Keys, r.HangUp, r.Deadline = many/sharing, 60, 50*time.Millisecond
				all = append(all, r)
			}
		}
	}
	return all
}

func TestOutage(t *testing.T) {
	seed, err := harness.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("BRIM_SEED=%d", seed)
	var file *os.File
	if *out != "" {
		if file, err = os.Create(*out); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := file.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	at, lines := open(t), []string{head}
	for i, r := range rows() {
		t.Run(fmt.Sprintf("%s/%s/%s/%d/%d/%v", r.Door, r.Store, r.Fault, r.Keys, r.HangUp, r.Deadline), func(t *testing.T) {
			got := r.run(t, at, seed.Part(i))
			lines = append(lines, got.String())
			if !got.holds() {
				t.Errorf("%d units of a bucket passed in %.3f s; want at most %.2f\n%s\n%s", got.Most, got.Seconds, got.Allowed, head, got)
			}
			if file == nil {
				return
			}
			if err := json.NewEncoder(file).Encode(got); err != nil {
				t.Error(err)
			}
		})
	}
	fmt.Fprintln(t.Output(), strings.Join(lines, "\n"))
}

// TestCatch plants doors without a limit. The table must see each of them.
func TestCatch(t *testing.T) {
	at := &servers{}
	for i, door := range doors {
		t.Run(door, func(t *testing.T) {
			r := row{Door: door, Store: "memory", Fault: "hung", Keys: 1, HangUp: 60, Deadline: 50 * time.Millisecond, Clients: few, planted: true}
			if got := r.run(t, at, harness.Seed(i)); got.holds() {
				t.Errorf("%d units passed without a limit; want more than %.2f\n%s\n%s", got.Most, got.Allowed, head, got)
			}
		})
	}
}

// visit is a client's part in a rush.
type visit struct {
	key    int
	arrive time.Duration // after the beginning of the rush
	stay   time.Duration // until the client hangs up; 0 means that it never does
}

// rushes is the number of rushes in a row: the fault comes during the first and goes during the
// last.
const rushes = 3

// run starts the clients of a row and counts their outcomes.
func (r row) run(t *testing.T, at *servers, seed harness.Seed) *result {
	t.Helper()
	// No row takes a minute. The bound ends a test that hangs.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	behind := at.place(t, r.Store)
	crowd := &tally{passed: make([]atomic.Int64, r.Keys)}
	began := time.Now()
	ask, leave := r.enter(t, behind.gate, crowd)
	random := seed.Rand()
	var lift func()
	for i := range rushes {
		visits := make([]visit, r.Clients)
		for j := range visits {
			v := &visits[j]
			v.key, v.arrive = j%r.Keys, time.Duration(random.Int64N(int64(r.Deadline)))
			if random.IntN(100) < r.HangUp {
				v.stay = 1 + time.Duration(random.Int64N(int64(2*r.Deadline)))
			}
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			rush(ctx, visits, ask, crowd)
		}()
		switch i {
		case 0:
			select {
			case <-behind.gate.some:
			case <-over:
			}
			lift = behind.strike(ctx, t, r.Fault)
		case rushes - 1:
			lift()
		}
		<-over
	}
	leave() // waits for the handlers of clients who have left
	took := time.Since(began).Seconds()
	if err := crowd.lost.Load(); err != nil {
		t.Errorf("a client who waited got no answer: %v", *err)
	}

	each := limit.Capacity + limit.LeakRate*took
	got := &result{
		row: r, Seconds: took, Overdue: crowd.overdue.Load(), Refused: crowd.refused.Load(), Failed: crowd.failed.Load(),
		Bound: each * float64(r.Keys), Allowed: each * float64(1+r.processes()),
	}
	for i := range crowd.passed {
		n := crowd.passed[i].Load()
		got.Passed += n
		got.Most = max(got.Most, n)
		got.Beyond += max(0, float64(n)-each)
	}
	return got
}

// rush has all clients come, and returns when all have been answered or have left.
func rush(ctx context.Context, visits []visit, ask ask, crowd *tally) {
	var all sync.WaitGroup
	for _, v := range visits {
		all.Go(func() {
			time.Sleep(v.arrive)
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if v.stay > 0 {
				defer time.AfterFunc(v.stay, cancel).Stop()
			}
			crowd.count(ctx, ask(ctx, v.key))
		})
	}
	all.Wait()
}

// tally counts the outcomes of requests.
type tally struct {
	passed                   []atomic.Int64 // by key
	overdue, refused, failed atomic.Int64
	lost                     atomic.Pointer[error] // one of a client who has not left
}

// answer is the end of a request for its client.
type answer struct {
	kind kind
	err  error // of a request that was lost
}

type kind int

const (
	served kind = iota
	refused
	failed // the client was told so
	late   // the deadline had passed before anybody could decide
	lost   // the client has left, or something is wrong
)

// count counts the answer to a client. It does not count those that were served: the door does.
func (c *tally) count(ctx context.Context, a answer) {
	switch {
	case a.kind == refused:
		c.refused.Add(1)
	case a.kind == failed:
		c.failed.Add(1)
	case a.kind == lost && ctx.Err() == nil:
		c.lost.CompareAndSwap(nil, &a.err)
	}
}

// processes returns the number of processes whose memory may decide.
func (r row) processes() int {
	if r.Door == threefold {
		return 3
	}
	return 1
}
