package httplimit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// failures counts the logins of a client that fail.
func failures(limit brim.Limit) httplimit.Policy {
	return httplimit.Policy{
		Name: "failures", Key: "k", Limit: limit, Strict: true,
		CountIf: func(status int) bool { return status == http.StatusUnauthorized },
	}
}

// login makes a request and survives a panic of the handler.
func login(ctx context.Context, h http.Handler) (status int) {
	w := httptest.NewRecorder()
	defer func() { _ = recover() }()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/login", nil))
	return w.Code
}

// TestStrict: of 1,000 logins at once, all of which fail, the limit admits exactly its capacity.
// Then the bucket empties, and logins that do not fail, panic or lose their client leave nothing in
// it.
func TestStrict(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open opener) {
		lim, clock := open(t)
		limit := brim.Over(20, time.Hour)
		wrap, err := httplimit.New(lim, always(failures(limit), httplimit.Policy{Name: "all", Key: "k", Limit: brim.Limit{Capacity: 1e6}}), nil)
		if err != nil {
			t.Fatal(err)
		}
		var admitted atomic.Int64
		answer := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
		h := wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { admitted.Add(1); answer(w, r) }))
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() { login(t.Context(), h) })
		}
		wg.Wait()
		if n := admitted.Load(); n != 20 {
			t.Errorf("%d of 1,000 failed logins were admitted, want 20", n)
		}
		clock.Advance(time.Hour)
		for i := range 60 {
			ctx, leave := context.WithCancel(t.Context())
			answer = func(http.ResponseWriter, *http.Request) {}
			switch i % 3 {
			case 1:
				answer = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
			case 2:
				answer = func(http.ResponseWriter, *http.Request) { leave() }
			}
			login(ctx, h)
			leave()
		}
		st, err := lim.State(t.Context(), limit.For("failures:key:k"))
		if err != nil || st.Level > 0.5 || admitted.Load() != 80 {
			t.Errorf("%v, %v after %d logins; want an empty bucket but for what leaks in the time of 60", st, err, admitted.Load()-20)
		}
	})
}

// late is a store that needs up to 50 ms to take units out.
type late struct{ store.Store }

func (l late) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if op.Mode == store.Always {
		time.Sleep(time.Duration(time.Now().UnixNano()) % (50 * time.Millisecond))
	}
	return l.Store.Fill(ctx, op)
}

// TestStrictGivesBackOnce runs requests that overlap, some of which do not count, beside a bucket
// of those that count alone. The bucket of the policy never has more room than that one.
func TestStrictGivesBackOnce(t *testing.T) {
	number, err := seed.New()
	if err != nil {
		t.Fatal(err)
	}
	for attempt := range seed.Attempts(200, 20_000) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(number, uint64(attempt)))
			limit := brim.Limit{Capacity: float64(1 + r.IntN(10)), LeakRate: r.Float64() * 3}
			lim, counted := brim.New(late{memory.New(nil)}, nil), brim.New(memory.New(nil), nil)
			wrap, err := httplimit.New(lim, always(failures(limit)), nil)
			if err != nil {
				t.Fatal(err)
			}
			b := limit.For("failures:key:k")
			h := func(counts bool, takes time.Duration) http.Handler {
				return wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if counts {
						if st, err := counted.TryFillup(t.Context(), b, 1); err != nil || !st.Accepted {
							t.Errorf("%v, %v: more are admitted than the limit has room for", st, err)
						}
						defer w.WriteHeader(http.StatusUnauthorized)
					}
					time.Sleep(takes)
				}))
			}
			for range 100 {
				counts, takes := r.IntN(2) == 0, time.Duration(r.Int64N(int64(time.Second)))
				go login(t.Context(), h(counts, takes))
				time.Sleep(time.Duration(r.Int64N(int64(300 * time.Millisecond))))
				synctest.Wait()
				have, err := lim.State(t.Context(), b)
				least, err2 := counted.State(t.Context(), b)
				if err != nil || err2 != nil || have.Level < least.Level-1e-9 {
					t.Fatalf("level %v (%v) is below that of the requests that count, %v (%v); repeat with BRIM_SEED=%d",
						have.Level, err, least.Level, err2, number)
				}
			}
			time.Sleep(time.Minute)
		})
	}
}

