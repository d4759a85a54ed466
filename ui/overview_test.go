package ui

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/cached"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// TestRefusedNow follows the refusals of some buckets over time.
func TestRefusedNow(t *testing.T) {
	lim, r, clock := recorded(t, nil)
	two := brim.Limit{Capacity: 2, LeakRate: 0.001}
	try := func(key string, n int) {
		for range n {
			if _, err := lim.TryFillup(t.Context(), two.For(key), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := clock.Now()
	try("early", 5)
	clock.Advance(Window / 2)
	try("a", 2)
	try("b", 7)
	if _, err := lim.AbleToAccept(t.Context(), two.For("asked"), 1); err != nil {
		t.Fatal(err)
	}
	for second := range 40 { // c is refused again and again, with a pause that is too short to end it
		try("c", 1)
		clock.Advance(time.Second)
		if second == 20 {
			clock.Advance(25 * time.Second)
		}
	}
	for _, tc := range []struct {
		after time.Duration
		why   string
		want  string // key, refusals of the last minute, of the window, since, before
	}{
		{0, "c is refused now, b was more than a minute ago", "c 34 38 302 false; b 0 5 300 false; early 0 3 0 false"},
		{Window/2 - 66*time.Second, "the whole window counts", "c 0 38 302 false; b 0 5 300 false; early 0 3 0 false"},
		{time.Second, "early has left the window", "c 0 38 302 false; b 0 5 300 false"},
		{Window/2 + time.Second, "so has b", "c 0 38 302 true"},
		{Window, "nobody is left", ""},
	} {
		clock.Advance(tc.after)
		var got []string
		for _, k := range r.overview().keys {
			got = append(got, fmt.Sprint(k.key, " ", k.recent, " ", k.all, " ", k.since-begin.Unix(), " ", k.before))
		}
		if text := strings.Join(got, "; "); text != tc.want {
			t.Errorf("%s: %q, want %q", tc.why, text, tc.want)
		}
	}
}

// TestRefusalsAreLive refuses calls for more buckets than the Recorder keeps, while the listing of
// the store does not end.
func TestRefusalsAreLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mount(t, nil)
		held := make(chan struct{})
		m.store.slow = func() { <-held }
		const buckets = 5000
		for i := range buckets {
			m.fill(t, fmt.Sprint("k", i), 11)
		}
		for range 300 {
			m.fill(t, "hot", 11)
		}
		if _, err := m.lim.Block(t.Context(), "blocked", time.Hour); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		p := m.get("").want(t, http.StatusOK, "<dt>Refused, 10 min</dt><dd>5300</dd>", "<dt>Share</dt><dd>100.0 %</dd>",
			"<b>300</b>/s", "since 23:51:00, for 0s", "300 in 10 min", "further buckets were", "listing of all buckets is under way",
			"until 2024-03-01 00:51:00 UTC, for 1h", "act=unblock&amp;key=blocked")
		if took := time.Since(began); took > 0 {
			t.Errorf("the page waited for %v", took)
		}
		if p.linked(t)[0] != "hot" {
			t.Errorf("the first bucket is %q, want hot", p.linked(t)[0])
		}
		close(held)
		synctest.Wait()
		m.clock.Advance(Window)
		m.get("").want(t, http.StatusOK, "<dt>Refused, 10 min</dt><dd>0</dd>", "Nobody was refused")
	})
}

// TestBlocked blocks buckets by the program, by the page, and by another program.
func TestBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mount(t, nil)
		other := brim.New(m.store.Store, nil) // the Recorder does not see its calls
		block := func(lim *brim.Limiter, key string, d time.Duration) {
			t.Helper()
			if _, err := lim.Block(t.Context(), key, d); err != nil {
				t.Fatal(err)
			}
		}
		shows := func(when string, want ...string) {
			t.Helper()
			p := m.get("").want(t, http.StatusOK)
			_, list, _ := strings.Cut(p.body, "<h2>Blocked</h2>")
			if got := (page{body: list}).linked(t); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: blocked are %q, want %q", when, got, want)
			}
		}
		block(m.lim, "own", 3*time.Hour)
		shows("before the first listing", "own")
		block(other, "other", 4*time.Hour)
		m.later()
		shows("after a listing", "other", "own")
		m.post("act", m.forms(t, "unblock", "other", "")).want(t, http.StatusSeeOther)
		shows("after the page ended the block of another program", "own")
		m.post("act", m.forms(t, "reset", "own", "")).want(t, http.StatusSeeOther)
		shows("after the page reset the bucket")
		block(other, "other", 2*time.Hour)
		m.later()
		shows("after the next listing", "other")
		if _, err := m.lim.Unblock(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		shows("after the program ended the block")
		block(m.lim, "own", time.Minute)
		m.clock.Advance(time.Minute)
		shows("after the block ended by itself")
		m.access = Look
		block(m.lim, "own", time.Hour)
		if p := m.get(""); strings.Contains(p.body, "act=unblock") {
			t.Error("a viewer who may only look is offered to unblock")
		}
	})
}

