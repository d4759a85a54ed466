package brim_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// The README has a line of code for each thing that a program may want. This example runs them.
func Example_wants() {
	ctx, db := context.Background(), memory.New(nil)
	lim := brim.New(db, nil)
	user, tenant := "user:42", "tenant:7"

	// A rate limit, a quota of the month, and both at once.
	rate := brim.Over(10, time.Second)
	quota := brim.Per(10_000, brim.Month, time.UTC)
	states, err := lim.TryFillupAll(ctx, brim.Fill{Bucket: rate.For(user), Amount: 1}, brim.Fill{Bucket: quota.For("m:" + user), Amount: 1})
	fmt.Println(states[0].Accepted, states[1].Remaining(), err)

	// As many rows of 80 as fit, and the turn of all of them.
	rows := brim.Limit{Capacity: 50, LeakRate: 1000} // rows; rows per second
	st, err := lim.TakeUpTo(ctx, rows.For(tenant), 1, 80)
	fmt.Println(st.Taken, err)
	_, err = lim.Wait(ctx, rows.For(tenant), 40)
	fmt.Println(err)

	// Turns, 5 a second; places, 3 at a time.
	shaper, err := brim.NewShaper(lim, nil)
	if err == nil {
		_, err = shaper.Wait(ctx, brim.Smooth(5, time.Minute).For("api.example"), 1)
	}
	fmt.Println(err)
	slot, err := lim.Acquire(ctx, "exports", 3, time.Minute)
	if err == nil {
		err = slot.Release(ctx)
	}
	fmt.Println(err)

	// Requests of HTTP by the client's address.
	limited, err := httplimit.New(lim, httplimit.PerClient("api", rate), nil)
	fmt.Println(limited != nil, err)

	// Money: never more than a sum in any 30 days; the same ID again is the same charge.
	eur := func(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "EUR"} }
	cards, err := spend.New(ctx, memledger.New(nil), spend.Budget{
		Name: "cards", Currency: "EUR",
		Rules: []spend.Rule{spend.Rolling("month", eur(100_00), 30*24*time.Hour)},
	}, nil)
	for range 2 {
		d, err2 := cards.Charge(ctx, spend.Request{ID: "pay-1", Account: "card:7", Amount: eur(60_00)})
		err = errors.Join(err, err2)
		fmt.Println(d.Approved, d.Replayed, err)
	}
	// Output:
	// true 9999 <nil>
	// 50 <nil>
	// <nil>
	// <nil>
	// <nil>
	// true <nil>
	// true false <nil>
	// true true <nil>
}