// TestStrictOfSuccess: whoever has never failed is never refused, one login after the other.
func TestStrictOfSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrap, err := httplimit.New(onRealClock(t), always(failures(brim.Over(5, time.Minute))), nil)
		if err != nil {
			t.Fatal(err)
		}
		h := wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(200 * time.Millisecond) }))
		for i := range 1000 {
			if status := login(t.Context(), h); status != http.StatusOK {
				t.Fatalf("login %d: %d", i, status)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// TestStrictNotCharged: nothing is given back of a charge that did not go in, or went in elsewhere.
func TestStrictNotCharged(t *testing.T) {
	limit := brim.Limit{Capacity: 10}
	var down atomic.Bool
	tried := brim.New(memory.New(nil), &brim.Options{Shadow: func(context.Context, brim.Fill, error) {}})
	outage, _ := over[store.Store](t, nil)(local.Fallback(breakable{memory.New(nil), &down}, memory.New(nil), nil))
	for name, c := range map[string]struct {
		lim    *brim.Limiter
		others httplimit.Policies
		times  int // the second has no room under the other policy
	}{
		"a limit that is only tried": {tried, httplimit.PerClient("all", brim.Limit{Capacity: 1}), 2},
		"an outage":                  {outage, always(), 1},
	} {
		lim := c.lim
		wrap, err := httplimit.New(lim, httplimit.All(always(failures(limit)), c.others), nil)
		if err != nil {
			t.Fatal(err)
		}
		h := wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { down.Store(false) }))
		b := limit.For("failures:key:k")
		if _, err := lim.Fillup(t.Context(), b, 5); err != nil {
			t.Fatal(err)
		}
		for range c.times {
			down.Store(name == "an outage")
			if status := login(t.Context(), h); status != http.StatusOK {
				t.Errorf("%s: %d", name, status)
			}
		}
		if st, err := lim.State(t.Context(), b); err != nil || st.Level != 5 {
			t.Errorf("%s: %v, %v; want the 5 units of before", name, st, err)
		}
	}
}

// strictChild names the environment variable that makes this test binary the server of
// TestStrictKilled. Its value is the directory of the store, and the number of the admitted login
// in which the server kills itself.
const strictChild = "BRIM_TEST_STRICT_CHILD"

// serveLogins serves logins, all of which fail, until it is killed. It prints its address. Each
// login that is admitted adds a byte to a file. If the file "later" is there, its clock is an hour
// ahead.
func serveLogins(args string) error {
	var dir string
	var last int64
	if _, err := fmt.Sscan(args, &dir, &last); err != nil {
		return err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	ahead := time.Duration(0)
	if _, err := os.Stat(filepath.Join(dir, "later")); err == nil {
		ahead = time.Hour
	}
	db, err := bolt.Open(filepath.Join(dir, "limits.db"), &bolt.Options{Clock: func() time.Time { return time.Now().Add(ahead) }})
	if err != nil {
		return err
	}
	witness, err := os.OpenFile(filepath.Join(dir, "witness"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	wrap, err := httplimit.New(brim.New(db, nil), always(failures(brim.Over(50, time.Hour))), nil)
	if err != nil {
		return err
	}
	var admitted atomic.Int64
	server := httptest.NewServer(wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = witness.WriteString("x")
		if admitted.Add(1) == last {
			_ = self.Kill()
		}
		w.WriteHeader(http.StatusUnauthorized)
	})))
	fmt.Println(server.URL)
	select {}
}

// TestStrictKilled kills the server with SIGKILL in the middle of 1,000 failed logins at once, and
// starts it again. The limit admits no login too many, and an hour later it admits as many again.
func TestStrictKilled(t *testing.T) {
	for range seed.Attempts(3, 100) {
		dir := t.TempDir()
		witnesses := func() int {
			b, err := os.ReadFile(filepath.Join(dir, "witness"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return len(b)
		}
		// burst sends logins to a new server, which is killed in one of them, or after all.
		burst := func(last int) (refused int64) {
			cmd := exec.Command(os.Args[0]) //nolint:gosec // this test binary
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", strictChild, dir, last))
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			url, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 100}}
			defer client.CloseIdleConnections()
			var logins sync.WaitGroup
			var no atomic.Int64
			for range 1000 {
				logins.Go(func() {
					resp, err := client.Post(strings.TrimSpace(url), "", nil)
					if err != nil {
						return // the server is dead
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode == http.StatusTooManyRequests {
						no.Add(1)
					}
				})
			}
			logins.Wait()
			return no.Load()
		}
		burst(1 + rand.IntN(40))
		killed := witnesses()
		refused := burst(0)
		first := witnesses()
		// A login that was charged and not yet begun when the server was killed has taken its room
		// along.
		if first > 50 || refused != int64(1000-(first-killed)) {
			t.Errorf("%d logins until the kill, %d after it, and %d of 1,000 refused; want at most 50", killed, first-killed, refused)
		}
		if err := os.WriteFile(filepath.Join(dir, "later"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refused = burst(0)
		if again := witnesses() - first; again != 50 || refused != 950 {
			t.Errorf("an hour later %d logins were admitted and %d refused, want 50 and 950", again, refused)
		}
		t.Logf("killed after %d admitted logins, and %d in all", killed, first)
	}
}
