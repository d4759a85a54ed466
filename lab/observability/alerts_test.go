package observability

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/brimgo/brim/internal/supervisor"
	"github.com/brimgo/brim/observe/prombrim"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// promtool returns the path of the program that tests alerts. On Debian it installs the package if
// there is none.
func promtool(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("BRIM_PROMTOOL"); path != "" {
		return path
	}
	path, err := supervisor.Find(os.Stderr, "prometheus", "promtool")
	if err != nil {
		t.Fatalf("put promtool of Prometheus on PATH, or name it by BRIM_PROMTOOL: %v", err)
	}
	return path
}

// server is a ledger on a server that may be down: a call then gets no connection, at once or until
// its context ends, or the answer is lost.
type server struct {
	ledger.Ledger
	down  atomic.Bool
	fault string // while it is down
	ahead atomic.Bool
}

// newServer returns a server whose clock may be ten minutes ahead.
func newServer(fault string) *server {
	s := &server{fault: fault}
	s.Ledger = memledger.New(&memledger.Options{Clock: func() time.Time {
		if s.ahead.Load() {
			return time.Now().Add(10 * time.Minute)
		}
		return time.Now()
	}})
	return s
}

func (s *server) Decide(ctx context.Context, job *ledger.Job) error {
	switch {
	case s.down.Load() && s.fault == "hangs":
		<-ctx.Done()
		return fmt.Errorf("no connection: %w", ctx.Err())
	case s.down.Load() && s.fault == "loses":
		return cmp.Or(s.Ledger.Decide(ctx, job), store.ErrUnknownOutcome)
	case s.down.Load():
		return fmt.Errorf("%w: connection refused", store.ErrUnavailable)
	}
	return s.Ledger.Decide(ctx, job)
}

// scraped is the values of each series by the number of the scrape.
type scraped map[string][]string

// scrapeEvery is the time between two scrapes.
const scrapeEvery = 5 * time.Second

// add adds a value of a series at a scrape. The series has begun after the scrapes that it lacks.
func (s scraped) add(series string, i int, value float64) {
	for len(s[series]) < i {
		s[series] = append(s[series], "_")
	}
	s[series] = append(s[series], fmt.Sprint(value))
}

// scrape adds the present values.
func (s scraped) scrape(t *testing.T, reg *prometheus.Registry, i int) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := `job="app"`
			for _, l := range m.GetLabel() {
				labels += fmt.Sprintf(",%s=%q", l.GetName(), l.GetValue())
			}
			name, value := f.GetName(), m.GetCounter().GetValue()+m.GetGauge().GetValue() // each has one of them
			if h := m.GetHistogram(); h != nil {
				name, value = name+"_count", float64(h.GetSampleCount())
			}
			s.add(name+"{"+labels+"}", i, value)
			for _, b := range m.GetHistogram().GetBucket() {
				s.add(fmt.Sprintf(`%s_bucket{%s,le="%v"}`, f.GetName(), labels, b.GetUpperBound()), i, float64(b.GetCumulativeCount()))
			}
			if m.GetHistogram() != nil {
				s.add(fmt.Sprintf(`%s_bucket{%s,le="+Inf"}`, f.GetName(), labels), i, value)
			}
		}
	}
}

// load runs spends for the given time and returns the scrapes, and the numbers of failed calls by
// their label. Each tick a card is charged, and money is held on another one, which is captured.
// From begin on, callers may have a habit: they do not capture, cancel each charge, or ask for more
// than the card has.
func load(t *testing.T, length time.Duration, s *server, at func(since time.Duration), habit string) (scraped, map[string]int) {
	t.Helper()
	reg := prometheus.NewRegistry()
	hooks, err := prombrim.NewSpend(reg)
	if err != nil {
		t.Fatal(err)
	}
	eur := func(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "EUR"} }
	b, err := spend.New(t.Context(), s, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("hour", eur(1e9), time.Hour)}},
		&spend.Options{Hooks: []spend.Hooks{hooks}, HoldTTL: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	series, failed := make(scraped), make(map[string]int)
	start := time.Now()
	next := start
	var calls atomic.Int64
	var mu sync.Mutex // of failed
	call := func(f func(context.Context, string) error) bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := f(ctx, fmt.Sprint("id-", calls.Add(1)))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			return true
		case errors.Is(err, context.DeadlineExceeded):
			failed["late"]++
		case errors.Is(err, store.ErrUnknownOutcome):
			failed["unknown"]++
		case errors.Is(err, store.ErrUnavailable):
			failed["failed"]++
		default:
			t.Error(err)
		}
		return false
	}
	var callers sync.WaitGroup
	defer callers.Wait()
	for time.Since(start) < length {
		since := time.Since(start)
		if at(since); !time.Now().Before(next) {
			series.scrape(t, reg, int(since/scrapeEvery))
			next = next.Add(scrapeEvery)
		}
		does := ""
		if since >= begin {
			does = habit
		}
		callers.Go(func() {
			call(func(ctx context.Context, id string) error {
				amount := eur(100)
				if does == "declined" {
					amount = eur(2e9)
				}
				_, err := b.Charge(ctx, spend.Request{ID: id, Account: "card:1", Amount: amount})
				if err == nil && does == "cancels" {
					_, err = b.Cancel(ctx, id, "card:1")
				}
				return err
			})
		})
		callers.Go(func() {
			hold := ""
			if call(func(ctx context.Context, id string) error {
				hold = id
				_, err := b.Authorize(ctx, spend.Request{ID: id, Account: "card:2", Amount: eur(100)})
				return err
			}) && does != "no captures" {
				call(func(ctx context.Context, id string) error {
					_, err := b.Capture(ctx, spend.CaptureRequest{ID: id, HoldID: hold, Amount: eur(100)})
					return err
				})
			}
		})
		time.Sleep(250 * time.Millisecond)
	}
	return series, failed
}