// TestHealth judges tries and calls of all kinds.
func TestHealth(t *testing.T) {
	at := time.Unix(1000, 0)
	good := cached.Reading[tried]{At: at, Took: time.Millisecond}
	failing, timed, broken, large := good, good, good, good
	failing.Err = store.Wrap("postgres", "check", store.ErrUnavailable)
	timed.Err, timed.Took = context.DeadlineExceeded, time.Minute
	broken.Value.findings = []store.Finding{{Severity: store.Warning}, {Severity: store.Broken, Subject: "fsync"}}
	large.Value.took = 20 * time.Second
	calls := func(change func(o *overview)) *overview {
		o := &overview{answered: noDecision}
		o.spends.answered = noDecision
		change(o)
		return o
	}
	idle := calls(func(*overview) {})
	busy := calls(func(o *overview) { o.accepted[slots-1], o.answered = 5, 100*time.Millisecond })
	failed := func(n uint32, ago time.Duration) *overview {
		return calls(func(o *overview) {
			o.failed[slots-1-int(ago/time.Second)] = n
			o.failure = failedNow{"postgres: fill: <no> route", ago}
		})
	}
	spends := func(ago time.Duration) *overview {
		return calls(func(o *overview) {
			o.spends.failed[slots-1-int(ago/time.Second)] = 2
			o.spends.failure = failedNow{"pgledger: decide: no route", ago}
		})
	}
	const second = time.Second
	for _, tc := range []struct {
		name           string
		last           cached.Reading[tried]
		age, waited    time.Duration
		o              *overview
		class, verdict string
		fact           string
	}{
		{"idle", good, second, 0, idle, "good", "Healthy", "answered the last try, 1s ago, in 1ms. No call failed in the last ten minutes. No call waits"},
		{"a try runs", good, second, second, idle, "good", "Healthy", "answered the last try"},
		{"a try gets no answer", good, second, 3 * second, idle, "bad", "The store does not answer a try", "has waited for 3s"},
		{"only the try is slow", good, second, 3 * second, busy, "warn", "The store does not answer a try", "has waited for 3s"},
		{"a check of a large file runs", large, 30 * second, 30 * second, idle, "good", "Healthy", "answered the last try, 30s ago"},
		{"a try ran out of time", timed, second, 0, idle, "bad", "The store does not answer a try", "did not end within 1m"},
		{"not tried yet", cached.Reading[tried]{}, second, 0, idle, "warn", "Not tried yet", "no answer yet"},
		{"a good try is old", good, 92 * second, 0, busy, "warn", "Not tried for 1m32s", "The verdict of then tells nothing of now."},
		{"a failed try is old", failing, 197 * second, 0, idle, "warn", "Not tried for 3m17s", "tells nothing of now"},
		{"the try failed", failing, second, 0, busy, "bad", "The store fails", "The last try, 1s ago, failed: postgres: check: store unavailable"},
		{"a promise is broken", broken, second, 0, busy, "bad", "A promise is broken", "answered the last try"},
		{"calls fail", good, second, 0, failed(120, second), "bad", "Calls fail", "120 calls failed in the last ten minutes, and 2 a second in the last minute. The last failed call, 1s ago: postgres: fill: <no> route."},
		{"calls have failed since the try", good, 9 * second, 0, failed(1, 8*second), "bad", "Calls fail", "1 call failed in the last ten minutes, and"},
		{"calls failed, and a try has succeeded since", good, second, 0, failed(1, 4*second), "warn", "Calls failed", "The last failed call, 4s ago"},
		{"calls failed, and the try after them, too", failing, second, 0, failed(1, 4*second), "bad", "The store fails", "The last failed call, 4s ago"},
		{"a call failed long ago", good, second, 0, failed(1, 500*second), "warn", "Calls failed", "1 call failed in the last ten minutes, and 0 a second"},
		{"a call waits", good, second, 0, calls(func(o *overview) { o.oldest = 1500 * time.Millisecond }), "good", "Healthy", "without an answer has waited for 2s"},
		{"a call waits long", good, second, 0, calls(func(o *overview) { o.oldest = 5 * second }), "bad", "Calls get no answer", "has waited for 5s"},
		{"spends fail", good, second, 0, spends(second), "bad", "Spends fail", "2 spends failed in the last ten minutes. The last failed spend, 1s ago: pgledger: decide: no route."},
		{"spends failed", good, second, 0, spends(20 * second), "warn", "Spends failed", "2 spends failed in the last ten minutes."},
		{"the calls are not seen", good, second, 0, calls(func(o *overview) { o.unseen = true }), "good", "Healthy", "it does not see whether they fail."},
	} {
		y := newHealth(tc.last, tc.age, tc.waited, tc.o)
		if y.Class != tc.class || y.Verdict != tc.verdict || !strings.Contains(strings.Join(y.Facts, " "), tc.fact) {
			t.Errorf("%s: %+v; want %s, %q and %q", tc.name, y, tc.class, tc.verdict, tc.fact)
		}
		if tc.o.unseen && strings.Contains(strings.Join(y.Facts, " "), "No call failed") {
			t.Errorf("%s: %q", tc.name, y.Facts)
		}
	}
}

