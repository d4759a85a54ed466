package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// Defaults of [Options].
const (
	DefaultPrefix      = "brim:"
	DefaultLanes       = 2
	DefaultBatchSize   = 100
	DefaultCallTimeout = 5 * time.Second
)

// maxBatchSize is the largest BatchSize. Its script runs for some tens of milliseconds.
const maxBatchSize = 4000

// Options adjust a [Store]. The zero value is the default.
type Options struct {
	// Prefix begins the names of all keys; the key of the bucket follows. The default is
	// [DefaultPrefix]. It ends in a colon and has no other one, so that a name tells where its
	// prefix ends: stores with different prefixes share nothing.
	//
	// In a cluster, braces in the prefix or in a bucket's key choose the hash slot: all buckets
	// of a prefix "{limits}:" are on one primary.
	Prefix string
	// EncodeBraces names keys of Redis with %7B in the place of each {, and %25 in that of each %.
	// Then a bucket's key chooses no hash slot. Set it where clients choose parts of keys: else one
	// client can put all of its buckets on one primary. All stores of a prefix need the same
	// EncodeBraces.
	EncodeBraces bool
	// Replicas is the number of replicas that must have received a write before it is
	// acknowledged; 0 waits for none. The store sends WAIT behind its script. If fewer replicas
	// answer in time, the error is [store.ErrUnknownOutcome]. It narrows the loss of a fail-over
	// and does not rule it out: the replica that takes over need not be one that answered.
	Replicas int
	// Synced waits until the primary has synced its append-only file to the disk, by WAITAOF. It
	// needs Redis 7.2, or Valkey, with appendonly on. With appendfsync always it is not needed.
	Synced bool
	// Lanes is the largest number of scripts in flight for one primary, each on a connection of the
	// client; 0 means [DefaultLanes].
	Lanes int
	// BatchSize is the largest number of buckets in one script, unless a transaction alone has
	// more; 0 means [DefaultBatchSize]. A script of that size holds the server for less than a
	// millisecond. All calls for one bucket in a script count as one.
	BatchSize int
	// CallTimeout bounds each round trip to a server; 0 means [DefaultCallTimeout]. A third of it
	// bounds the wait for a connection of the client, and the time for which the store follows a
	// bucket that moves in a cluster. With the client's ContextTimeoutEnabled, that third includes
	// the greeting of a new connection; without, its ReadTimeout bounds the greeting. A shorter
	// ReadTimeout bounds the wait for an answer further.
	//
	// A call ends within twice CallTimeout, however many others wait. A call for many buckets, a
	// listing and a Prune take as long as answers keep coming. A script whose answer does not come
	// in time has an unknown outcome, and the store has the client close its idle connections: when
	// the network fails, they are all dead. So calls succeed again within twice CallTimeout after
	// the network is back, if the client's DialTimeout is no longer than CallTimeout. WAIT and
	// WAITAOF wait for half of the time for which the client waits for an answer. A caller whose
	// own context ends waits no longer.
	CallTimeout time.Duration
	// Clock replaces the clock of the servers, for tests and for replaying logs. It must be safe
	// for concurrent use, and read a year from 1685 to 2254. Buckets of a store with a Clock do
	// not expire by themselves: call Prune. A store with a Clock and one without must not share a
	// prefix.
	Clock func() time.Time
	// MaxSkew is how far ahead of the clock a bucket's time may be. The store does not believe a
	// time beyond that, and sets it to the clock. 0 means [store.DefaultMaxSkew]. In a cluster the
	// clocks of a primary and of the replica that takes over may differ by that much. All stores of
	// a prefix need the same MaxSkew.
	MaxSkew time.Duration
	// AllowEviction accepts a server that evicts keys when its memory is full. A bucket that is
	// evicted forgets its level and its block, so limits may be exceeded.
	AllowEviction bool
	// Logger gets clock skew, retries, and checks that [New] could not make; nil is silent.
	Logger *slog.Logger
	// Trace gets each flush, with the number of callers that shared it, its duration and its error,
	// and each retry.
	Trace store.Trace
}

// withDefaults checks the options and fills in the defaults.
func (o *Options) withDefaults() (Options, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	if c.Lanes < 0 || c.BatchSize < 0 || c.CallTimeout < 0 || c.MaxSkew < 0 || c.Replicas < 0 {
		return c, errors.New("an option is negative; use 0 for its default")
	}
	c.Prefix, c.Lanes = cmp.Or(c.Prefix, DefaultPrefix), cmp.Or(c.Lanes, DefaultLanes)
	c.BatchSize, c.CallTimeout = cmp.Or(c.BatchSize, DefaultBatchSize), cmp.Or(c.CallTimeout, DefaultCallTimeout)
	c.MaxSkew = cmp.Or(c.MaxSkew, store.DefaultMaxSkew)
	if c.BatchSize > maxBatchSize {
		return c, fmt.Errorf("BatchSize is %d; it may be at most %d, since a script holds the server", c.BatchSize, maxBatchSize)
	}
	if c.CallTimeout < time.Millisecond {
		return c, fmt.Errorf("CallTimeout is %v; it must be at least a millisecond", c.CallTimeout)
	}
	if strings.IndexByte(c.Prefix, ':') != len(c.Prefix)-1 {
		return c, fmt.Errorf("Prefix is %q; it must end in a colon and have no other one, as limits: has", c.Prefix)
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}
