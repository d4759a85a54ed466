package combine

import "time"

// DefaultMaxBatch is the largest number of requests in a flush where [Options] do not set one.
const DefaultMaxBatch = 4096

// Options are the choices of [New]. A nil *Options means all defaults.
type Options struct {
	// Lanes is the largest number of flushes in flight; 0 means 1. Requests of one hash are
	// never in two flushes at once.
	Lanes int
	// MinBatch is how many requests must have queued before a lane flushes beside others in
	// flight; 0 means 1. Each flush has a cost beside its requests, so two small flushes cost
	// more than one.
	MinBatch int
	// MaxBatch is the largest number of requests in a flush; 0 means [DefaultMaxBatch]. The
	// other requests go with the next.
	MaxBatch int
	// Grace is how long a caller whose context has ended waits for the flush that has its request,
	// so that few callers must be told that the outcome is unknown; 0 means not at all.
	Grace time.Duration
	// Patience is for how many rounds of the scheduler's queue, of some 100 ns each, a lane waits
	// for the next of the callers that it has answered, if their requests had one hash: no other
	// lane serves them meanwhile. Callers that work for longer between two requests need more;
	// 0 means 16.
	Patience int
	// Before, if set, runs before a lane takes its requests. It may wait for a thing that the
	// flush needs, such as a connection, while callers can still take their requests back. If
	// Before fails, the requests that are queued by then get its error and are not flushed.
	// Before must bound its own time.
	Before func(lane int) error
	// Cut, if set, ends the lane's Before or flush as soon as possible. They then return, with
	// an error if they were not done. With Cut, a caller that finds nothing in flight flushes
	// its own request even if its context can end. Cut never ends a flush that has other
	// callers' requests.
	Cut func(lane int)
	// After, if set, runs when the batch of each successful Before has been flushed, or was
	// found empty.
	After func(lane int)
	// Flushed, if set, runs after the callers of each flush have their answers. It gets the
	// number of requests, the duration, and the error of a flush in which no request succeeded.
	// The lane's next flush waits for it.
	Flushed func(requests int, took time.Duration, err error)
}

// Request is one caller's question and its answer. A flush reads In and sets either Out or Err.
//
// In must not alias memory that the caller changes after [Combiner.Do] returns. A caller whose
// context ends leaves while the flush still reads In.
type Request[Q, A any] struct {
	In   Q
	Hash uint64 // that [Combiner.Do] got
	Out  A
	Err  error

	postponed  bool
	slot       uint32 // of the hash
	state      state  // guarded by the combiner's mutex
	next, prev *Request[Q, A]
	done       chan struct{} // gets one token when the answer is set
}

// Postpone leaves the request for the next flush, ahead of requests that have queued since. A
// flush may postpone some of its requests but not all. A batch that is postponed as a whole
// fails, because it would be flushed for ever.
func (r *Request[Q, A]) Postpone() { r.postponed = true }

type state uint8

const (
	queued    state = iota // the caller can take it back
	inFlight               // a flush has it
	answered               // Out or Err is set, and the token is sent or about to be
	abandoned              // the caller has left; only the flush still refers to it
)
