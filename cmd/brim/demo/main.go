// Command demo shows in a few seconds how brim decides, and that its buckets survive a crash.
//
// It replays a day of a real web server's log through a bbolt file. Then it starts a process that
// fills buckets and prints each acknowledged unit, kills the process with SIGKILL, and reads the
// file. The file must contain every acknowledged unit. The demo exits with 1 if any is missing.
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
	"os/exec"
	"path/filepath"
	"time"

	"github.com/brimgo/brim/internal/duration"
)

func main() {
	fill := flag.String("fill", "", "fill buckets in this file until killed; the demo starts itself with this flag")
	kills := flag.Int("kills", 3, "number of processes to kill")
	after := duration.Value(500 * time.Millisecond)
	flag.Var(&after, "after", "time for which a process fills before it is killed")
	log := flag.String("log", "testdata/nasa-1995-08-01.log.gz", "log to replay")
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

// replay runs the log through the command brim. Every decision goes through the file.
func replay(ctx context.Context, log, file string) error {
	args := []string{"run", ".", "replay", log, "--capacity", "5", "--leak-rate", "0.1", "--top", "3", "--store", file}
	fmt.Println("A day of a web server, 5 requests per host and one more every 10 seconds:")
	fmt.Printf("\n$ brim replay %s --capacity 5 --leak-rate 0.1 --top 3 --store %s\n", filepath.Base(log), filepath.Base(file))
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("replay: %w; run the demo in the root of the module", err)
	}
	return nil
}
