package brim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// example returns a Limiter over an empty store, and the store's clock. The clock starts at
// noon and stands still, so the output of an example is always the same.
func example() (*brim.Limiter, *brimtest.Clock) {
	clock := brimtest.NewClock(time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC))
	db := memory.New(&memory.Options{Clock: clock.Now})
	return brim.New(db, nil), clock
}

// Rows are inserted in batches. The cost of a batch is the number of its rows.
func Example() {
	lim, clock := example()
	ctx := context.Background()

	inserts := brim.Limit{Capacity: 1000, LeakRate: 100} // rows; rows per second
	for _, rows := range []int{600, 300, 250} {
		st, err := lim.TryFillup(ctx, inserts.For("table:events"), float64(rows))
		if err != nil {
			fmt.Println(err) // the store failed: the limit gave no answer
			return
		}
		if !st.Accepted {
			fmt.Printf("%d rows: wait %v\n", rows, st.RetryAfter)
			clock.Advance(st.RetryAfter) // a program would sleep
			st, err = lim.TryFillup(ctx, inserts.For("table:events"), float64(rows))
			if err != nil {
				fmt.Println(err)
				return
			}
		}
		fmt.Printf("%d rows: accepted %v, room for %v more\n", rows, st.Accepted, st.Remaining())
	}
	// Output:
	// 600 rows: accepted true, room for 400 more
	// 300 rows: accepted true, room for 100 more
	// 250 rows: wait 1.5s
	// 250 rows: accepted true, room for 0 more
}

// A web service answers 429 to a user who uploads too much, with the wait in Retry-After. The
// header counts whole seconds, so the wait is rounded up. An upload that can never fit gets
// 413, without a wait.
func ExampleLimiter_TryFillup() {
	lim, _ := example()
	uploads := brim.Over(50, time.Hour) // 50 megabytes; a full bucket drains in an hour

	upload := func(w http.ResponseWriter, r *http.Request) {
		megabytes := math.Ceil(float64(r.ContentLength) / 1e6)
		st, err := lim.TryFillup(r.Context(), uploads.For("user:"+r.Header.Get("User")), megabytes)
		switch {
		case err != nil:
			http.Error(w, "try later", http.StatusServiceUnavailable)
		case st.RetryAfter >= brim.Never:
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		case !st.Accepted:
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(st.RetryAfter.Seconds()))))
			http.Error(w, "too many uploads", http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	}

	for _, bytes := range []int64{40e6, 20e6, 60e6} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.ContentLength = bytes
		r.Header.Set("User", "ann")
		w := httptest.NewRecorder()
		upload(w, r)
		fmt.Printf("%d, Retry-After %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 201, Retry-After ""
	// 429, Retry-After "720"
	// 413, Retry-After ""
}

// AbleToAccept writes nothing and reserves nothing. Use it to enable a button or to choose a
// queue, and let TryFillup decide.
func ExampleLimiter_AbleToAccept() {
	lim, _ := example()
	ctx := context.Background()
	mails := brim.Over(100, 24*time.Hour).For("mails:ann")

	if _, err := lim.TryFillup(ctx, mails, 70); err != nil {
		fmt.Println(err)
	}
	for _, recipients := range []float64{30, 31} {
		st, err := lim.AbleToAccept(ctx, mails, recipients)
		fmt.Println(recipients, st.Accepted, st.RetryAfter, err)
	}
	// Output:
	// 30 true 0s <nil>
	// 31 false 14m24s <nil>
}

// Errors in a log have already happened. They cannot be refused, so Fillup counts them. Full
// is true for the call that fills the bucket: the moment for an alarm.
func ExampleLimiter_Fillup() {
	lim, clock := example()
	ctx := context.Background()
	alarm := brim.Limit{Capacity: 10, LeakRate: 1}.For("errors:checkout") // ten at once, or more than one a second

	for _, errors := range []float64{6, 3, 4} {
		st, err := lim.Fillup(ctx, alarm, errors)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v more errors: level %v, full %v, spilled %v\n", errors, st.Level, st.Full, st.Spilled)
		clock.Advance(time.Second)
	}
	// Output:
	// 6 more errors: level 6, full false, spilled 0
	// 3 more errors: level 8, full false, spilled 0
	// 4 more errors: level 10, full true, spilled 1
}

