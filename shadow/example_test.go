package shadow_test

import (
	"context"
	"fmt"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/shadow"
	"github.com/brimgo/brim/store"
)

// tryLimit returns a store over db that refuses nothing, and counts the calls that it would refuse.
// A program would pass the hooks of prombrim.New, or observe.Log.
func tryLimit(db store.Store, count *int) (store.Store, error) {
	hooks := observe.Hooks{Decision: func(_ context.Context, d observe.Decision) {
		if d.Shadowed() {
			*count++
		}
	}}
	shadowed, err := shadow.New(db)
	if err != nil {
		return nil, err
	}
	return observe.New(shadowed, hooks, nil)
}

// A limit is tried in production before it is enforced.
func Example() {
	db, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	refused := 0
	s, err := tryLimit(db, &refused)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close() // closes db, too
	lim := brim.New(s, &brim.Options{Prefix: "tried:"})

	inserts := brim.Limit{Capacity: 1000, LeakRate: 0.001}
	for _, rows := range []float64{600, 300, 250, 50, 2000} {
		st, err := lim.TryFillup(context.Background(), inserts.For("tenant:42"), rows)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rows, "rows pass:", st.Accepted)
	}
	fmt.Println("the limit would have refused", refused)
	// Output:
	// 600 rows pass: true
	// 300 rows pass: true
	// 250 rows pass: true
	// 50 rows pass: true
	// 2000 rows pass: true
	// the limit would have refused 2
}
