// Package llmlimit keeps the calls of language models within budgets of money, and never lets them
// go over.
//
// A [Transport] is an [http.RoundTripper]. Before a call it holds the most that the call can cost
// in every account concerned, in one decision of package spend, and afterwards it charges the bill
// of the provider's answer. It understands the requests and answers of Chat Completions, Responses,
// Anthropic Messages and Gemini, whole or streamed. A program gives it to the SDK of a provider:
//
//	calls := llmlimit.New(budgets, models, nil)
//	client := openai.NewClient(option.WithHTTPClient(calls.Client()))
//	ctx = llmlimit.For(ctx, "key:7", spend.Account{Budget: "teams", Name: "red"})
//
// A gateway gives it to an [net/http/httputil.ReverseProxy] as its Transport, with
// [Options.Drain].
//
// # The charge
//
// A call is charged exactly if the answer tells its usage and its end. In all other cases it is
// charged at least as much as the provider can bill:
//
//   - If the input is known, and the end has not come, the call costs its input and the most
//     output, but not more than was held.
//   - If nothing is known, or the answer bills something beside tokens, the call costs all that was
//     held: a stream that nobody asked for its usage, an answer that was cut off, a status of 408
//     or 499, a server error that the provider has not written.
//   - If the process dies, the hold expires, and the call costs all that was held.
//
// A call costs nothing if the provider refuses it in its own words, or if nothing was sent. Each
// attempt is a call of its own: SDKs repeat calls that may have been billed, and each attempt is
// billed. If the provider bills more than was held, that is charged, too.
//
// # The hold
//
// The most that a call can cost is the sum of the most input and the most output, at the dearest
// price of the model. A token of text has at least a byte. Requests are refused if nobody can tell
// their highest cost: a model without prices, tools that the provider runs, a background answer,
// and every path that is no call of the four dialects, such as batches and realtime sessions. A
// field that this package does not know is taken to cost nothing beside tokens: refuse it before
// the Transport if the provider bills it.
//
// # Refusals
//
// A refusal is an answer in the dialect of the request, and no error: 429 with the time at which
// the call would fit, 400 if it never will, or if it has no highest cost, 403 without an account,
// 413 above 64 MiB, 503 if the ledger is out of reach, and 500 if the prices, the budget or the
// store are wrong. The provider has then not been called. After a 503 whose cause is an unknown
// outcome, the Transport cancels the hold; if the ledger stays away, the hold is spent when it
// expires.
//
// # The limits of a provider
//
// With [Options.Limiter], an answer of 429 with Retry-After blocks a bucket, and no process that
// shares the bucket calls the provider until then. The headers that tell the remaining units of a
// provider's limit are not read: two processes that fill a bucket up to the told level would add
// the difference twice, and the headers of a whole answer are older than the answer.
package llmlimit

import (
	"context"
	"net/http"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/spend"
)

// Options adjust a [Transport]. The zero value selects the defaults.
type Options struct {
	// Base sends the requests; nil means [http.DefaultTransport]. If it compresses, it must also
	// decompress, as [http.Transport] does: an answer that stays compressed is charged at the most.
	Base http.RoundTripper
	// TTL is the time after which the hold of a killed process is spent; 0 means 30 seconds. While
	// the process lives, holds last as long as their calls.
	TTL time.Duration
	// Drain reads the answers of callers who have left to their end, because the provider bills
	// them and the end tells the bill. Close of such a body waits for that, for ten minutes at
	// most. Use it in gateways. Programs usually want the call to stop, and its charge to be at
	// most the output that they asked for.
	Drain bool
	// Unknown lets requests pass, without a charge, that are no calls of a known dialect, such as
	// batches, uploads and realtime sessions. Otherwise they are refused with 400. Requests that
	// are free of charge always pass.
	Unknown bool
	// Limiter and Bucket hold calls back that the provider would refuse. Each call puts 1 into the
	// bucket of its model, or is refused with 429, or 400 if no wait helps. A 429 of the provider
	// that tells a time blocks the bucket for that time. Take a bucket for each limit of the
	// provider, with a capacity and a leak rate far above it to do no more than keep to its blocks;
	// [brim.Unlimited] knows none. A nil Bucket means that nothing is held back.
	Limiter *brim.Limiter
	Bucket  func(model string) brim.Bucket
	// Done gets each call after it was charged, and before its caller sees the end of the answer,
	// unless the ledger takes more than five seconds for the charge.
	// It must be safe for concurrent use.
	Done func(Call)
}

// Call is the outcome of a call that was held.
type Call struct {
	ID      string // of the hold in the ledger
	Model   string // as the request names it
	Usage   Usage  // as the answer tells it; zero if it tells none
	Held    spend.Money
	Charged spend.Money
	// Known reports that Charged is exactly the provider's bill by its own figures and the prices
	// of the model. Otherwise Charged stands at or above it.
	Known bool
	// Err is the error of the ledger, which may not have taken the charge: the hold is then spent
	// at its expiry. Or it is the error of the Limiter, which may not have blocked the bucket.
	Err error
}

type accountsKey struct{}

// accounts are charged together.
type accounts struct {
	name string
	also []spend.Account
}

// For returns a context whose calls are charged to an account of the main budget, and to accounts
// of further budgets: to all of them, or not sent. A call without an account is refused with 403.
func For(ctx context.Context, account string, also ...spend.Account) context.Context {
	return context.WithValue(ctx, accountsKey{}, accounts{account, also})
}

// Transport is an [http.RoundTripper] that holds the most that a call of a language model can cost,
// and charges its cost. It is safe for concurrent use.
//
// The body of an answer must be read to its end, or closed, as always. The Transport charges the
// call before the caller sees the end, an error or the return of Close, so that the next call finds
// the charge; it waits for the ledger for 5 seconds at most, and goes on charging in the
// background.
//
// It sends a request as it came, with two exceptions. It removes Accept-Encoding, so that
// [http.Transport] compresses by itself. And it asks a stream of Chat Completions for its usage; if
// the caller has not, the caller does not see the event that tells it.
type Transport struct {
	budgets *spend.Budgets
	models  func(name string) (Model, bool)
	o       Options
}

// New returns a Transport whose calls are charged to accounts of b; see [For]. models returns the
// prices and bounds of a model, or false for a model that may not be called. It must be safe for
// concurrent use. o may be nil.
func New(b *spend.Budgets, models func(name string) (Model, bool), o *Options) *Transport {
	t := &Transport{budgets: b, models: models}
	if o != nil {
		t.o = *o
	}
	if t.o.Base == nil {
		t.o.Base = http.DefaultTransport
	}
	return t
}

// Client returns a client that sends its requests through the Transport.
func (t *Transport) Client() *http.Client { return &http.Client{Transport: t} }