// A request goes through if the user, the user's tenant and the whole service have room for it. A
// POST weighs 5, a GET 1. The states tell which limit refused. A refused request takes nothing from
// any bucket.
func ExampleLimiter_TryFillupAll() {
	lim, clock := example()
	perUser, perTenant, overall := brim.Over(10, 10*time.Second), brim.Over(16, 10*time.Second), brim.Over(25, 10*time.Second)
	weights := map[string]float64{"GET": 1, "POST": 5}

	request := func(method, tenant, user string) {
		n := weights[method]
		states, err := lim.TryFillupAll(context.Background(),
			brim.Fill{Bucket: perUser.For("user:" + user), Amount: n},
			brim.Fill{Bucket: perTenant.For("tenant:" + tenant), Amount: n},
			brim.Fill{Bucket: overall.For("all"), Amount: n})
		if err != nil {
			fmt.Println(err)
			return
		}
		answer := "accepted"
		for i, name := range []string{"user", "tenant", "all"} {
			if wait := states[i].RetryAfter; wait > 0 {
				answer = fmt.Sprintf("refused by %s, retry in %v", name, wait)
			}
		}
		fmt.Printf("%-4s %-4s %s: user %v, tenant %v, all %v: %s\n", method, tenant, user,
			states[0].Level, states[1].Level, states[2].Level, answer)
	}
	request("POST", "red", "ann")
	request("POST", "red", "ann")
	request("GET", "red", "ann")
	request("POST", "red", "bob")
	request("POST", "red", "bob")
	request("GET", "red", "bob")
	request("POST", "blue", "cyd")
	request("POST", "blue", "dan")
	clock.Advance(2 * time.Second)
	request("POST", "blue", "dan")
	// Output:
	// POST red  ann: user 5, tenant 5, all 5: accepted
	// POST red  ann: user 10, tenant 10, all 10: accepted
	// GET  red  ann: user 10, tenant 10, all 10: refused by user, retry in 1s
	// POST red  bob: user 5, tenant 15, all 15: accepted
	// POST red  bob: user 5, tenant 15, all 15: refused by tenant, retry in 2.5s
	// GET  red  bob: user 6, tenant 16, all 16: accepted
	// POST blue cyd: user 5, tenant 5, all 21: accepted
	// POST blue dan: user 0, tenant 5, all 21: refused by all, retry in 400ms
	// POST blue dan: user 5, tenant 6.8, all 21: accepted
}

// A card payment is authorised first and settled later, for a different amount. Hold the
// authorised amount, then capture the settled one. Amounts are cents, so that they are exact.
func ExampleLimiter_Hold() {
	lim, _ := example()
	ctx := context.Background()
	card := brim.Over(500_00, 30*24*time.Hour).For("card:7")
	show := func(event string, st brim.State, err error) {
		fmt.Printf("%s: accepted %v, spent %v, held %v, %v\n", event, st.Accepted, st.Level, st.Held, err)
	}

	st, err := lim.Hold(ctx, card, 300_00)
	show("hotel authorises", st, err)
	st, err = lim.Hold(ctx, card, 250_00)
	show("flight authorises", st, err)
	st, err = lim.Capture(ctx, card, 300_00, 280_00)
	show("hotel settles", st, err)
	st, err = lim.Hold(ctx, card, 200_00)
	show("train authorises", st, err)
	st, err = lim.Release(ctx, card, 200_00)
	show("train is cancelled", st, err)
	// Output:
	// hotel authorises: accepted true, spent 0, held 30000, <nil>
	// flight authorises: accepted false, spent 0, held 30000, <nil>
	// hotel settles: accepted true, spent 28000, held 0, <nil>
	// train authorises: accepted true, spent 28000, held 20000, <nil>
	// train is cancelled: accepted true, spent 28000, held 0, <nil>
}

// A job that failed gives its units back, so that a retry is not charged twice.
func ExampleLimiter_Drain() {
	lim, _ := example()
	ctx := context.Background()
	renders := brim.Over(100, time.Hour).For("renders:ann")

	if _, err := lim.TryFillup(ctx, renders, 80); err != nil {
		fmt.Println(err)
	}
	st, err := lim.Drain(ctx, renders, 80) // the job failed
	fmt.Println(st.Level, err)
	// Output:
	// 0 <nil>
}

