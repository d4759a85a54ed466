package history

import (
	"fmt"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// Kind is the kind of an [Op].
type Kind string

// The calls of histories.
const (
	Fill    Kind = "fill"    // Fill of the only Move of the only transaction
	Apply   Kind = "apply"   // Apply of Txns
	Read    Kind = "read"    // Read of Keys, by their limits
	Delete  Kind = "delete"  // Delete of Keys
	Prune   Kind = "prune"   // Prune
	Tick    Kind = "tick"    // the clock moves on by Seconds
	Compact Kind = "compact" // Compact
	Reopen  Kind = "reopen"  // Close and Open
	Sync    Kind = "sync"    // Sync; only a Lazy store has something to do

	Together Kind = "together" // Fills of the only moves of all transactions, by as many callers at once

	// Requests for the spend of the only key. Only a Ledger has them.
	Authorize Kind = "authorize"
	Capture   Kind = "capture"
	Refund    Kind = "refund"
)

// Op is one call of a history.
type Op struct {
	Kind    Kind
	Txns    [][]Move
	Keys    []int
	Seconds int
}

// Move is one operation on one bucket. All numbers are whole, so that every level is exact.
type Move struct {
	Key    int
	Amount float64
	Hold   float64
	Mode   store.Mode
}

func (o Op) String() string {
	var b strings.Builder
	b.WriteString(string(o.Kind))
	for _, txn := range o.Txns {
		for i, m := range txn {
			separator := ", "
			if i > 0 {
				separator = " + "
			}
			fmt.Fprintf(&b, "%skey %d amount %g hold %g %s", separator, m.Key, m.Amount, m.Hold,
				[...]string{"if it fits", "clamped", "always", "asked", "block", "unblock"}[m.Mode])
		}
	}
	if len(o.Keys) > 0 {
		fmt.Fprintf(&b, " keys %v", o.Keys)
	}
	if o.Seconds > 0 {
		fmt.Fprintf(&b, " %d s", o.Seconds)
	}
	return b.String()
}

// Keys is the number of buckets of a history.
const Keys = 60

// key returns the key of a bucket. Keys are of many lengths, so that pages split and merge.
func key(k int) string { return fmt.Sprintf("%02d", k) + strings.Repeat("x", k*97%400) }

// limit returns the limit of a bucket. Every third bucket does not leak.
func limit(k int) store.Limit {
	return store.Limit{Capacity: float64(20 + k), LeakRate: float64(k % 3)}
}

// Bucket returns the bucket that stands for a number in the calls of a history.
type Bucket func(k int) store.Bucket

// bucketOf is the Bucket of the histories of [Random].
func bucketOf(k int) store.Bucket { return limit(k).For(key(k)) }

// buckets returns all buckets, for a Read by the limits last written.
func buckets() []store.Bucket {
	all := make([]store.Bucket, Keys)
	for k := range all {
		all[k].Key = key(k)
	}
	return all
}

// Op returns the move as the store takes it.
func (m Move) Op(b Bucket) store.Op {
	return store.Op{Bucket: b(m.Key), Amount: m.Amount, Hold: m.Hold, Mode: m.Mode}
}

// epoch is the time at which every history begins.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// At returns the time on a history's clock after so many seconds.
func At(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// Lasts reports whether a [Lazy] store makes all durable that it acknowledged before op returns.
func (o Op) Lasts() bool {
	return o.Kind == Sync || o.Kind == Compact || o.Kind == Reopen || o.Kind == Prune
}
