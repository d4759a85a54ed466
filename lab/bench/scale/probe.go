package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/load"
)

// probeEnv is the environment variable that makes this program the process that sends GET. Its
// value is the address of the server.
const probeEnv = "BRIM_SCALE_PROBE"

// probeRate is the number of GETs a second.
const probeRate = 1000

// plainKey is the key that they ask for.
const plainKey = "plain"

// probe is the process that sends GETs.
type probe struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	orders *gob.Encoder // of a time.Duration
	found  *gob.Decoder // of a seen
}

// seen is the number of GETs of a turn, and quantiles of their answer times in milliseconds.
type seen struct {
	Count    int
	P50, P99 float64
}

func startProbe(ctx context.Context, addr string) (*probe, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env, cmd.Stderr = append(os.Environ(), probeEnv+"="+addr), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &probe{cmd, in, gob.NewEncoder(in), gob.NewDecoder(out)}, cmd.Start()
}

// ask has the process send GETs for a time.
func (p *probe) ask(length time.Duration) (s seen, err error) {
	if err := p.orders.Encode(length); err != nil {
		return s, err
	}
	if err := p.found.Decode(&s); err != nil {
		return s, fmt.Errorf("the process that sends GET returned nothing: %w", err)
	}
	return s, nil
}

// close waits for the process, which ends when its input ends.
func (p *probe) close() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// answer is the work of the process that sends GETs.
func answer(ctx context.Context, addr string, in io.Reader, out io.Writer) (err error) {
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: connections, MinIdleConns: connections / 4})
	defer func() { err = errors.Join(err, client.Close()) }()
	orders, found := gob.NewDecoder(in), gob.NewEncoder(out)
	for {
		var length time.Duration
		if err := orders.Decode(&length); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		s, err := get(ctx, client, length)
		if err == nil {
			err = found.Encode(s)
		}
		if err != nil {
			return err
		}
	}
}

// get sends GETs at the rate, each in its own goroutine, whether or not the ones before have been
// answered.
func get(ctx context.Context, client *redis.Client, length time.Duration) (s seen, err error) {
	var took load.Histogram
	var mu sync.Mutex
	var all sync.WaitGroup
	start := time.Now()
	for n := 0; ; n++ {
		due := time.Duration(n) * time.Second / probeRate
		if due >= length {
			break
		}
		time.Sleep(time.Until(start.Add(due)))
		all.Go(func() {
			began := time.Now()
			getErr := client.Get(ctx, plainKey).Err()
			mu.Lock()
			defer mu.Unlock()
			if getErr != nil {
				err = getErr
				return
			}
			s.Count++
			took.Observe(time.Since(began))
		})
	}
	all.Wait()
	s.P50, s.P99 = took.Quantile(0.5), took.Quantile(0.99)
	return s, err
}
