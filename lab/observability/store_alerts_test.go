package observability

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/observe/prombrim"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// slow is a store on a server: an answer takes its time, a call may fail, and a flush may fail and
// be repeated without a failed call.
type slow struct {
	store.Store
	takes func() time.Duration
	fails func() error
}

func (s slow) Fill(ctx context.Context, op store.Op) (store.State, error) {
	select {
	case <-ctx.Done():
		return store.State{}, ctx.Err()
	case <-time.After(s.takes()):
	}
	if err := s.fails(); err != nil {
		return store.State{}, err
	}
	return s.Store.Fill(ctx, op)
}

// TestStoreAlerts tests the alerts on calls to the store by promtool. Callers have deadlines of a
// quarter of a second, and in an hour without a fault each call waits 60 ms for the rows that
// transactions of others hold.
func TestStoreAlerts(t *testing.T) {
	tool, alerts := promtool(t), alertsFile(t)
	const job, limited = `"job":"app"`, `"job":"app","limit":"api"`
	for _, tc := range []struct {
		name    string
		takes   time.Duration // of a call after begin
		err     error         // of calls after begin
		amount  float64       // of calls after begin
		retry   bool          // a call is repeated after begin
		brief   bool          // the fault lasts for seven seconds
		patient bool          // the deadline is a second
		fires   map[string][2]string
	}{
		{name: "healthy, with slow transactions", takes: 60 * time.Millisecond, amount: 1},
		{name: "failures", takes: time.Millisecond, amount: 1, err: store.ErrUnavailable, fires: map[string][2]string{"BrimCallsFail": {job, "34m"}}},
		{name: "unknown outcomes", takes: time.Millisecond, amount: 1, err: store.ErrUnknownOutcome, fires: map[string][2]string{"BrimCallsFail": {job, "34m"}}},
		{name: "deadlines", takes: 400 * time.Millisecond, amount: 1, fires: map[string][2]string{"BrimCallsLate": {job, "34m"}}},
		{name: "slow answers", takes: 400 * time.Millisecond, amount: 1, patient: true, fires: map[string][2]string{"BrimSlow": {job, "34m"}}},
		{name: "repetitions", takes: time.Millisecond, amount: 1, retry: true, fires: map[string][2]string{"BrimRetries": {`"job":"app","backend":"postgres"`, "34m"}}},
		{name: "refusals", takes: time.Millisecond, amount: 30, fires: map[string][2]string{"BrimRefuses": {limited, "34m"}}},
		{name: "amounts that never fit", takes: time.Millisecond, amount: 101, brief: true, fires: map[string][2]string{"BrimNeverFits": {limited, "12m"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			series := make(scraped)
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				faulty := func() bool {
					since := time.Since(start)
					return since >= begin && (!tc.brief || since < begin+7*time.Second)
				}
				limit := store.Limit{Capacity: 100, LeakRate: 10}
				reg := prometheus.NewRegistry()
				hooks, err := prombrim.New(reg, &prombrim.Options{Limits: map[string]store.Limit{"api": limit}})
				if err != nil {
					t.Fatal(err)
				}
				s := slow{memory.New(nil), func() time.Duration {
					if faulty() {
						return tc.takes
					}
					return 60 * time.Millisecond
				}, func() error {
					if faulty() {
						return tc.err
					}
					return nil
				}}
				defer s.Close()
				observed, err := observe.New(s, hooks, nil)
				if err != nil {
					t.Fatal(err)
				}
				lim := brim.New(observed, nil)
				next := start
				for i := 0; time.Since(start) < 35*time.Minute; i++ {
					if !time.Now().Before(next) {
						series.scrape(t, reg, int(time.Since(start)/scrapeEvery))
						next = next.Add(scrapeEvery)
					}
					amount := 1.0
					if faulty() {
						amount = tc.amount
						if tc.retry {
							hooks.Retry(store.Retry{Backend: "postgres"})
						}
					}
					flush := store.Flush{Backend: "postgres", Requests: 2}
					if i%20 == 0 { // a row was held, and the callers of the flush were asked one by one
						flush.Err = store.ErrUnavailable
					}
					hooks.Flush(flush)
					patience := 250 * time.Millisecond
					if tc.patient {
						patience = time.Second
					}
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					_, _ = lim.TryFillup(ctx, limit.For("key"), amount) // the metrics count a failure
					cancel()
					time.Sleep(time.Second)
				}
			})
			fire(t, tool, alerts, series, tc.fires, times)
		})
	}
}

// TestNearlyFull tests the alert on buckets that are nearly full for half an hour.
func TestNearlyFull(t *testing.T) {
	tool, alerts := promtool(t), alertsFile(t)
	full := make(scraped)
	for _, le := range []string{"0.5", "0.9", "0.95", "1", "+Inf"} {
		rate := 0
		if le == "1" || le == "+Inf" {
			rate = 10
		}
		full[fmt.Sprintf(`brim_fill_ratio_bucket{job="app",limit="api",le=%q}`, le)] = []string{fmt.Sprintf("0+%dx1440", rate)}
	}
	fire(t, tool, alerts, full, map[string][2]string{"BrimNearlyFull": {`"job":"app","limit":"api"`, "61m"}}, []string{"20m", "61m"})
}

// TestHeldUp tests the alert on a stranger's transaction, with the findings of a server on which
// one is open: it has an id, and in the second case it also holds a row.
func TestHeldUp(t *testing.T) {
	tool, alerts := promtool(t), alertsFile(t)
	for _, tc := range []struct{ name, sql, subject string }{
		{"healthy", "", ""},
		{"an open transaction id", "SELECT pg_current_xact_id()", "old transaction"},
		{"a held row", "SELECT FROM brim.buckets FOR UPDATE", "held rows"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pool := pgtest.NewServer(t).Pool(t)
			if err := migrations.Up(t.Context(), pool, nil); err != nil {
				t.Fatal(err)
			}
			if tc.sql != "" {
				if _, err := pool.Exec(t.Context(), "INSERT INTO brim.buckets (level, atime, capacity, leak_rate, key) VALUES (1, now(), 1, 0, 'k')"); err != nil {
					t.Fatal(err)
				}
				tx, err := pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback(t.Context()) }()
				if _, err := tx.Exec(t.Context(), tc.sql); err != nil {
					t.Fatal(err)
				}
			}
			var findings, now []store.Finding
			for end := time.Now().Add(time.Minute); len(findings) == 0 && time.Now().Before(end); {
				var err error
				if findings, err = postgres.Check(t.Context(), pool, nil); err != nil {
					t.Fatal(err)
				}
				if tc.sql == "" {
					break
				}
			}
			reg := prometheus.NewRegistry()
			if _, err := prombrim.New(reg, &prombrim.Options{Findings: func() []store.Finding { return now }}); err != nil {
				t.Fatal(err)
			}
			series := make(scraped)
			for i := range int(35 * time.Minute / scrapeEvery) {
				if time.Duration(i)*scrapeEvery >= begin {
					now = findings
				}
				series.scrape(t, reg, i)
			}
			fires := make(map[string][2]string)
			if tc.subject != "" {
				fires["BrimHeldUp"] = [2]string{fmt.Sprintf(`"job":"app","subject":%q`, tc.subject), "34m"}
			}
			fire(t, tool, alerts, series, fires, []string{"9m", "11m", "34m"})
		})
	}
}
