package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/internal/caller"
	"github.com/brimgo/brim/internal/sleep"
)

const (
	// DefaultRetries is the number of retries if ClientOptions.Retries is 0.
	DefaultRetries = httplimit.DefaultRetries
	// DefaultMaxRetryAfter is the longest wait for a retry if ClientOptions.MaxRetryAfter is 0.
	DefaultMaxRetryAfter = httplimit.DefaultMaxRetryAfter
)

// ClientOptions adjust a [Client]. The zero value selects the defaults.
type ClientOptions struct {
	// Cost returns the cost of a call in units of the limit; nil means 1. The message is the
	// request of a unary call, and nil for a stream. It must be safe for concurrent use.
	Cost func(ctx context.Context, method string, message any) float64
	// Retries is the number of times that a unary call is made again after a RetryInfo; 0 means
	// [DefaultRetries], and a negative number means never. A stream is never made again: only the
	// application knows the messages that it has sent.
	Retries int
	// MaxRetryAfter is the longest RetryInfo that the Client waits for; 0 means
	// [DefaultMaxRetryAfter]. A refusal with a longer one is returned to the caller. The random
	// time that the Client adds is at most as long again.
	MaxRetryAfter time.Duration
}

// Client keeps the calls of a gRPC client to the limit of a server, by its interceptors Unary and
// Stream. Before each call it waits for the call's turn in a bucket, so all processes that share
// the bucket keep to the limit together. It is safe for concurrent use.
//
// If the server refuses a unary call by RESOURCE_EXHAUSTED or UNAVAILABLE, with a RetryInfo, the
// Client waits for that time and a random one, and makes the call again. The random time is at most
// a second before the first retry, and its bound doubles with each retry, so that clients that were
// refused together come back apart. Connections and proxies that fail have no RetryInfo: it says
// that the server itself wants the call again.
//
// If the turn would come after the Shaper's MaxWait or the context's deadline, the call fails at
// once with RESOURCE_EXHAUSTED, which wraps a [*brim.OverLimitError], and is not made. If the
// store is out of reach or full, it fails with UNAVAILABLE, and after the store's other errors with
// INTERNAL.
type Client struct {
	shaper *brim.Shaper
	bucket brim.Bucket
	cost   func(ctx context.Context, method string, message any) float64
	retry  caller.Retry
}

// NewClient returns a Client whose calls take turns in b. The bucket should leak a little more
// slowly than the server allows. o may be nil. NewClient fails if s is nil, if b is invalid or
// does not leak, or if MaxRetryAfter is negative.
func NewClient(s *brim.Shaper, b brim.Bucket, o *ClientOptions) (*Client, error) {
	if o == nil {
		o = &ClientOptions{}
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
	case o.MaxRetryAfter < 0:
		return nil, fmt.Errorf("grpclimit: MaxRetryAfter is %v; it must be positive, or 0 for %v",
			o.MaxRetryAfter, DefaultMaxRetryAfter)
	}
	return &Client{
		shaper: s, bucket: b, cost: o.Cost,
		retry: caller.Retry{Most: cmp.Or(o.Retries, DefaultRetries), Longest: cmp.Or(o.MaxRetryAfter, DefaultMaxRetryAfter)},
	}, nil
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
		after, ok := retryAfter(err)
		if !ok {
			return err
		}
		wait, ok := c.retry.Wait(ctx, retry, after)
		if !ok {
			return err
		}
		if err := sleep.For(ctx, wait); err != nil {
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
	if c.cost != nil {
		n = c.cost(ctx, method, message)
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
