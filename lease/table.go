package lease

import (
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/brimgo/brim/store"
)

const (
	shards      = 64
	recentSlots = 1 << 12
)

// table finds the account of a key. A lookup takes no lock: the index of a shard is never changed,
// but replaced by a changed copy.
type table struct {
	seed        maphash.Seed
	maxPerShard int // accounts
	shards      [shards]struct {
		accounts atomic.Pointer[index]
		mu       sync.Mutex // held to replace the index
		// fullUntil is a reading of the monotonic clock. Before it, no account of the shard gives
		// its place to another.
		fullUntil atomic.Int64
		_         [40]byte
	}
	// recent holds the approximate time of the last call on buckets without an account. A bucket
	// that is asked once in a while needs none.
	recent [recentSlots]atomic.Uint64
}

func (t *table) hash(key string) uint64 { return maphash.String(t.seed, key) }

// find returns the account of key, or nil.
func (t *table) find(h uint64, key string) *account {
	return t.shards[h%shards].accounts.Load().find(h, key)
}

// index finds accounts by their keys and the hashes of these, with open addressing: an account
// stands at the place of its hash, or behind it, before the next nil. A map would compute a hash of
// its own. At least half of the places are nil. The index of no accounts may be nil.
type index []*account

func newIndex(accounts []*account) *index {
	x := make(index, 1<<bits.Len(uint(len(accounts)*2)))
	for _, a := range accounts {
		i := x.place(a.hash)
		for x[i] != nil {
			i = x.behind(i)
		}
		x[i] = a
	}
	return &x
}

func (x index) place(h uint64) int { return int(h/shards) & (len(x) - 1) }
func (x index) behind(i int) int   { return (i + 1) & (len(x) - 1) }

func (x *index) find(h uint64, key string) *account {
	if x == nil {
		return nil
	}
	slots := *x
	for i := slots.place(h); slots[i] != nil; i = slots.behind(i) {
		if a := slots[i]; a.hash == h && a.key == key {
			return a
		}
	}
	return nil
}

// from returns all accounts, beginning at the place of a hash.
func (x *index) from(h uint64) (accounts []*account) {
	if x == nil {
		return nil
	}
	slots := *x
	start := slots.place(h)
	for _, part := range []index{slots[start:], slots[:start]} {
		for _, a := range part {
			if a != nil {
				accounts = append(accounts, a)
			}
		}
	}
	return accounts
}

// busy records a call on the bucket at now. It reports whether the previous call was at most
// within nanoseconds earlier. Two buckets may share a slot; a call on one then hides earlier
// calls on the other.
func (t *table) busy(h uint64, now, within int64) bool {
	const unit = 1 << 20 // nanoseconds, about a millisecond
	slot := &t.recent[h>>20%recentSlots]
	mark := h&0xffffff<<40 | uint64(now/unit)&(1<<40-1) // 24 bits of the hash, 40 bits of time
	before := slot.Load()
	if before != mark {
		slot.Store(mark)
	}
	if before>>40 != mark>>40 {
		return false
	}
	elapsed := int64(mark&(1<<40-1)) - int64(before&(1<<40-1))
	return before != 0 && elapsed >= 0 && elapsed <= within/unit
}

// insert adds an account for b, unless there is one already.
//
// In a full shard, an account keeps its place for stay nanoseconds. If every newcomer pushed an
// account out, no account would live long enough to measure its bucket's demand, and no bucket
// would get an allotment. Among the accounts that are older, insert drops those without an
// allotment first. A dropped account loses its allotment and nothing else.
func (t *table) insert(h uint64, b store.Bucket, now instant, stay int64) {
	sh := &t.shards[h%shards]
	if now.mono < sh.fullUntil.Load() {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old := sh.accounts.Load()
	if old.find(h, b.Key) != nil {
		return
	}
	// Which account gives its place depends on the newcomer's hash, so that all take turns.
	accounts := old.from(h)
	if len(accounts) >= t.maxPerShard {
		wait := int64(math.MaxInt64) // nanoseconds until an account may go
		accounts = slices.DeleteFunc(accounts, func(other *account) bool {
			age := now.since(other.opened)
			wait = min(wait, stay-age)
			return age >= stay && other.closeIdle(now)
		})
		if len(accounts) >= t.maxPerShard && wait > 0 {
			sh.fullUntil.Store(now.mono + wait)
			return
		}
	}
	left := len(accounts)
	accounts = slices.DeleteFunc(accounts, func(other *account) bool {
		if full := left >= t.maxPerShard; !full || now.since(other.opened) < stay {
			return false
		}
		left--
		other.close()
		return true
	})
	sh.accounts.Store(newIndex(append(accounts, newAccount(b, h, now))))
}

// drop closes the account a and removes it from the table.
func (t *table) drop(h uint64, a *account) {
	a.close()
	sh := &t.shards[h%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if old := sh.accounts.Load(); old.find(h, a.key) == a {
		others := slices.DeleteFunc(old.from(h), func(other *account) bool { return other == a })
		sh.accounts.Store(newIndex(others))
	}
}

// clear removes all accounts.
func (t *table) clear() {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		sh.accounts.Store(nil)
		sh.mu.Unlock()
	}
}
