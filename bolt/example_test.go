package bolt_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
)

// A limit in a file outlives the program.
func Example() {
	dir, err := os.MkdirTemp("", "brim")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	perCard := brim.Over(100, time.Hour)
	for run := range 2 {
		db, err := bolt.Open(filepath.Join(dir, "limits.db"), &bolt.Options{
			PruneEvery: time.Hour, // the file has room again for new keys
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		st, err := brim.New(db, nil).TryFillup(context.Background(), perCard.For("card:7"), 60)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("run %d, accepted: %v\n", run+1, st.Accepted)
		if err := db.Close(); err != nil { // ends the pruning
			fmt.Println(err)
			return
		}
	}
	// Output:
	// run 1, accepted: true
	// run 2, accepted: false
}
