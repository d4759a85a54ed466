// Command survives allows five runs in a minute, and remembers them when it ends.
//
//	go run ./examples/survives
//
// Run it six times: the sixth is refused, though each run is a process of its own and no server keeps the count. The bucket
// lives in a file, and what was accepted is on the disk before the answer is given, so that killing the program, or the
// machine, does not make it forget. Look at what the program does not do: nothing is loaded at its start or saved at its end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
)

// exitRefused is EX_TEMPFAIL of sysexits: trying again later may succeed.
const exitRefused = 75

var errRefused = errors.New("refused")

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, errRefused):
		os.Exit(exitRefused)
	case err != nil:
		fmt.Fprintln(os.Stderr, "survives:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("survives", flag.ContinueOnError)
	path := flags.String("store", "survives.db", "`file` that keeps the bucket")
	if err := flags.Parse(args); err != nil {
		return err
	}
	db, err := bolt.Open(*path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	runs := brim.Over(5, time.Minute)
	st, err := brim.New(db, nil).TryFillup(ctx, runs.For("runs"), 1)
	if err != nil {
		return err
	}
	if !st.Accepted {
		fmt.Fprintf(out, "refused: come back in %v\n", st.RetryAfter.Round(time.Second))
		return errRefused
	}
	fmt.Fprintf(out, "accepted: room for %.0f more runs now, and for one more every %v\n", st.Remaining(), time.Minute/5)
	return nil
}
