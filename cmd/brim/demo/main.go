// Command demo shows in a few seconds what brim does and that it survives.
//
// It replays a day of a real web server's log through a bbolt file. Then it starts a process that fills buckets and says what
// was acknowledged, kills it with SIGKILL in the middle of that, and looks into the file: everything that was acknowledged
// must be there. It exits with 1 if anything is missing.
//
// Run it from the module's root:
//
//	go run ./cmd/brim/demo
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/brimgo/brim/internal/duration"
)

func main() {
	fill := flag.String("fill", "", "fill buckets in this file until killed: what the demo starts itself with")
	kills := flag.Int("kills", 3, "how many times to kill a process that fills")
	after := duration.Value(500 * time.Millisecond)
	flag.Var(&after, "after", "how long it may fill before it is killed")
	log := flag.String("log", "cmd/brim/testdata/nasa-1995-08-01.log.gz", "log to replay")
	flag.Parse()
	ctx := context.Background()
	var err error
	if *fill != "" {
		err = fillUntilKilled(ctx, *fill, os.Stdout)
	} else {
		err = demo(ctx, *log, *kills, after.Std())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, log string, kills int, after time.Duration) error {
	dir, err := os.MkdirTemp("", "brim-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := replay(ctx, log, filepath.Join(dir, "replay.db")); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return killAndCount(ctx, self, filepath.Join(dir, "limits.db"), kills, after)
}

// replay runs the log through the command line, every decision through the file.
func replay(ctx context.Context, log, file string) error {
	args := []string{"run", "./cmd/brim", "replay", log, "--capacity", "5", "--leak-rate", "0.1", "--top", "3", "--store", file}
	fmt.Printf("A day of a web server, 5 requests per host and one more every 10 seconds:\n\n$ brim replay %s --capacity 5 --leak-rate 0.1 --top 3 --store %s\n",
		filepath.Base(log), filepath.Base(file))
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("replay: %w; run the demo from the root of the module", err)
	}
	return nil
}
