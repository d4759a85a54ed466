package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/store"
)

// A call ends within twice CallTimeout. It waits in the queue for at most a half; see flush. A
// flush starts round trips for a third. The last of them takes as long as CallTimeout at most, and
// if its answer does not come, a tenth more; see drop.
const (
	queuing  = 2 // divisors of CallTimeout
	starting = 3
	dropping = 10
)

// connecting is the divisor of CallTimeout that bounds the wait for a connection.
const connecting = 3

// trip is the context of one round trip. A client with ContextTimeoutEnabled takes its deadlines
// for the next use of a connection from it, on the goroutine that sends. Before the client has
// written in, the deadline is that for connecting; afterwards it is that for the answer. Other
// clients wait for an answer as long as their ReadTimeout.
type trip struct {
	context.Context // ends when the client must have a connection
	in              *input
	answered        time.Time
}

// Deadline returns the deadline for the next use of a connection.
func (t *trip) Deadline() (time.Time, bool) {
	if t.in.sent {
		return t.answered, true
	}
	return t.Context.Deadline()
}

// trip returns the context of a round trip, which must have a connection before the time started.
func (s *Store) trip(ctx context.Context, in *input, started time.Time) (*trip, context.CancelFunc) {
	now := time.Now()
	connected, answered := now.Add(s.o.CallTimeout/connecting), now.Add(s.o.CallTimeout)
	if started.Before(connected) {
		connected = started
	}
	if end, ok := ctx.Deadline(); ok && end.Before(answered) {
		answered = end
	}
	ctx, cancel := context.WithDeadline(ctx, connected)
	return &trip{ctx, in, answered}, cancel
}

// once is a command that the client sends at most once.
type once struct{ redis.Cmder }

// NoRetry tells the client not to send the command again.
func (once) NoRetry() bool { return true }

// drop has a client close its idle connections, after one gave no answer in time. When a network
// has failed, all of them are dead, and each would take a call with it. A command that cannot be
// written is not sent, and the client then closes the connection that it took for it. The caller
// waits for a tenth of CallTimeout at most, and the next round trip for the rest; see
// [Store.dropped].
func (s *Store) drop(client *redis.Client) {
	done := make(chan struct{})
	if other, under := s.drops.LoadOrStore(client, done); under {
		done = other.(chan struct{})
	} else {
		go s.dropIdle(client, done)
	}
	select {
	case <-done:
	case <-time.After(s.o.CallTimeout / dropping):
	}
}

// dropIdle is drop without its bound. Where another caller takes the last idle connection, the
// client makes a new one.
func (s *Store) dropIdle(client *redis.Client, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.CallTimeout/connecting)
	defer cancel()
	defer close(done)
	defer s.drops.Delete(client)
	process := func(c redis.Cmder) { _ = client.Process(ctx, c) }
	for stats := client.PoolStats(); stats != nil; stats = (*redis.PoolStats)(stats.PipelineStats) {
		for range stats.IdleConns {
			if ctx.Err() == nil {
				process(once{redis.NewCmd(ctx, "ping", unwritable{})})
			}
		}
		process = func(c redis.Cmder) { // by the connections for pipelines, if they are others
			pipe := client.Pipeline()
			_ = pipe.Process(ctx, c)
			_, _ = pipe.Exec(ctx)
		}
	}
}

// dropped waits until a drop of the client's idle connections has ended, or ctx ends.
func (s *Store) dropped(ctx context.Context, client *redis.Client) {
	if done, under := s.drops.Load(client); under {
		select {
		case <-done.(chan struct{}):
		case <-ctx.Done():
		}
	}
}

// unwritable is an argument that a client cannot write.
type unwritable struct{}

// MarshalBinary returns an error.
func (unwritable) MarshalBinary() ([]byte, error) {
	return nil, errors.New(backend + ": an idle connection is closed, since another gave no answer in time")
}

// ask sends a command that writes nothing, as build makes it of two or more words. It sends it
// again if a connection breaks, as those do that were open while the server started anew.
func ask[C redis.Cmder](ctx context.Context, s *Store, c *redis.Client, build func(context.Context, ...any) C, words ...string) C {
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	until := time.Now().Add(s.o.CallTimeout)
	for attempt := 1; ; attempt++ {
		last := &input{bytes: []byte(words[len(words)-1])}
		args[len(args)-1] = last
		t, cancel := s.trip(ctx, last, until)
		cmd := build(t, args...)
		err := c.Process(t, once{cmd})
		cancel()
		var answer redis.Error
		switch {
		case err != nil && !last.sent:
			cmd.SetErr(s.unconnected(err))
		case isTimeout(err):
			if ctx.Err() == nil { // else the caller has gone
				s.drop(c)
			}
		case err != nil && !errors.As(err, &answer) && attempt <= retries && ctx.Err() == nil:
			backoff(attempt)
			continue
		}
		return cmd
	}
}

// unconnected explains the error of a command that was not sent, if there was no connection in
// time.
func (s *Store) unconnected(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		return err
	}
	return fmt.Errorf("%w: no connection in time; see whether the server answers, and the client's PoolSize; "+
		"Options.CallTimeout is %v", store.ErrUnavailable, s.o.CallTimeout)
}

// errLate is the error of a call, or a part of one, that was queued for too long.
var errLate = fmt.Errorf("%w: it was not sent, because the server does not answer what was sent before", store.ErrUnavailable)

// bound checks that a client waits for an answer for a bounded time, and notes that time.
func (s *Store) bound(read, write time.Duration, contexts bool) error {
	s.patience = s.o.CallTimeout
	for _, d := range []time.Duration{read, write} {
		if !contexts && (d <= 0 || d > s.o.CallTimeout) {
			return fmt.Errorf("the client waits for a server that hangs for longer than Options.CallTimeout, %v; set its "+
				"ContextTimeoutEnabled, or a shorter ReadTimeout and WriteTimeout", s.o.CallTimeout)
		}
	}
	if read > 0 {
		s.patience = min(s.patience, read)
	}
	return nil
}
