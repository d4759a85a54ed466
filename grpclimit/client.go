package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/brimgo/brim"
)

const (
	// DefaultRetries is the number of retries if ClientOptions.Retries is 0.
	DefaultRetries = 2
	// DefaultMaxRetryAfter is the longest wait for a retry if ClientOptions.MaxRetryAfter is 0.
	DefaultMaxRetryAfter = time.Minute
)

// ClientOptions adjust a [Client]. The zero value selects the defaults.
type ClientOptions struct {
	// Cost returns the cost of a call in units of the limit; nil means 1. The message is the
	// request of a unary call, and nil for a stream. It must be safe for concurrent use.
	Cost func(ctx context.Context, method string, message any) float64
	// Retries is the number of times that a unary call is made again after a RESOURCE_EXHAUSTED
	// with a RetryInfo; 0 means [DefaultRetries], and a negative number means never. A stream is
	// never made again: only the application knows the messages that it has sent.
	Retries int
	// MaxRetryAfter is the longest wait for a retry; 0 means [DefaultMaxRetryAfter]. A refusal
	// with a longer wait is returned to the caller.
	MaxRetryAfter time.Duration
}

// Client keeps the calls of a gRPC client to the limit of a server, by its interceptors Unary and
// Stream. Before each call it waits for the call's turn in a bucket, so all processes that share
// the bucket keep to the limit together. It is safe for concurrent use.
//
// If the turn would come after the Shaper's MaxWait or the context's deadline, the call fails at
// once with RESOURCE_EXHAUSTED, which wraps a [*brim.OverLimitError], and is not made. If the
// store fails, it fails with UNAVAILABLE.
type Client struct {
	shaper  *brim.Shaper
	bucket  brim.Bucket
	options ClientOptions
}

// NewClient returns a Client whose calls take turns in b. The bucket should leak a little more
// slowly than the server allows. o may be nil. NewClient fails if s is nil, if b is invalid or
// does not leak, or if MaxRetryAfter is negative.
func NewClient(s *brim.Shaper, b brim.Bucket, o *ClientOptions) (*Client, error) {
	c := &Client{shaper: s, bucket: b}
	if o != nil {
		c.options = *o
	}
	if err := b.Validate(); err != nil {
		return nil, err
	}
	switch {
	case s == nil:
		return nil, errors.New("grpclimit: the Shaper is nil; make one with brim.NewShaper")
	case b.LeakRate == 0:
		return nil, fmt.Errorf("grpclimit: %w: leak rate is 0, so no second turn would come; use a positive one",
			brim.ErrInvalidLimit)
	case c.options.MaxRetryAfter < 0:
		return nil, fmt.Errorf("grpclimit: MaxRetryAfter is %v; it must be positive, or 0 for %v",
			c.options.MaxRetryAfter, DefaultMaxRetryAfter)
	}
	if c.options.Retries == 0 {
		c.options.Retries = DefaultRetries
	}
	if c.options.MaxRetryAfter == 0 {
		c.options.MaxRetryAfter = DefaultMaxRetryAfter
	}
	return c, nil
}

// Unary is a [grpc.UnaryClientInterceptor].
func (c *Client) Unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	for retry := 0; ; retry++ {
		if err := c.wait(ctx, method, request); err != nil {
			return err
		}
		err := invoke(ctx, method, request, reply, conn, o...)
		wait, ok := retryAfter(err)
		if !ok || retry >= c.options.Retries || !c.worthwhile(ctx, wait) {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return ended(err)
		}
	}
}

// Stream is a [grpc.StreamClientInterceptor].
func (c *Client) Stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, begin grpc.Streamer, o ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if err := c.wait(ctx, method, nil); err != nil {
		return nil, err
	}
	return begin(ctx, desc, conn, method, o...)
}

// wait waits for the turn of a call.
func (c *Client) wait(ctx context.Context, method string, message any) error {
	n := 1.0
	if c.options.Cost != nil {
		n = c.options.Cost(ctx, method, message)
	}
	_, err := c.shaper.Wait(ctx, c.bucket, n)
	var over *brim.OverLimitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &over):
		return Refusal(over.State)
	case ctx.Err() != nil:
		return ended(ctx.Err())
	}
	// A store, too, has deadlines of its own, and its error tells of them.
	if _, limited := ctx.Deadline(); limited && errors.Is(err, context.DeadlineExceeded) {
		return ended(context.DeadlineExceeded) // the turn would be after the deadline
	}
	return undecided(err)
}

// worthwhile reports whether the Client should wait that long: within MaxRetryAfter and the
// context's deadline.
func (c *Client) worthwhile(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return wait <= c.options.MaxRetryAfter && (!ok || wait < time.Until(deadline))
}

// sleep waits for d or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