// TestVerdictFollows: a failure, and calls that contradict the last try, cause a check at once,
// however seldom checks run otherwise, and the page never shows the cause of an earlier fault.
func TestVerdictFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Pointer[string]
		checks := 0
		m := mount(t, func(o *Options) {
			o.Check = func(context.Context) ([]store.Finding, error) {
				checks++
				time.Sleep(200 * time.Millisecond)
				if text := down.Load(); text != nil {
					return nil, errors.New(*text)
				}
				return []store.Finding{{Severity: store.Warning, Subject: "small"}, {Severity: store.Broken, Subject: "grave"}}[:1], nil
			}
			o.Clock = time.Now
			r, err := NewRecorder(nil)
			if err != nil {
				t.Fatal(err)
			}
			o.Recorder = r
		})
		if err := m.store.Store.Close(); err != nil {
			t.Fatal(err)
		}
		m.store.Store = memory.New(nil) // by the clock of the bubble, as the page
		recorded, err := m.handler.recorder.Wrap(m.store)
		if err != nil {
			t.Fatal(err)
		}
		lim := brim.New(recorded, nil)
		// shows looks every two seconds, as the page does, until it shows a verdict.
		shows := func(when string, within time.Duration, called bool, verdict string) page {
			t.Helper()
			began := time.Now()
			for {
				if called {
					_, _ = lim.TryFillup(t.Context(), ten.For("a"), 0) // the outcome is that of the store
				}
				p := m.get("")
				if strings.Contains(p.body, `<h1 id="verdict">`+verdict) {
					return p
				}
				if time.Since(began) >= within {
					t.Fatalf("%s: not %q within %v: %s", when, verdict, within, p.body)
				}
				time.Sleep(2 * time.Second)
			}
		}
		shows("at the start", 5*time.Second, false, "Healthy")
		time.Sleep(time.Second)
		before := checks
		for range 2 {
			shows("in a quiet time", 0, false, "Healthy")
			time.Sleep(2 * time.Second)
		}
		if checks > before+1 {
			t.Errorf("%d checks of 200 ms in 4 s; want at most one, and reads between them", checks-before)
		}
		for i, called := range []bool{true, false, true, false} {
			cause := fmt.Sprintf("fault %d", i)
			if i > 1 {
				time.Sleep(time.Hour) // nobody looks
			}
			down.Store(&cause)
			m.store.down.Store(true)
			shows("after the fault", 5*time.Second, called, "The store fails")
			time.Sleep(2 * time.Second)
			if p := m.get(""); !strings.Contains(p.body, cause) || i > 0 && strings.Contains(p.body, fmt.Sprintf("fault %d", i-1)) {
				t.Errorf("the page shows another cause than %q: %s", cause, p.body)
			}
			down.Store(nil)
			m.store.down.Store(false)
			after := "Calls failed" // in the last ten minutes
			if i == 3 {
				after = "Healthy"
			}
			p := shows("after the recovery", 5*time.Second, called, after)
			if strings.Contains(p.body, "fault ") {
				t.Errorf("after the recovery, the page shows a fault: %s", p.body)
			}
		}
	})
}

