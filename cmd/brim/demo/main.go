// Command demo shows in a few seconds that limits and budgets in a bbolt file survive kill -9, and
// that several processes cannot overspend a budget together.
//
// First a process fills a bucket and is killed, and the next one is refused. Then three processes
// spend from one budget. At the end processes that fill buckets are killed, and the units in the
// file are compared with those that were acknowledged. The demo exits with 1 if anything is wrong.
//
// Run it in the root of the module:
//
//	make demo
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/brimgo/brim/internal/duration"
)

// The works of the processes that the demo starts: itself, with a flag for the work and its file.
const (
	fillFlag  = "fill"
	mailFlag  = "mail"
	spendFlag = "spend"
)

var works = map[string]func(ctx context.Context, file string) error{
	fillFlag:  func(ctx context.Context, file string) error { return fillUntilKilled(ctx, file, os.Stdout) },
	mailFlag:  func(ctx context.Context, file string) error { return mail(ctx, file, os.Stdout) },
	spendFlag: func(ctx context.Context, file string) error { return spendAll(ctx, file, os.Stdout) },
}

func main() {
	files := make(map[string]*string)
	for name := range works {
		files[name] = flag.String(name, "", "do the work \""+name+"\" on this file; the demo starts itself with this flag")
	}
	kills := flag.Int("kills", 3, "number of processes to kill")
	after := duration.Value(500 * time.Millisecond)
	flag.Var(&after, "after", "time for which a process fills before it is killed")
	flag.Parse()
	ctx := context.Background()
	for name, work := range works {
		if file := *files[name]; file != "" {
			exit(work(ctx, file))
		}
	}
	exit(demo(ctx, *kills, after.Std()))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func demo(ctx context.Context, kills int, after time.Duration) error {
	dir, err := os.MkdirTemp("", "brim-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := remembers(ctx, self, filepath.Join(dir, "mail.db")); err != nil {
		return err
	}
	if err := cannotOverspend(ctx, self, filepath.Join(dir, "cards.db")); err != nil {
		return err
	}
	return killAndCount(ctx, self, filepath.Join(dir, "limits.db"), kills, after)
}
