package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
)

// mails are the mails that a process may send.
const mails = 5

// mail sends mails until it is refused, and then stands there until it is killed.
func mail(ctx context.Context, file string, out io.Writer) error {
	db, err := bolt.Open(file, nil)
	if err != nil {
		return err
	}
	lim := brim.New(db, nil)
	hourly := brim.Over(mails, time.Hour).For("user:42")
	for n := 1; ; n++ {
		st, err := lim.TryFillup(ctx, hourly, 1)
		if err != nil {
			return errors.Join(err, db.Close())
		}
		if !st.Accepted {
			if _, err := fmt.Fprintf(out, "mail %d: refused, retry in %v\n", n, st.RetryAfter.Round(time.Second)); err != nil {
				return err
			}
			select {} // it closes nothing
		}
		if _, err := fmt.Fprintf(out, "mail %d: sent\n", n); err != nil {
			return err
		}
	}
}

// remembers kills a process at its limit, and starts another one.
func remembers(ctx context.Context, self, file string) error {
	fmt.Printf("A process may send %d mails at once, and one more every %v. It is killed\n"+
		"with SIGKILL, and started again:\n\n", mails, time.Hour/mails)
	for run, want := range []int{mails + 1, 1} {
		lines, err := killAtRefusal(ctx, self, file)
		if err != nil {
			return err
		}
		if lines != want {
			return fmt.Errorf("run %d wrote %d lines, want %d: the limit was FORGOTTEN", run+1, lines, want)
		}
		fmt.Println("kill -9")
	}
	return nil
}

// killAtRefusal runs a process that sends mails, shows its lines, and kills it at the first
// refusal. It returns the number of the lines.
func killAtRefusal(ctx context.Context, self, file string) (lines int, err error) {
	cmd := exec.CommandContext(ctx, self, "-"+mailFlag, file)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	for scan := bufio.NewScanner(out); scan.Scan(); {
		lines++
		fmt.Println(scan.Text())
		var n int
		if _, err := fmt.Sscanf(scan.Text(), "mail %d: refused", &n); err == nil {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait() // the error is that the process was killed
	if cmd.ProcessState.Exited() {
		return lines, fmt.Errorf("the process that sends mails was not killed: %v", cmd.ProcessState)
	}
	return lines, nil
}