// TestSpending shows spends of all outcomes on the first page.
func TestSpending(t *testing.T) {
	m, _, l := spending(t, nil)
	m.get("").want(t, http.StatusOK)
	if p := m.get(""); strings.Contains(p.body, "<h2>Spends</h2>") {
		t.Error("a program without the hooks shows spends")
	}
	b, err := spend.New(t.Context(), l, cards, &spend.Options{Hooks: []spend.Hooks{m.handler.recorder.Hooks()}})
	if err != nil {
		t.Fatal(err)
	}
	m.get("").want(t, http.StatusOK, "<h2>Spends</h2>", "No spend was declined")
	for i := range 30 {
		charge(t, b, fmt.Sprint("pay-", i), "card:7", 30_00)
	}
	charge(t, b, "pay-1", "card:7", 30_00) // a retry counts once
	p := m.get("").want(t, http.StatusOK, "<dt>Declined, 10 min</dt><dd>27</dd>", "<dt>Failed, 10 min</dt><dd>0</dd>",
		`href="account?account=card%3A7&amp;budget=cards"`, "by day, 27 times", "would have fit")
	if n := strings.Count(p.body, "by day"); n != 1 {
		t.Errorf("an account is listed %d times", n)
	}
	for i := range recentDeclines + 5 {
		charge(t, b, fmt.Sprint("large-", i), fmt.Sprint("card:", 100+i), 200_00)
	}
	p = m.get("")
	if n := strings.Count(p.body, "by day"); n != recentDeclines || strings.Contains(p.body, "card:104") || !strings.Contains(p.body, "card:105") {
		t.Errorf("%d declines are listed, want the last %d", n, recentDeclines)
	}
	m.clock.Advance(Window + time.Second)
	m.get("").want(t, http.StatusOK, "No spend was declined", "<dt>Declined, 10 min</dt><dd>0</dd>")
	l.err = store.Wrap("pgledger", "decide", store.ErrUnavailable)
	if _, err := b.Get(t.Context(), "pay-1"); !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
	m.get("").want(t, http.StatusOK, `class="health bad"`, "1 spend failed in the last ten minutes.", "The last failed spend, 0s ago: ",
		"pgledger: decide: store unavailable", "<dt>Failed, 10 min</dt><dd>1</dd>")
}

// TestQuickChecks: a check that is quick runs with each try, also without calls, and after one that
// waited for the end of an outage.
func TestQuickChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks := 0
		m := mount(t, func(o *Options) {
			o.Clock = time.Now
			r, err := NewRecorder(nil)
			if err != nil {
				t.Fatal(err)
			}
			o.Recorder = r
			o.Check = func(context.Context) ([]store.Finding, error) {
				checks++
				time.Sleep(time.Millisecond)
				if checks == 5 {
					time.Sleep(1500 * time.Millisecond)
				}
				return nil, nil
			}
		})
		for range 10 {
			m.get("")
			time.Sleep(2 * time.Second)
		}
		if checks != 10 {
			t.Errorf("%d checks, want 10", checks)
		}
	})
}

// TestOwnCalls: tries, listings and pages that fail are no failed calls of the program.
func TestOwnCalls(t *testing.T) {
	m := mount(t, nil)
	m.store.down.Store(true)
	for _, path := range []string{"", "levels", "bucket?key=a", ""} {
		m.get(path)
	}
	m.get("").want(t, http.StatusOK, "The store fails", "No call failed in the last ten minutes.")
}

