// Command quickstart is the program that the README shows. It sends at most five e-mails at once
// and one more every 12 seconds, and it keeps that limit in the file limits.db.
//
//	go run ./examples/quickstart
//
// Each run asks for three e-mails, so the second run is refused its third: the limit survived the
// end of the first process. A kill -9 in the middle changes nothing, because a fill is on the
// disk before TryFillup returns.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
)

func main() {
	db, err := bolt.Open("limits.db", nil) // one file; for several processes: postgres.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	limiter := brim.New(db, nil)

	emails := brim.Over(5, time.Minute) // five at once, then one more every 12 seconds
	for range 3 {
		st, err := limiter.TryFillup(context.Background(), emails.For("user:42"), 1)
		switch {
		case err != nil: // the store failed and nothing was decided
			log.Fatal(err)
		case st.Accepted:
			fmt.Printf("sent; room for %.0f more\n", st.Remaining())
		case st.RetryAfter >= brim.Never: // more than the bucket holds: a retry would never fit
			fmt.Println("refused")
		default: // a refusal is not an error
			fmt.Printf("refused; retry in %v\n", st.RetryAfter.Round(time.Second))
		}
	}
}
