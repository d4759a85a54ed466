package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/table"
)

// callers is the number of callers that fill at once. Each has a bucket of its own, and at most
// one unit that is not acknowledged yet.
const callers = 8

// limit never leaks, so that the demo can count all units at the end.
var limit = brim.Limit{Capacity: 1 << 40}

func keyOf(caller int) string { return fmt.Sprintf("caller-%d", caller) }

// fillUntilKilled puts units into buckets, and writes a line for each acknowledged unit.
func fillUntilKilled(ctx context.Context, file string, acknowledged io.Writer) error {
	db, err := bolt.Open(file, nil)
	if err != nil {
		return err
	}
	lim := brim.New(db, nil)
	failed := make(chan error)
	var mu sync.Mutex
	for caller := range callers {
		go func() {
			for {
				st, err := lim.TryFillup(ctx, limit.For(keyOf(caller)), 1)
				if err == nil && !st.Accepted {
					err = errors.New("a bucket is full")
				}
				if err == nil {
					mu.Lock()
					_, err = fmt.Fprintln(acknowledged, caller)
					mu.Unlock()
				}
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return errors.Join(<-failed, db.Close())
}

// killAndCount starts and kills several processes on one file, and compares the acknowledged
// units with the units in the file.
func killAndCount(ctx context.Context, self, file string, kills int, after time.Duration) error {
	fmt.Printf("\nA process puts units into %d buckets and is killed with SIGKILL after\n%v, %d times:\n\n", callers, after, kills)
	var counts [callers]int64
	for n := range kills {
		before := sum(counts)
		if err := fillAndKill(ctx, self, file, after, &counts); err != nil {
			return err
		}
		fmt.Printf("kill %d: %d units acknowledged\n", n+1, sum(counts)-before)
	}
	return compare(ctx, file, kills, counts)
}

// fillAndKill starts and kills one process, and adds the units that it acknowledged to counts.
func fillAndKill(ctx context.Context, self, file string, after time.Duration, counts *[callers]int64) error {
	cmd := exec.CommandContext(ctx, self, "-"+fillFlag, file)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	var killer *time.Timer
	for lines.Scan() {
		// The time runs from the first acknowledged unit, so that a process which starts slowly
		// acknowledges some.
		if killer == nil {
			killer = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
		var caller int
		if _, err := fmt.Sscanf(lines.Text(), "%d", &caller); err == nil && caller >= 0 && caller < callers {
			counts[caller]++
		}
	}
	_ = cmd.Wait() // the error is that the process was killed
	if killer == nil || cmd.ProcessState.Exited() {
		return fmt.Errorf("the process that fills was not killed: %v", cmd.ProcessState)
	}
	return nil
}

// compare opens the file as the next process would. No acknowledged unit may be missing. Each
// kill may have hit one unit per caller that was already durable and not yet acknowledged. The
// file may contain no other units.
func compare(ctx context.Context, file string, kills int, counts [callers]int64) (err error) {
	db, err := bolt.Open(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	lim := brim.New(db, nil)
	t := table.New(table.Right("BUCKET"), table.Right("ACKNOWLEDGED"), table.Right("IN THE FILE"))
	var missing, tooMany int64
	for caller, acknowledged := range counts {
		st, err := lim.State(ctx, limit.For(keyOf(caller)))
		if err != nil {
			return err
		}
		t.Add(keyOf(caller), fmt.Sprint(acknowledged), fmt.Sprintf("%.0f", st.Level))
		missing += max(0, acknowledged-int64(st.Level))
		tooMany += max(0, int64(st.Level)-acknowledged-int64(kills))
	}
	if _, err := fmt.Print("\n", t.Text()); err != nil {
		return err
	}
	switch total := sum(counts); {
	case total == 0:
		return errors.New("no unit was acknowledged, so the demo proves nothing")
	case missing > 0:
		return fmt.Errorf("%d of %d acknowledged units are MISSING", missing, total)
	case tooMany > 0:
		return fmt.Errorf("the file contains %d units that no process has put there", tooMany)
	default:
		fmt.Printf("\n%d units acknowledged, all in the file after %d kills: none is missing.\n"+
			"A unit beyond these was in flight when its process was killed.\n", total, kills)
	}
	return nil
}

func sum(counts [callers]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}
