package observability

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/supervisor"
	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/observe/prombrim"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// monitor starts a Prometheus with the alerts, which scrapes the program at target once a second.
// It returns a function that lists the alerts that fire.
func monitor(t *testing.T, target string) func() []string {
	t.Helper()
	path, err := supervisor.Find(os.Stderr, "prometheus", "prometheus")
	if err != nil {
		t.Fatalf("put Prometheus on PATH: %v", err)
	}
	if version, err := exec.CommandContext(t.Context(), path, "--version").CombinedOutput(); err == nil {
		t.Logf("%s", strings.SplitN(string(version), "\n", 2)[0])
	}
	port, err := supervisor.FreePort(0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf(`{"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [%q],
		"scrape_configs": [{"job_name": "app", "static_configs": [{"targets": [%q]}]}]}`, alertsFile(t), target)
	file := filepath.Join(dir, "prometheus.yml") // JSON is YAML, too
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprint("127.0.0.1:", port)
	cmd := exec.Command(path, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
		if err != nil || t.Failed() {
			t.Errorf("Prometheus: %v, %s", err, &log)
		}
	})
	ask := func(path string) ([]byte, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			return nil, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusOK {
			err = errors.Join(err, errors.New(answer.Status))
		}
		return body, err
	}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if _, err = ask("/-/ready"); err == nil {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
	}
	return func() (names []string) {
		t.Helper()
		body, err := ask("/api/v1/alerts")
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Data struct {
				Alerts []struct {
					State  string
					Labels struct{ Alertname string }
				}
			}
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatal(err)
		}
		for _, a := range answer.Data.Alerts {
			if a.State == "firing" {
				names = append(names, a.Labels.Alertname)
			}
		}
		slices.Sort(names)
		return names
	}
}

// TestPrometheus has a Prometheus watch a program whose calls wait 60 ms for the transactions of
// others: no alert fires. Then the answers of the store and of the ledger are lost, and those
// alerts fire that tell of it. By night each part lasts longer than the rules look back.
func TestPrometheus(t *testing.T) {
	healthy, want := 4*time.Second, []string{"BrimUnknownOutcomes"}
	if harness.Night() {
		healthy, want = 12*time.Minute, []string{"BrimCallsFail", "BrimLedgerFailing", "BrimUnknownOutcomes"}
	}
	reg := prometheus.NewRegistry()
	limit := store.Limit{Capacity: 100, LeakRate: 50}
	hooks, err := prombrim.New(reg, &prombrim.Options{Limits: map[string]store.Limit{"api": limit}})
	if err != nil {
		t.Fatal(err)
	}
	ofSpend, err := prombrim.NewSpend(reg)
	if err != nil {
		t.Fatal(err)
	}
	var lost atomic.Bool
	s := slow{memory.New(nil), func() time.Duration { return 60 * time.Millisecond }, func() error {
		if lost.Load() {
			return store.ErrUnknownOutcome
		}
		return nil
	}}
	defer s.Close()
	observed, err := observe.New(s, hooks, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newServer("loses")
	cards, err := spend.New(t.Context(), l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("hour", spend.Money{Minor: 1e9, Currency: "EUR"}, time.Hour),
	}}, &spend.Options{Hooks: []spend.Hooks{ofSpend}})
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	defer page.Close()
	alerts := monitor(t, strings.TrimPrefix(page.URL, "http://"))

	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	calls.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = brim.New(observed, nil).TryFillup(ctx, limit.For("key"), 1) // the metrics count a failure
			_, _ = cards.Charge(ctx, spend.Request{ID: fmt.Sprint("pay-", i), Account: "card:1", Amount: spend.Money{Minor: 1, Currency: "EUR"}})
		}
	})
	for begin := time.Now(); time.Since(begin) < healthy; time.Sleep(500 * time.Millisecond) {
		if fire := alerts(); len(fire) > 0 {
			t.Fatalf("without a fault: %v after %v", fire, time.Since(begin))
		}
	}
	lost.Store(true)
	l.down.Store(true)
	fault := time.Now()
	for fired := 0; fired < len(want); time.Sleep(200 * time.Millisecond) {
		fire := alerts()
		if len(fire) > fired {
			t.Logf("%.0f s after the fault: %v", time.Since(fault).Seconds(), fire)
			fired = len(fire)
		}
		if i := slices.IndexFunc(fire, func(name string) bool { return !slices.Contains(want, name) }); i >= 0 {
			t.Fatalf("%v fire; want %v", fire, want)
		}
		if time.Since(fault) > time.Minute+healthy {
			t.Fatalf("%v after the fault %v fire; want %v", time.Since(fault), fire, want)
		}
	}
}