// Do calls a function only if its cost fits.
func ExampleLimiter_Do() {
	lim, _ := example()
	reports := brim.Over(1, time.Hour)
	for range 2 {
		err := lim.Do(context.Background(), reports.For("report"), 1, func(context.Context) error {
			fmt.Println("report written")
			return nil
		})
		var over *brim.OverLimitError
		switch {
		case errors.As(err, &over):
			fmt.Println("not now; again in", over.RetryAfter)
		case err != nil:
			fmt.Println(err)
		}
	}
	// Output:
	// report written
	// not now; again in 1h0m0s
}

// Six wrong passwords within a quarter of an hour lock the login for an hour. A user who keeps
// trying stays locked out.
func ExampleLimiter_WithPenalty() {
	lim, clock := example()
	strict := lim.WithPenalty(time.Hour)
	wrong := brim.Over(5, 15*time.Minute)
	for range 6 {
		st, err := strict.TryFillup(context.Background(), wrong.For("login:alice"), 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		if !st.Accepted {
			fmt.Println("locked until", st.BlockedUntil.Format(time.TimeOnly))
		}
	}
	clock.Advance(30 * time.Minute) // the bucket has been empty for a while
	st, err := lim.AbleToAccept(context.Background(), wrong.For("login:alice"), 1)
	fmt.Println(st.Accepted, err)

	_, err = lim.Unblock(context.Background(), "login:alice") // an operator lifts the block
	fmt.Println(err)
	st, err = lim.AbleToAccept(context.Background(), wrong.For("login:alice"), 1)
	fmt.Println(st.Accepted, err)
	// Output:
	// locked until 13:00:00
	// false <nil>
	// <nil>
	// true <nil>
}

// An operator stops a caller by hand, and lets the caller in again. The level of the bucket stays.
func ExampleLimiter_Block() {
	lim, _ := example()
	ctx := observe.WithReason(context.Background(), "ticket 4711") // for the hooks of package observe
	tenant := brim.Limit{Capacity: 100, LeakRate: 1}.For("tenant:42")
	_, err := lim.TryFillup(ctx, tenant, 40)
	fmt.Println(err)

	st, err := lim.Block(ctx, "tenant:42", time.Hour)
	fmt.Println("blocked until", st.BlockedUntil.Format(time.TimeOnly), err)
	st, err = lim.TryFillup(ctx, tenant, 1)
	fmt.Println(st.Accepted, st.RetryAfter, err)

	st, err = lim.Unblock(ctx, "tenant:42")
	fmt.Println("level", st.Level, err)
	// Output:
	// <nil>
	// blocked until 13:00:00 <nil>
	// false 1h0m0s <nil>
	// level 40 <nil>
}

// Operators list buckets, reset one, and prune those that have leaked empty.
func ExampleLimiter_List() {
	lim, clock := example()
	ctx := context.Background()
	logins := brim.Over(5, time.Minute)
	for user, tries := range map[string]float64{"ann": 5, "bob": 1, "eve": 5} {
		if _, err := lim.Fillup(ctx, logins.For("login:"+user), tries); err != nil {
			fmt.Println(err)
		}
	}

	for e, err := range lim.List(ctx, "login:") {
		fmt.Printf("%s: %v of %v, empty in %v, %v\n", e.Key, e.Level, e.Capacity, e.TimeToEmpty(), err)
	}
	fmt.Println("reset:", lim.Reset(ctx, "login:ann"))
	clock.Advance(24 * time.Hour)
	pruned, err := lim.Prune(ctx)
	fmt.Println("pruned:", pruned, err)
	// Unordered output:
	// login:ann: 5 of 5, empty in 1m0s, <nil>
	// login:bob: 1 of 5, empty in 12s, <nil>
	// login:eve: 5 of 5, empty in 1m0s, <nil>
	// reset: <nil>
	// pruned: 2 <nil>
}

// A limit is tried in production before it is enforced.
func ExampleOptions_shadow() {
	db := memory.New(nil)
	defer db.Close()
	lim := brim.New(db, &brim.Options{
		Prefix: "tried:",
		Shadow: func(_ context.Context, f brim.Fill, err error) {
			// Log the error, or count it. If it is no ErrOverLimit, the store failed.
			fmt.Println(f.Amount, "rows:", errors.Is(err, brim.ErrOverLimit))
		},
	})
	inserts := brim.Limit{Capacity: 1000, LeakRate: 0.001}
	for _, rows := range []float64{600, 300, 250, 50, 2000} {
		st, err := lim.TryFillup(context.Background(), inserts.For("tenant:42"), rows)
		if err != nil || !st.Accepted {
			fmt.Println("an invalid argument:", err)
		}
	}
	// Output:
	// 250 rows: true
	// 2000 rows: true
}

// A cell may come every 20 milliseconds, and up to 40 milliseconds early: three cells at once,
// then one at a time.
func ExampleGCRA() {
	lim, clock := example()
	limit, cost := brim.GCRA(20*time.Millisecond, 40*time.Millisecond)
	for range 5 {
		st, err := lim.TryFillup(context.Background(), limit.For("port:7"), cost)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(st.Accepted, st.RetryAfter)
		clock.Advance(time.Millisecond)
	}
	// Output:
	// true 0s
	// true 0s
	// true 0s
	// false 17ms
	// false 16ms
}

// Clients that are refused together would come back together. A random wait on top of
// RetryAfter, below a bound that doubles at each attempt, spreads them: "full jitter".
func Example_fullJitter() {
	db := memory.New(nil)
	lim, b := brim.New(db, nil), brim.Limit{Capacity: 1, LeakRate: 100}.For("k")
	enter := func(ctx context.Context) (brim.State, error) {
		bound := time.Millisecond // a real client starts at about 100 ms
		for {
			st, err := lim.TryFillup(ctx, b, 1)
			if err != nil || st.Accepted || st.RetryAfter >= brim.Never {
				return st, err
			}
			// RetryAfter is the earliest time at which the unit fits. The jitter comes on top.
			wait := st.RetryAfter + rand.N(bound)
			bound = min(2*bound, 10*time.Second)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return st, ctx.Err()
			}
		}
	}
	for range 3 {
		st, err := enter(context.Background())
		fmt.Println(st.Accepted, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
}

// At most three exports run at the same time, in all processes that share the store. The slots of a
// process that is killed are free after a minute.
func ExampleLimiter_Acquire() {
	lim := brim.New(memory.New(nil), nil)
	export := func(ctx context.Context, run func(context.Context) error) error {
		slot, err := lim.Acquire(ctx, "exports", 3, time.Minute)
		if err != nil {
			return err // an OverLimitError: three exports run already
		}
		ctx, release := slot.Keep(ctx) // renews the slot; ctx ends if it is lost
		defer release()
		return run(ctx)
	}
	again := func(next func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error { return export(ctx, next) }
	}
	nothing := func(context.Context) error { return nil }
	fmt.Println(export(context.Background(), again(again(nothing))))
	err := export(context.Background(), again(again(again(nothing))))
	fmt.Println(errors.Is(err, brim.ErrOverLimit))
	// Output:
	// <nil>
	// true
}

// If the store fails, the limit gives no answer, and the caller decides. Fail closed if an
// excess costs more than an interruption: payments. Fail open if an interruption costs more:
// page views. After ErrUnknownOutcome the units may have gone in, so a retry can count them
// twice.
func Example_storeFailure() {
	refused := fmt.Errorf("%w: connection refused", brim.ErrUnavailable)
	lim := brim.New(&broken{err: store.Wrap("example", "fill", refused)}, nil)
	b := brim.Over(100, time.Minute).For("tenant:42")

	allow := func(openOnFailure bool) bool {
		st, err := lim.TryFillup(context.Background(), b, 1)
		switch {
		case err == nil:
			return st.Accepted
		case errors.Is(err, brim.ErrUnavailable), errors.Is(err, brim.ErrUnknownOutcome):
			fmt.Println(err) // log it: an operator must know
			return openOnFailure
		default: // a bug: a limit or an amount is out of range
			return false
		}
	}
	fmt.Println("payment allowed:", allow(false))
	fmt.Println("page view allowed:", allow(true))
	// Output:
	// example: fill: store unavailable: connection refused
	// payment allowed: false
	// example: fill: store unavailable: connection refused
	// page view allowed: true
}