// TestJoinChecks joins the findings of two checks.
func TestJoinChecks(t *testing.T) {
	find := func(err error, list ...store.Finding) func(context.Context) ([]store.Finding, error) {
		return func(context.Context) ([]store.Finding, error) { return list, err }
	}
	warning, other := store.Finding{Severity: store.Warning, Subject: "a"}, store.Finding{Severity: store.Broken, Subject: "b"}
	got, err := JoinChecks(find(nil, warning), find(nil, warning, other))(t.Context())
	if err != nil || fmt.Sprint(got) != fmt.Sprint([]store.Finding{other, warning}) {
		t.Errorf("%v, %v; want each finding once, the worst first", got, err)
	}
	failure := errors.New("no route")
	if got, err := JoinChecks(find(nil, warning), find(failure))(t.Context()); !errors.Is(err, failure) || got != nil {
		t.Errorf("%v, %v; want the error", got, err)
	}
}

// TestChartIsNotFlattened: a burst of a start does not flatten the chart of the time since.
func TestChartIsNotFlattened(t *testing.T) {
	o := &overview{now: time.Unix(1_000_000_200, 0)}
	for i := range o.accepted {
		o.accepted[i] = 20
	}
	if o.cut(10) != 0 || strings.Contains(string(o.chart()), "up to") {
		t.Errorf("an even rate is cut off at %v", o.cut(10))
	}
	for i := range 20 {
		o.accepted[100+i] = 50_000
	}
	if cut := o.cut(10); cut != 40 || !strings.Contains(string(o.chart()), "up to 50k") {
		t.Errorf("the burst is cut off at %v, want 40: %s", cut, o.chart())
	}
}

// TestOutage has calls fail, and then hang, and looks at the first page.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mount(t, func(o *Options) { o.Check = func(context.Context) ([]store.Finding, error) { return nil, nil } })
		m.fill(t, "a", 1)
		m.get("").want(t, http.StatusOK, "Healthy")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		m.store.hangs.Store(true)
		if _, err := m.lim.TryFillup(ended, ten.For("a"), 1); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		m.get("").want(t, http.StatusOK, "Healthy") // a caller who left is no failure
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = m.lim.TryFillup(ctx, ten.For("a"), 1) // the outcome is that of the test's end
		}()
		synctest.Wait()
		m.clock.Advance(4 * time.Second)
		m.get("").want(t, http.StatusOK, `class="health bad"`, "Calls get no answer", "has waited for 4s")
		cancel()
		<-done
		m.get("").want(t, http.StatusOK, "Healthy", "No call waits for an answer")
		m.store.hangs.Store(false)
		m.store.down.Store(true)
		for range 30 {
			if _, err := m.lim.TryFillup(t.Context(), ten.For("a"), 1); !errors.Is(err, store.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		m.get("").want(t, http.StatusOK, `class="health bad"`, "Calls fail", "30 calls failed in the last ten minutes, and 0.5 a second", ">failed</text>")
	})
}

// TestChartTells compares the chart with the decisions that it shows.
func TestChartTells(t *testing.T) {
	m := mount(t, nil)
	m.clock.Advance(20 * time.Second) // the clock shows 23:51:20
	for range 100 {                   // two accepted and three refused in a second
		for i := range 5 {
			m.fill(t, "a", float64(1+10*(i%3)))
		}
		if err := m.lim.Reset(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		m.clock.Advance(time.Second)
	}
	p := m.get("").want(t, http.StatusOK, "Decisions and refusals a second", ">decisions</text>", ">refused</text>", ">23:43</text>", ">23:51</text>")
	axis := regexp.MustCompile(`y="([0-9.]+)" text-anchor="end">([0-9.]+)</text>`).FindAllStringSubmatch(p.body, -1)
	line := regexp.MustCompile(`<polyline class="c0"[^>]*points="([^"]*)"`).FindStringSubmatch(p.body)
	if len(axis) < 2 || line == nil {
		t.Fatalf("no chart in %s", p.body)
	}
	var y, v [2]float64
	for i := range y {
		if _, err := fmt.Sscan(axis[i][1]+" "+axis[i][2], &y[i], &v[i]); err != nil {
			t.Fatal(err)
		}
	}
	highest := math.Inf(1)
	for _, point := range strings.Fields(line[1]) {
		var px, py float64
		if _, err := fmt.Sscanf(point, "%f,%f", &px, &py); err != nil {
			t.Fatal(err)
		}
		highest = min(highest, py)
	}
	const baseline = 4 // from the line to the foot of its number
	if got := v[0] + (highest-(y[0]-baseline))*(v[1]-v[0])/(y[1]-y[0]); math.Abs(got-5) > 0.05 {
		t.Errorf("the highest rate of the chart is %.2f, want 5", got)
	}
}