// begin is the time after which a fault or a habit begins.
const begin = 10 * time.Minute

// alertsFile returns the path of the alerts.
func alertsFile(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../docs/observability/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOutage tests the alerts on spends by promtool, against the metrics of a program whose ledger
// is down for seven seconds, or has a wrong clock, and of programs whose callers have a habit. Each
// failed call is one count.
func TestOutage(t *testing.T) {
	tool, alerts := promtool(t), alertsFile(t)
	if out, err := exec.CommandContext(t.Context(), tool, "check", "rules", alerts).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tc := range []struct {
		name, fault, habit string
		fires              map[string][2]string // the alert, its labels, and when it fires; at 9m nothing does
	}{
		{"refused connections", "refuses", "", map[string][2]string{"BrimLedgerFailing": {`"job":"app"`, "12m"}}},
		{"no answer", "hangs", "", map[string][2]string{"BrimLedgerLate": {`"job":"app"`, "12m"}}},
		{"lost answers", "loses", "", map[string][2]string{
			"BrimLedgerFailing": {`"job":"app"`, "12m"}, "BrimUnknownOutcomes": {`"job":"app"`, "12m"},
		}},
		{"a wrong clock", "ahead", "", map[string][2]string{"BrimAccountsAhead": {`"job":"app"`, "12m"}}},
		{"no captures", "", "no captures", map[string][2]string{
			"BrimHoldsExpiring": {`"job":"app","budget":"cards","currency":"EUR"`, "34m"},
		}},
		{"cancels", "", "cancels", map[string][2]string{"BrimCancels": {`"job":"app","budget":"cards"`, "34m"}}},
		{"declines", "", "declined", map[string][2]string{"BrimRuleDeclines": {`"job":"app","budget":"cards","rule":"hour"`, "34m"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var series scraped
			synctest.Test(t, func(t *testing.T) {
				s := newServer(tc.fault)
				var failed map[string]int
				series, failed = load(t, 35*time.Minute, s, func(since time.Duration) {
					faulty := since >= begin && since < begin+7*time.Second
					s.ahead.Store(faulty && tc.fault == "ahead")
					s.down.Store(faulty && tc.fault != "" && tc.fault != "ahead")
				}, tc.habit)
				if fails := tc.fault != "" && tc.fault != "ahead"; fails == (len(failed) == 0) {
					t.Fatalf("the failed calls are %v", failed)
				}
				counted := make(map[string]int)
				for name, values := range series {
					_, label, is := strings.Cut(name, `brim_spend_failures_total{job="app",outcome="`)
					if n, err := strconv.Atoi(values[len(values)-1]); is && err == nil && n > 0 {
						counted[strings.TrimSuffix(label, `"}`)] = n
					}
				}
				if !maps.Equal(counted, failed) {
					t.Errorf("the metrics count the failed calls %v; want %v", counted, failed)
				}
			})
			fire(t, tool, alerts, series, tc.fires, times)
		})
	}
}

// times are before a fault, soon after its begin, and long after.
var times = []string{"9m", "12m", "34m"}

// fire tests which alerts fire on the series at the given times.
func fire(t *testing.T, tool, alerts string, series scraped, want map[string][2]string, times []string) {
	t.Helper()
	text, err := os.ReadFile(alerts)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.LegacyValidation)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	type inputSeries struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	type alertTest struct {
		EvalTime string           `json:"eval_time"`
		Name     string           `json:"alertname"`
		Alerts   []map[string]any `json:"exp_alerts"`
	}
	var input []inputSeries
	for _, name := range slices.Sorted(maps.Keys(series)) {
		input = append(input, inputSeries{name, strings.Join(series[name], " ")})
	}
	var tests []alertTest
	for _, at := range times {
		for _, r := range groups.Groups[0].Rules {
			test := alertTest{EvalTime: at, Name: r.Alert, Alerts: []map[string]any{}}
			if w, fires := want[r.Alert]; fires && w[1] == at {
				labels := make(map[string]string)
				if err := json.Unmarshal([]byte("{"+w[0]+"}"), &labels); err != nil {
					t.Fatal(err)
				}
				annotations := make(map[string]string)
				for name, value := range r.Annotations {
					for label, is := range labels {
						value = strings.ReplaceAll(value, "{{ $labels."+label+" }}", is)
					}
					annotations[name] = value
				}
				labels["severity"] = r.Labels["severity"]
				test.Alerts = append(test.Alerts, map[string]any{"exp_labels": labels, "exp_annotations": annotations})
			}
			tests = append(tests, test)
		}
	}
	unit, err := json.Marshal(map[string]any{ // which is YAML, too
		"rule_files": []string{alerts}, "evaluation_interval": "15s",
		"tests": []any{map[string]any{"interval": scrapeEvery.String(), "input_series": input, "alert_rule_test": tests}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(file, unit, 0o600); err != nil {
		t.Fatal(err)
	}
	for attempt := 1; ; attempt++ { // promtool 2.42 of Debian hangs now and then
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, tool, "test", "rules", file).CombinedOutput()
		hung := ctx.Err() != nil
		cancel()
		if err == nil {
			return
		}
		if !hung || attempt == 3 {
			t.Errorf("attempt %d: %v: %s", attempt, err, out)
			return
		}
	}
}
