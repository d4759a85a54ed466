// Command consumer uses brim and bolt, as a program outside of this repository does.
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
	db, err := bolt.Open("limits.db", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	st, err := brim.New(db, nil).TryFillup(context.Background(), brim.Over(5, time.Minute).For("user:42"), 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("accepted:", st.Accepted)
}
