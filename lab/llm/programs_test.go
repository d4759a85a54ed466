package llm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/child"
	"github.com/brimgo/brim/spend"
)

// programs is the directory of the built examples.
var programs string

func TestMain(m *testing.M) {
	child.Serve(works)
	dir, err := os.MkdirTemp("", "llm")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

var built sync.Map // a function for each program, that builds it once

// build returns the path of an example's binary.
func build(t *testing.T, name string) string {
	t.Helper()
	once, _ := built.LoadOrStore(name, sync.OnceValues(func() ([]byte, error) {
		return exec.Command("go", "build", "-o", filepath.Join(programs, name), "github.com/brimgo/brim/examples/"+name).CombinedOutput()
	}))
	if out, err := once.(func() ([]byte, error))(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return filepath.Join(programs, name)
}

// gateway is a running llmgateway.
type gateway struct {
	t       *testing.T
	url     string
	process *exec.Cmd
}

var gatewayKeys = []string{"sk-one", "sk-two"}

// startGateway starts llmgateway before a fake, with a ledger in a file and a limit of each level.
func startGateway(t *testing.T, fake, file, limit string) *gateway {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.json")
	text := fmt.Sprintf(`{
		"month": {"key": %q, "team": %q, "org": %q},
		"keys": {"sk-one": {"team": "red", "org": "acme"}, "sk-two": {"team": "red", "org": "acme"}},
		"models": {"large": {
			"input": "3", "cache_read": "0.3", "cache_write": "3.75", "cache_write_long": "6", "output": "15",
			"window": 200000, "max_output": 1000
		}}
	}`, limit, limit, limit)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, process: exec.Command(build(t, "llmgateway"),
		"-listen", "127.0.0.1:0", "-config", config, "-file", file, "-openai", fake, "-anthropic", fake, "-ttl", "2s")}
	g.process.Env = append(os.Environ(), "OPENAI_API_KEY=secret", "ANTHROPIC_API_KEY=secret")
	out, err := g.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.process.Process.Kill(); _ = g.process.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "serving at ")
	if err != nil || !ok {
		t.Fatalf("the gateway says %q, %v", line, err)
	}
	g.url = "http://" + addr
	return g
}

// stop ends the gateway, and waits for its calls.
func (g *gateway) stop() {
	g.t.Helper()
	err := g.process.Process.Signal(syscall.SIGTERM)
	if err := errors.Join(err, g.process.Wait()); err != nil {
		g.t.Errorf("the gateway ends: %v", err)
	}
}

// budget returns the figures that the gateway tells a key: its own, its team's, its organization's.
func (g *gateway) budget(key string) (list []spend.Usage) {
	g.t.Helper()
	r, err := http.NewRequest(http.MethodGet, g.url+"/budget", nil)
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Error(err)
		return make([]spend.Usage, 3)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list) != 3 {
		g.t.Errorf("%d: %v, %v", resp.StatusCode, list, err)
		return make([]spend.Usage, 3)
	}
	return list
}

// figures are the used and the held money of a key, its team and its organization.
type figures struct{ used, held [3]int64 }

func (g *gateway) figures(key string) (f figures) {
	g.t.Helper()
	for i, u := range g.budget(key) {
		f.used[i], f.held[i] = u.Used.Minor, u.Held.Minor
	}
	return f
}

// sum returns the money of the team, which is that of the organization and of both keys. The levels
// are read one after another, so it reads them again if a call has changed them meanwhile.
func (g *gateway) sum() (used, held int64) {
	g.t.Helper()
	one := g.figures(gatewayKeys[0])
	for range 100 {
		two, again := g.figures(gatewayKeys[1]), g.figures(gatewayKeys[0])
		if g.t.Failed() {
			break
		}
		if one != again {
			one = again
			continue
		}
		used, held = one.used[1], one.held[1]
		levels := [...][2]int64{
			{one.used[2], one.held[2]},
			{two.used[1], two.held[1]},
			{two.used[2], two.held[2]},
			{one.used[0] + two.used[0], one.held[0] + two.held[0]},
		}
		for _, l := range levels {
			if l != [2]int64{used, held} {
				g.t.Fatalf("the levels differ: %+v of %s, %+v of %s", one, gatewayKeys[0], two, gatewayKeys[1])
			}
		}
		return used, held
	}
	if !g.t.Failed() {
		g.t.Fatal("the figures of the gateway changed between 100 questions")
	}
	g.t.FailNow() // the error is told already
	return 0, 0
}

