package brim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// clock is what the examples use instead of the system's, so that their output is the same on every day.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// example returns a Limiter over an empty store, and its clock.
func example() (*brim.Limiter, *clock) {
	c := &clock{now: time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)}
	db, err := memory.New(&memory.Options{Clock: c.Now})
	if err != nil {
		panic(err)
	}
	return brim.New(db, nil), c
}

// Batches of rows are inserted as fast as the database is willing to take them: the cost of a batch is its rows.
func Example() {
	lim, clock := example()
	ctx := context.Background()

	inserts := brim.Limit{Capacity: 1000, LeakRate: 100} // rows; rows per second
	for _, rows := range []int{600, 300, 250} {
		st, err := lim.TryFillup(ctx, inserts.For("table:events"), float64(rows))
		if err != nil {
			fmt.Println(err) // the store failed: the limit said nothing
			return
		}
		if !st.Accepted {
			fmt.Printf("%d rows: wait %v\n", rows, st.RetryAfter)
			clock.now = clock.now.Add(st.RetryAfter) // a program would sleep
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

// A web service answers a caller who asks too much with 429, and says when to come back. Retry-After counts whole seconds,
// so they are rounded up; what can never fit is not worth coming back for.
func ExampleLimiter_TryFillup() {
	lim, _ := example()
	uploads := brim.Over(50, time.Hour) // 50 megabytes; a full bucket drains in an hour

	upload := func(w http.ResponseWriter, r *http.Request) {
		megabytes := math.Ceil(float64(r.ContentLength) / 1e6)
		st, err := lim.TryFillup(r.Context(), uploads.For("user:"+r.Header.Get("User")), megabytes)
		switch {
		case err != nil:
			http.Error(w, "try later", http.StatusServiceUnavailable)
		case st.RetryAfter == brim.Never:
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

// Asking writes nothing and reserves nothing. It is for showing a button or choosing a queue; the decision is TryFillup's.
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

// A card payment is authorised first and settled later, for another sum: hold what it may cost, then capture what it did.
// Amounts are cents, so that they are exact.
func ExampleLimiter_Hold() {
	lim, _ := example()
	ctx := context.Background()
	card := brim.Over(500_00, 30*24*time.Hour).For("card:7")
	show := func(what string, st brim.State, err error) {
		fmt.Printf("%s: accepted %v, spent %v, held %v, %v\n", what, st.Accepted, st.Level, st.Held, err)
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

// A purchase must stay within the limits of its card, its department and the company, or it does not happen. The states tell
// which of them refused.
func ExampleLimiter_TryFillupAll() {
	lim, _ := example()
	ctx := context.Background()
	card := brim.Limit{Capacity: 100}.For("card:7")
	department := brim.Limit{Capacity: 250}.For("department:lab")
	company := brim.Limit{Capacity: 10_000}.For("company")

	for _, price := range []float64{90, 60} {
		states, err := lim.TryFillupAll(ctx,
			brim.Fill{Bucket: card, Amount: price},
			brim.Fill{Bucket: department, Amount: price},
			brim.Fill{Bucket: company, Amount: price})
		if err != nil {
			fmt.Println(err)
			return
		}
		for i, name := range []string{"card", "department", "company"} {
			st := states[i]
			fmt.Printf("%v: %s accepted %v, refused by it %v, now %v of %v\n",
				price, name, st.Accepted, st.RetryAfter > 0, st.Level, st.Capacity)
		}
	}
	// Output:
	// 90: card accepted true, refused by it false, now 90 of 100
	// 90: department accepted true, refused by it false, now 90 of 250
	// 90: company accepted true, refused by it false, now 90 of 10000
	// 60: card accepted false, refused by it true, now 90 of 100
	// 60: department accepted false, refused by it false, now 90 of 250
	// 60: company accepted false, refused by it false, now 90 of 10000
}

// Errors in a log have happened: they cannot be refused, only counted. Full is true for the one that fills the bucket, so an
// alarm rings at the moment and not after it.
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
		fmt.Printf("%v more errors: level %v, full %v, lost over the rim %v\n", errors, st.Level, st.Full, st.Spilled)
		clock.now = clock.now.Add(time.Second)
	}
	// Output:
	// 6 more errors: level 6, full false, lost over the rim 0
	// 3 more errors: level 8, full false, lost over the rim 0
	// 4 more errors: level 10, full true, lost over the rim 1
}

// What operators do: look, forgive, and tidy up.
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
	clock.now = clock.now.Add(24 * time.Hour)
	pruned, err := lim.Prune(ctx)
	fmt.Println("pruned:", pruned, err)
	// Output:
	// login:ann: 5 of 5, empty in 1m0s, <nil>
	// login:bob: 1 of 5, empty in 12s, <nil>
	// login:eve: 5 of 5, empty in 1m0s, <nil>
	// reset: <nil>
	// pruned: 2 <nil>
}

// When the store fails, the limit has said nothing, and someone must have chosen what that means. Fail closed where a cost
// let through is worse than work refused: money. Fail open where it is the other way round: a page view. A call whose outcome
// is unknown may have been applied, so trying it again may charge twice.
func Example_storeFailure() {
	lim := brim.New(failing{}, nil)
	b := brim.Over(100, time.Minute).For("tenant:42")

	allow := func(openOnFailure bool) bool {
		st, err := lim.TryFillup(context.Background(), b, 1)
		switch {
		case err == nil:
			return st.Accepted
		case errors.Is(err, brim.ErrUnavailable), errors.Is(err, brim.ErrUnknownOutcome):
			fmt.Println(err) // for the log: someone has to know
			return openOnFailure
		default: // nonsense of our own: a limit or an amount out of range
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

// failing is a store that cannot be reached.
type failing struct{ store.Store }

func (failing) Fill(context.Context, store.Op) (store.State, error) {
	err := fmt.Errorf("%w: connection refused", store.ErrUnavailable)
	return store.State{}, store.Wrap("example", "fill", err)
}
