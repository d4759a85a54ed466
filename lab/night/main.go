// Command night runs the long budgets of the random tests, the harnesses, the fuzz targets and the
// soak in slices, and keeps in a file which slices have ended:
//
//	go -C lab run ./night [-only NAMES] [-for TIME] [-times N] [-table] FILE
//
// An interrupt loses the slice that is running. The next run with the same file goes on after the
// last slice that has ended. A file is for one state of the code: after a change, begin a new one.
//
// The first line of the file fixes the seed of the night, BRIM_SEED or else a new one. A slice has
// the seed of the night plus the position of its part, which is the number of its attempts so far,
// so no two slices of a part make the same attempts.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ok, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "night:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run reports whether no slice has failed.
func run() (ok bool, err error) {
	only := flag.String("only", "", "run the parts whose names begin with one of these `names`, as in lin,crash")
	long := flag.Duration("for", 1000*time.Hour, "begin no slice after this `time`")
	times := flag.Int("times", 1, "multiply all budgets by `n`")
	table := flag.Bool("table", false, "print the table of the file alone")
	flag.Parse()
	if flag.NArg() != 1 || *times < 1 {
		return false, fmt.Errorf("want one FILE and -times of 1 at least; go run ./night -help lists the options")
	}
	all, err := parts()
	if err != nil {
		return false, err
	}
	chosen := func(name string) bool {
		return slices.ContainsFunc(strings.Split(*only, ","), func(begin string) bool { return strings.HasPrefix(name, begin) })
	}
	var list []part
	for _, p := range all {
		if p.want *= *times; chosen(p.name) {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return false, fmt.Errorf("-only %s names no part", *only)
	}
	n, err := open(flag.Arg(0))
	if err != nil {
		return false, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !*table {
		err = n.run(ctx, time.Now().Add(*long), list, test)
	}
	text, ok := n.table(list)
	fmt.Print(text)
	return ok, err
}
