package main

import (
	"bufio"
	"context"
	_ "embed" // for the worker
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/brimgo/brim/internal/table"
)

//go:embed worker.go.txt
var workerSource string

const (
	workers = 3  // processes on the hot bucket
	slots   = 40 // how often each of the two checkouts has its turn
	slice   = "500ms"
)

// hot measures three processes that fill one bucket, with the store of the checkout in before and
// with that of this one, by turns. It prints the median of the fills, and the median of the ratios of
// two turns that follow each other: the machine changes its speed meanwhile.
func hot(ctx context.Context, url, before string, stdout io.Writer) (err error) {
	here, err := filepath.Abs("..")
	if err == nil {
		before, err = filepath.Abs(before)
	}
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "brim-strangers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var crews [2]*crew
	for i, root := range []string{before, here} {
		program, err := buildWorker(ctx, root, dir, i)
		if err != nil {
			return err
		}
		if crews[i], err = hire(ctx, program, url); err != nil {
			return err
		}
		defer crews[i].dismiss()
	}
	var fills [2][]int
	var ratios []float64
	for n := range slots + 1 {
		var now [2]int
		for i, c := range crews {
			if now[i], err = c.work(); err != nil {
				return err
			}
		}
		if n > 0 { // the first turns warm up
			for i := range now {
				fills[i] = append(fills[i], now[i])
			}
			ratios = append(ratios, float64(now[1])/float64(now[0]))
		}
	}
	slices.Sort(ratios)
	t := table.New(table.Left("three processes, one bucket"), table.Right("fills in "+slice), table.Right("of before"))
	for i, name := range []string{"before", "now"} {
		slices.Sort(fills[i])
		ratio := [...]float64{1, ratios[slots/2]}[i]
		t.Add(name, strconv.Itoa(fills[i][slots/2]), fmt.Sprintf("%.3f", ratio))
	}
	_, err = fmt.Fprint(stdout, t.Markdown())
	return err
}

// buildWorker builds the worker in a checkout, which it does not change: the source comes by an
// overlay.
func buildWorker(ctx context.Context, root, dir string, number int) (program string, err error) {
	source := filepath.Join(dir, "worker.go")
	overlay := filepath.Join(dir, fmt.Sprintf("overlay%d.json", number))
	program = filepath.Join(dir, fmt.Sprintf("worker%d", number))
	replace, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(root, "internal", "strangersworker", "main.go"): source},
	})
	if err == nil {
		err = errors.Join(os.WriteFile(source, []byte(workerSource), 0o600), os.WriteFile(overlay, replace, 0o600))
	}
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", root, "-overlay", overlay, "-o", program, "./internal/strangersworker")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the worker in %s: %w\n%s", root, err, out)
	}
	return program, nil
}

// crew are the processes of one checkout.
type crew struct {
	commands []*exec.Cmd
	in       []io.WriteCloser
	out      []*bufio.Scanner
}

func hire(ctx context.Context, program, url string) (*crew, error) {
	c := &crew{}
	for range workers {
		cmd := exec.CommandContext(ctx, program, url)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			c.dismiss()
			return nil, err
		}
		c.commands, c.in, c.out = append(c.commands, cmd), append(c.in, in), append(c.out, bufio.NewScanner(out))
	}
	return c, nil
}

// work has all processes fill for a slice of time, and returns the number of fills.
func (c *crew) work() (fills int, err error) {
	for _, in := range c.in {
		if _, err := io.WriteString(in, slice+"\n"); err != nil {
			return 0, err
		}
	}
	for _, out := range c.out {
		if !out.Scan() {
			return 0, errors.Join(errors.New("a worker has ended"), out.Err())
		}
		n, err := strconv.Atoi(strings.TrimSpace(out.Text()))
		if err != nil {
			return 0, err
		}
		fills += n
	}
	return fills, nil
}

// dismiss ends the processes.
func (c *crew) dismiss() {
	for i, cmd := range c.commands {
		_ = c.in[i].Close() // the worker ends at the end of its input
		_ = cmd.Wait()
	}
}
