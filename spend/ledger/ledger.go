// Package ledger is the contract between package spend and the places where spends are kept.
//
// Applications use package spend and one of memledger, boltledger and pgledger. This package is for those who write another:
// it holds the interface that a ledger fulfils and the types that cross it. It imports the standard library only.
//
// A ledger keeps four kinds of things, and understands none of them deeply. Accounts are the working sets of package spend,
// opaque bytes under a key. Entries are what happened, append-only, per account in the order of their numbers. Requests are
// what was answered to an ID, with the spend that the request began, if it began one. Holds are the index of what is still
// reserved, by account and expiry. The rules are package spend's, so all ledgers decide alike.
//
// Times are microseconds since the Unix epoch on the ledger's clock.
package ledger

import "context"

// Ledger keeps spends. All methods may be called by any number of goroutines at once.
//
// Every method answers a context that is already done with the context's error and does nothing, and after Close answers
// [github.com/brimgo/brim/store.ErrClosed]. An error other than that package's ErrUnknownOutcome means that nothing was
// applied.
type Ledger interface {
	// Decide runs one decision as one transaction: it locks the job's accounts against other decisions, reads the clock,
	// calls the job, and stores what it answers, durably, before Decide returns. If the job returns an error, Decide returns
	// it and nothing of that job is stored. A ledger may decide several jobs in one transaction, one after the other, each
	// on what those before it have left; and it may call a job again where the transaction had to be repeated.
	//
	// When Decide returns an error because ctx ended, the job may still be called.
	Decide(ctx context.Context, job *Job) error

	// View calls the job on one consistent state of the ledger, locks nothing, and drops what the job answers.
	View(ctx context.Context, job *Job) error

	// History returns up to limit entries of an account in descending order of their numbers, beginning with the one below
	// before, or with the newest where that is zero. Fewer than limit mean that there are no more.
	History(ctx context.Context, account string, before Position, limit int) ([]Entry, error)

	// Accounts lists up to limit accounts whose keys start with prefix and are greater than after, in byte order. Their
	// State is not needed.
	Accounts(ctx context.Context, prefix, after string, limit int) ([]Account, error)

	// PruneRequests removes the requests dated before a time whose account starts with prefix, except those that began a
	// spend of which something is still held, and reports how many.
	PruneRequests(ctx context.Context, prefix string, before int64) (int64, error)

	// Close ends the ledger. Calls in flight end first, or fail with ErrClosed. Closing twice is allowed.
	Close() error
}

// Job is one decision.
type Job struct {
	// Accounts are the keys that Decide locks, each once. An account that is not there is created when it is stored.
	Accounts []string
	// Requests are IDs that the job looks up. A ledger may read them ahead.
	Requests []string
	// SpendID, if not empty, is a request whose accounts are locked too, and which the job looks up.
	SpendID string
	// Run decides. It must not use the snapshot after it has returned, and must not keep what it has changed in variables
	// that a repetition would read.
	Run func(Snapshot) (*Changes, error)
}

// Snapshot is what a job decides on. It is for one goroutine. What it returns must not be changed.
type Snapshot interface {
	// Now is the ledger's clock, read when all accounts were locked.
	Now() int64
	// Locked reports whether the account is one that the job holds.
	Locked(account string) bool
	// Account returns a working set; one that is not there has no State.
	Account(key string) (Account, error)
	// Request returns what was answered to an ID, or nil.
	Request(id string) (*Request, error)
	// Entries returns an account's entries dated after one time and up to another, in order of their dates, and among equal
	// ones of their numbers. It may end early after limit entries, but never between entries of one date; through is the
	// date up to which all are there.
	Entries(account string, after, upto int64, limit int) (entries []Entry, through int64, err error)
	// Since returns an account's entries after a position, in order of their numbers.
	Since(account string, after Position) ([]Entry, error)
	// Holds returns the requests that began what the account still holds and what expires by upto, in order of expiry, and
	// the earliest expiry after that, or 0.
	Holds(account string, upto int64) (held []Request, next int64, err error)
}

// Changes are what a decision stores. Nil means nothing.
type Changes struct {
	Accounts []Account // to store, new or not
	Entries  []Entry   // to append
	Requests []Request // new ones; an ID that is there already fails the transaction, which is then repeated
	Spends   []Request // requests whose Spend is replaced; only ID and Spend count
	Opened   []Hold    // holds that now count
	Closed   []Hold    // holds that no longer do
	Drop     []Drop    // entries that nobody needs any more
}

// Account is a working set.
type Account struct {
	Key   string // UTF-8 without NUL, up to 512 bytes
	State []byte
	// NextExpiry is no later than the earliest expiry among the account's open holds; 0 where there are none.
	NextExpiry int64
	// Watch says which entries the next decision will ask for: for each element those dated after After and up to the
	// decision's time less Width. A ledger may read them ahead.
	Watch []Watch
}

// Watch is a range of dates that moves with the clock.
type Watch struct{ After, Width int64 }

// Request is what was answered to an ID.
type Request struct {
	ID       string
	At       int64    // when it was decided
	Accounts []string // the accounts that it concerns, the first of which it is pruned by
	Content  []byte   // a digest of what was asked
	Answer   []byte
	Spend    []byte // the spend that it began, nil if it began none
}

// Entry is one line of an account's ledger. It never changes.
type Entry struct {
	Account  string
	Seq      int64  // 1, 2, 3 ... in each account
	At       int64  // when it was decided; never lower than that of the entry before
	Dated    int64  // the date that it counts at: At, or for a correction that of the entry it corrects
	Kind     string // see package spend
	RequestID       string // the request that caused it
	SpendID    string // the request that began the spend
	Part     int64  // the number of the entry that it corrects, or its own
	Amount   int64  // what was asked, in minor units
	Currency string
	Used     int64 // change of what is spent
	Held     int64 // change of what is reserved
	Count    int64 // change of the number of spends
	Tags     map[string]string
	Refused  []string // names of the rules that declined it
}

// Position is a place in an account's ledger.
type Position struct{ At, Seq int64 }

// Hold is what an account still holds of a spend.
type Hold struct {
	Account string
	Expires int64
	SpendID   string // ID of the request that began it
}

// Drop says that an account's entries up to and including At are not needed any more.
type Drop struct {
	Account string
	At      int64
}