// TestGateway: the SDKs call through the gateway, whole and streamed.
func TestGateway(t *testing.T) {
	f := &fake{}
	g := startGateway(t, f.start(t), filepath.Join(t.TempDir(), "gateway.db"), "5")
	for i, way := range wayNames {
		text, err := ways[way](newClients(g.url, gatewayKeys[i%2], http.DefaultClient), t.Context(), stay)
		if err != nil || text == "" {
			t.Errorf("%s: %q, %v", way, text, err)
		}
		if used, held := g.sum(); used != f.billed.Load() || held != 0 {
			t.Errorf("%s: %d are used and %d held; billed %d", way, used, held, f.billed.Load())
		}
	}
	for _, way := range wayNames {
		if _, err := ways[way](newClients(g.url, "sk-other", http.DefaultClient), t.Context(), stay); err == nil {
			t.Errorf("%s: a stranger gets an answer", way)
		}
	}
	g.stop()
}

// TestGateway64: 64 clients with faults of the provider and of the clients. The gateway reads the
// answers of those who have left.
func TestGateway64(t *testing.T) {
	f := &fake{}
	file := filepath.Join(t.TempDir(), "gateway.db")
	url := f.start(t)
	g := startGateway(t, url, file, "0.6")
	both := []*clients{newClients(g.url, gatewayKeys[0], http.DefaultClient), newClients(g.url, gatewayKeys[1], http.DefaultClient)}
	answered, failed := storm(t, f, 6, func(ctx context.Context, client, _ int, stop stop, way string) error {
		_, err := ways[way](both[client%2], ctx, stop)
		return err
	}, func() int64 {
		team := g.budget(gatewayKeys[0])[1]
		return team.Used.Minor + team.Held.Minor
	})
	g.stop() // waits for the calls of clients who have left
	g = startGateway(t, url, file, "0.6")
	used, held := g.sum()
	if bill := f.billed.Load(); used < bill || held != 0 {
		t.Errorf("%d are used and %d held for a bill of %d", used, held, bill)
	}
	t.Logf("%d answered, %d failed; %d calls at the provider; %d used on each of 3 levels for a bill of %d, limit %d",
		answered, failed, f.calls.Load(), used, f.billed.Load(), usd("0.6").Minor)
}

// TestGatewayKilled kills the gateway in the middle of streams, after their holds were extended.
// The holds expire, and the calls count as their highest cost.
func TestGatewayKilled(t *testing.T) {
	f := &fake{slow: time.Second}
	file := filepath.Join(t.TempDir(), "gateway.db")
	url := f.start(t)
	g := startGateway(t, url, file, "5")
	streams := []string{"chat stream", "responses stream", "messages stream"}
	var all, begun sync.WaitGroup
	begun.Add(len(streams))
	for _, way := range streams {
		all.Go(func() {
			c := newClients(g.url, gatewayKeys[0], &http.Client{Transport: &http.Transport{DisableKeepAlives: true}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := ways[way](c, ctx, func(event int) bool {
				if event == 2 { // three seconds: longer than the TTL
					begun.Done()
				}
				return false
			})
			if err == nil {
				t.Errorf("%s ends well", way)
			}
		})
	}
	begun.Wait()
	_, before := g.sum()
	if err := g.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	g = startGateway(t, url, file, "5")
	used, held := g.sum()
	began := time.Now()
	for until := began.Add(time.Minute); held > 0 && time.Now().Before(until); used, held = g.sum() {
		time.Sleep(10 * time.Millisecond)
	}
	if bill := f.billed.Load(); used < bill || held != 0 || before == 0 {
		t.Errorf("%d are used and %d held for a bill of %d; %d were held at the kill", used, held, bill, before)
	}
	t.Logf("killed with %d held; after %v, %d used for a bill of %d", before, time.Since(began).Round(100*time.Millisecond), used, f.billed.Load())
	g.stop()
}

// TestAgent runs the built agentbudget before the fake.
func TestAgent(t *testing.T) {
	f := &fake{}
	url := f.start(t)
	run := exec.Command(build(t, "agentbudget"), "-file", filepath.Join(t.TempDir(), "agent.db"), "-api", url+"/v1")
	run.Env = append(os.Environ(), "OPENAI_API_KEY=secret")
	out, err := run.CombinedOutput()
	left := spend.Money{Minor: usd("99.98").Minor - f.billed.Load(), Currency: unit} // 2 cents were a search
	if want := fmt.Sprintf("project: %v of", left); err != nil || f.calls.Load() != 2 || !strings.Contains(string(out), want) || !strings.Contains(string(out), "plan: hello") {
		t.Errorf("%v, %d calls:\n%s\nwant %q", err, f.calls.Load(), out, want)
	}
}
