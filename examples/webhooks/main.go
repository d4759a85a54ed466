// Command webhooks sends events to the endpoints of customers, to each no faster than a limit.
//
//	go run ./examples/webhooks -file webhooks.db < events.jsonl
//
// An event is a line of JSON: {"url": "https://example.com/hook", "body": {"paid": 42}}.
//
// Note three things. Events wait for room by Limiter.Wait, in order for each endpoint, and a slow
// endpoint delays no other. An endpoint that answers 429 or 503 with Retry-After is blocked for
// that time: its other events wait, too, also those of a program that is started again, because
// the block is in the file. An event that would wait longer than -patience is not sent and
// reported with the time at which it could be: a program with a queue would put it back.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "webhooks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	flags := flag.NewFlagSet("webhooks", flag.ContinueOnError)
	path := flags.String("file", "webhooks.db", "bbolt `file` of the limits")
	burst := flags.Float64("burst", 10, "events that an endpoint gets at once")
	rate := flags.Float64("rate", 5, "events per second that an endpoint gets after that")
	patience := flags.Duration("patience", time.Minute, "longest wait of an event for room")
	attempts := flags.Int("attempts", 3, "number of times that an event is sent")
	if err := flags.Parse(args); err != nil {
		return err
	}
	db, err := bolt.Open(*path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s := &sender{
		lim: brim.New(db, &brim.Options{MaxWait: *patience}), limit: brim.Limit{Capacity: *burst, LeakRate: *rate},
		client: &http.Client{Timeout: 10 * time.Second}, patience: *patience, attempts: *attempts,
	}
	return s.sendAll(ctx, in, out)
}

// event is a body for an endpoint.
type event struct {
	URL  string          `json:"url"`
	Body json.RawMessage `json:"body"`
}

// sender sends events. Each host has a bucket.
type sender struct {
	lim      *brim.Limiter
	limit    brim.Limit
	client   *http.Client
	patience time.Duration
	attempts int
}

// sendAll sends the events of in, and reports each that could not be sent.
func (s *sender) sendAll(ctx context.Context, in io.Reader, out io.Writer) error {
	var mu sync.Mutex // guards out and sent
	sent := 0
	var all sync.WaitGroup
	lines := bufio.NewScanner(in)
	number := 0
	for lines.Scan() {
		number++
		var e event
		err := json.Unmarshal(lines.Bytes(), &e)
		if err != nil {
			all.Wait()
			return fmt.Errorf("line %d is no event: %w", number, err)
		}
		line := number
		all.Go(func() {
			err := s.send(ctx, e)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fmt.Fprintf(out, "line %d: %v\n", line, err)
				return
			}
			sent++
		})
	}
	all.Wait()
	fmt.Fprintf(out, "%d of %d events were sent\n", sent, number)
	return lines.Err()
}

// send sends an event, up to s.attempts times. Each attempt waits for room in the endpoint's
// bucket.
func (s *sender) send(ctx context.Context, e event) error {
	endpoint, err := url.Parse(e.URL)
	if err != nil || endpoint.Host == "" {
		return errors.New("the event has no valid URL")
	}
	bucket := s.limit.For("endpoint:" + endpoint.Host)
	for attempt := 1; ; attempt++ {
		if err := s.wait(ctx, bucket); err != nil {
			return err
		}
		pause, err := s.post(ctx, e)
		if err == nil || attempt >= s.attempts {
			return err
		}
		if pause > 0 {
			if _, err := s.lim.Block(ctx, bucket.Key, pause); err != nil {
				return err
			}
		}
	}
}

// wait waits for room for one event, at most s.patience.
func (s *sender) wait(ctx context.Context, bucket brim.Bucket) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	_, err := s.lim.Wait(ctx, bucket, 1) // an OverLimitError at once if the room would come too late
	return err
}

// post sends an event once. After a failure it returns the pause that the endpoint asks for.
func (s *sender) post(ctx context.Context, e event) (pause time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(e.Body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode < 300:
		return 0, nil
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusServiceUnavailable:
		if seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); err == nil {
			pause = time.Duration(seconds) * time.Second
		}
	}
	return pause, fmt.Errorf("the endpoint answers %s", resp.Status)
}
