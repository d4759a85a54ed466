package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/brimgo/brim"
)

const (
	leaseProcesses = 2
	leaseCallers   = 64 // in each process
	leaseRequired  = 1e6
)

// leaseRun is one bucket under leases. All callers of all processes ask it for one unit after the
// other.
type leaseRun struct {
	name   string
	limit  brim.Limit
	rate   bool // a rate of decisions is required
	direct bool // without leases, for comparison
}

var leaseRuns = []leaseRun{
	{"leases, a bucket with room", brim.Limit{Capacity: 1e9, LeakRate: 1e8}, true, false},
	{"no leases, a bucket with room", brim.Limit{Capacity: 1e9, LeakRate: 1e8}, false, true},
	// The bucket leaks less than the callers ask for, and more than they get by single fills.
	// Single fills and leases mix here. The bound must hold while both processes press against
	// it.
	{"leases, a small bucket", brim.Limit{Capacity: 1e5, LeakRate: 2e5}, false, false},
	// The store refuses most calls.
	{"leases, a full bucket", brim.Limit{Capacity: 1e5, LeakRate: 2e4}, false, false},
}

// order is the task of a process.
type order struct {
	Key    string
	Limit  brim.Limit
	Direct bool
	Begin  time.Time // on the server's clock; the slots count from here
	For    time.Duration
}

// outcome is the figures of a process.
type outcome struct {
	Admitted  admitted
	Refused   uint64
	Estimates uint64        // admitted or refused units that were decided from a lease
	Elapsed   time.Duration // from Begin to the last answer
	Unsure    time.Duration // uncertainty of the process about the server's clock; it widens each span on both sides
}

// run lets the processes work on a new bucket, and returns the figures.
func (l *leaseRun) run(ctx context.Context, on string, s *server, url string, length time.Duration) (_ []figure, err error) {
	ctx, cancel := context.WithTimeout(ctx, length+time.Minute)
	defer cancel()
	var all []*process
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.close())
		}
	}()
	for range leaseProcesses {
		p, err := startProcess(ctx, url)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	for _, p := range all {
		if err := p.ready(); err != nil {
			return nil, err
		}
	}
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	o := order{Key: "hot: " + l.name, Limit: l.limit, Direct: l.direct, Begin: now.Add(200 * time.Millisecond), For: length}
	for _, p := range all {
		if err := p.orders.Encode(&o); err != nil {
			return nil, err
		}
	}
	together := outcome{Admitted: admitted{}}
	for _, p := range all {
		var one outcome
		if err := p.outcomes.Decode(&one); err != nil {
			return nil, fmt.Errorf("a process returned no outcome: %w", err)
		}
		together.Admitted.add(one.Admitted)
		together.Refused += one.Refused
		together.Estimates += one.Estimates
		together.Elapsed = max(together.Elapsed, one.Elapsed)
		together.Unsure = max(together.Unsure, one.Unsure)
	}
	closest, err := within(together.Admitted, l.limit)
	if err != nil {
		return nil, err
	}
	let := together.Admitted.total()
	calls := let + together.Refused
	rate := float64(calls) / together.Elapsed.Seconds()
	name := fmt.Sprintf("%s, %s (%g, %g/s), %d processes of %d callers: ", on, l.name, l.limit.Capacity,
		l.limit.LeakRate, leaseProcesses, leaseCallers)
	decisions := figure{name: name + "decisions/s", measured: fmt.Sprintf("%.0f", rate)}
	if l.rate {
		decisions.required, decisions.reached = fmt.Sprintf("≥ %.0f", leaseRequired), rate >= leaseRequired
	}
	return []figure{
		decisions,
		{
			name:     "… accepted; decided from leases",
			measured: fmt.Sprintf("%.1f %%; %.1f %%", percent(let, calls), percent(together.Estimates, calls)),
		},
		{
			name:     "… admitted / (capacity + rate × length), in the window that comes closest",
			measured: fmt.Sprintf("%.4f", closest), required: "≤ 1", reached: closest <= 1, bound: true,
		},
		{
			name:     "… admitted / (capacity + rate × length), in the whole run",
			measured: fmt.Sprintf("%.4f", float64(let)/(l.limit.Capacity+l.limit.LeakRate*together.Elapsed.Seconds())),
		},
		{name: "… uncertainty about the server's clock", measured: together.Unsure.Round(time.Microsecond).String()},
	}, nil
}

func percent(part, whole uint64) float64 { return 100 * float64(part) / float64(max(1, whole)) }

// process is another process of this program.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	orders   *gob.Encoder
	outcomes *gob.Decoder
}

func startProcess(ctx context.Context, url string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+url), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, in, gob.NewEncoder(in), gob.NewDecoder(out)}, cmd.Start()
}

// ready waits until the process is connected.
func (p *process) ready() error {
	var ok bool
	if err := p.outcomes.Decode(&ok); err != nil {
		return fmt.Errorf("a process did not become ready: %w", err)
	}
	return nil
}

// close waits for the process. The process ends after its outcome, or when its input ends.
func (p *process) close() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }
