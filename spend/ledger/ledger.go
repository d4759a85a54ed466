// Package ledger is the contract between package spend and the places that keep
// spends.
//
// Applications use package spend and one of memledger, boltledger, sqliteledger and pgledger.
// This package is for authors of further ledgers. It defines the interface that a
// ledger implements and the types that the interface uses. It imports the standard
// library only.
//
// A ledger keeps five kinds of data. Accounts are the working sets of package
// spend, opaque bytes under a key. Entries record the events of an account in the
// order of their numbers; a ledger only appends them. Requests hold the answer to
// an ID, and the spend if the request began one. Holds index the reserved money by
// account and expiry. Revisions are the rules of a budget, of which the newest are
// in force; a ledger only appends them. Package spend applies the rules, so all
// ledgers decide alike.
//
// Times are microseconds since the Unix epoch on the ledger's clock. They may be
// negative. No hold expires at 0, and neither Pruned nor Due is 0: where one of them
// may be missing, 0 stands for none. Amounts are minor units of a currency.
package ledger

import (
	"cmp"
	"context"
	"math"
)

// Ledger keeps spends. Any number of goroutines may call its methods at once.
//
// If a context has ended before a call, the method returns the context's error and
// does nothing. After Close, methods return
// [github.com/brimgo/brim/store.ErrClosed]. After any error but
// [github.com/brimgo/brim/store.ErrUnknownOutcome], nothing has been applied.
type Ledger interface {
	// Decide runs one decision as one transaction. The result is as if Decide had
	// locked the job's accounts against other decisions, read the clock, called
	// the job, and durably stored the changes that the job returns. If the job
	// returns an error, Decide returns the error and stores nothing of the job.
	//
	// A ledger may decide several jobs in one transaction, one after the other;
	// each job then sees the changes of the jobs before it. A ledger may call a
	// job again when it repeats a transaction. The job may still run after Decide
	// has returned because ctx ended.
	Decide(ctx context.Context, job *Job) error

	// DecideAll decides each job as Decide does, in their order, and in one
	// transaction if the ledger can. A job whose accounts another transaction holds
	// may be decided later than the others. There is one error for each job.
	DecideAll(ctx context.Context, jobs []*Job) []error

	// View calls the job on one consistent state of the ledger. It locks nothing
	// and drops the changes that the job returns.
	View(ctx context.Context, job *Job) error

	// History returns up to limit entries of an account in descending order of
	// their numbers. It begins with the next entry below before, or with the
	// newest entry if before is zero. Fewer than limit entries mean that no more
	// follow.
	History(ctx context.Context, account string, before Position, limit int) ([]Entry, error)

	// Accounts returns up to limit keys of accounts that start with prefix, and next
	// if more may follow. If due is 0, they are in byte order and greater than after,
	// and next is the last of them. Otherwise they are those with a Due up to due, in
	// any order; prefix ends at the first slash of the keys, and after is empty, or
	// the next of the page before. An account that has lost its working set and has
	// entries or holds is among them; see [StrayFinder].
	Accounts(ctx context.Context, prefix, after string, due int64, limit int) (keys []string, next string, err error)

	// Revisions returns up to limit revisions of the rules of a budget in descending order
	// of their numbers. It begins with the next one below before, or with the newest if
	// before is zero. Fewer than limit mean that no more follow.
	Revisions(ctx context.Context, budget string, before int64, limit int) ([]Rules, error)

	// PruneRequests removes the requests decided before a time whose first account
	// starts with prefix, and returns their number. It keeps a request that began
	// a spend with an open hold. It works in parts, between which others decide.
	PruneRequests(ctx context.Context, prefix string, before int64) (int64, error)

	// Close ends the ledger. Calls in flight end first, or fail with ErrClosed. A
	// ledger may be closed twice.
	Close() error
}

// StrayFinder is implemented by a [Ledger] whose Accounts cannot list an account that has lost its
// working set.
type StrayFinder interface {
	// Strays returns [github.com/brimgo/brim/store.ErrCorrupt] if the ledger has
	// entries or holds that belong to no account.
	Strays(ctx context.Context) error
}

// Job is one decision.
type Job struct {
	// Accounts are the keys that Decide locks, each once. If an account is
	// missing, the ledger creates it when it stores the changes.
	Accounts []string
	// Requests are IDs that the job looks up. A ledger may read them ahead.
	Requests []string
	// SpendID, if not empty, is the ID of a request that the job looks up. Decide
	// locks the accounts of that request, too.
	SpendID string
	// Rules are the budgets of which the job reads the rules.
	Rules []Known
	// Run decides. It must not use the snapshot after it has returned. It must not
	// read variables that it has changed itself, because a repetition would read
	// the changed values.
	Run func(Snapshot) (*Changes, error)
}

// Known is a budget, and the digest of those of its rules that a job has already.
type Known struct {
	Budget string
	Digest []byte // empty for none
}

// Snapshot is the state on which a job decides. One goroutine may use it at a
// time. Its results must not be changed.
type Snapshot interface {
	// Now returns the ledger's clock, read after all accounts were locked.
	Now() int64
	// Locked reports whether the job holds the account.
	Locked(account string) bool
	// Rules returns the newest rules of a budget among the job's Rules, read after all
	// accounts were locked: so rules that a decision has used are known to all later
	// decisions on its accounts. A budget without rules has the Seq 0. Text may be empty if
	// the job knows the digest.
	Rules(budget string) (Rules, error)
	// Account returns a working set. A missing account has no State.
	Account(key string) (Account, error)
	// Request returns the answer to an ID, or nil.
	Request(id string) (*Request, error)
	// Entries returns entries of an account that come after a place and are dated up
	// to upto, in the order of their places, and at most limit of them. They are all
	// entries up to the place through, which is later than after. It may return fewer,
	// or none, although more follow: a ledger need not go on for long over entries
	// that it passes over, such as those made in the range and dated before it. A page
	// may end within a date. If no further entry has the date with which it ends,
	// through is [EndOf] that date. If none is left up to upto, through is EndOf upto,
	// or of a later date up to which there is none.
	Entries(account string, after Place, upto int64, limit int) (entries []Entry, through Place, err error)
	// Since returns the entries of an account after a position, in the order of
	// their numbers, and at most limit of them. Fewer mean that no more follow.
	Since(account string, after Position, limit int) ([]Entry, error)
	// Holds returns the account's open holds with an expiry up to upto and the
	// requests that began them, at most limit of them, in the order of expiry. They begin
	// after a hold, whose Account does not count, or with the first if after is
	// zero. Holds of one expiry are in an order of the ledger's, which begins after
	// the empty ID. Only jobs of View pass another after than zero. next is the
	// earliest expiry of the open holds that follow, or 0.
	Holds(account string, after Hold, upto int64, limit int) (held []Held, next int64, err error)
}

// Changes are the data that a decision stores. Nil changes nothing.
type Changes struct {
	Accounts []Account // to create or replace
	Entries  []Entry   // to append
	Requests []Request // to create; a known ID fails the transaction, which is then repeated
	Spends   []Request // requests whose Spend is replaced; only ID and Spend are set
	Replaced []Request // requests that take the place of those with the same ID
	Opened   []Hold    // to create, of accounts in Accounts
	Closed   []Hold    // to delete, of accounts in Accounts
	Drop     []Drop    // entries to delete
	Rules    []Rules   // to append, each with the Seq after the newest; a known Seq fails the transaction, which is then repeated
	Moved    []Move    // accounts that get another key, after all else is stored
}

// Move gives an account another key, of which the ledger has no account. From then on, the account,
// its entries, holds and requests are those of the new key, as if it had always been theirs, and
// the ledger keeps the old key nowhere. The job has both keys in its Accounts.
type Move struct{ From, To string }

// Account is a working set.
type Account struct {
	Key    string // UTF-8 without NUL, up to 512 bytes
	Pruned int64  // no rule needs the entries up to that time; few decisions change it
	Due    int64  // Accounts finds the account by it; few decisions change it
	Rules  []byte // opaque; most decisions leave it as it is
	State  []byte // opaque
	// Watch announces the entries that the next decision will read, each range
	// once. A ledger may read them ahead.
	Watch []Watch
}

// Watch is a range of dates that moves with the clock: after After, and up to
// the time of the decision less Width microseconds.
type Watch struct{ After, Width int64 }

// Request is the answer to an ID.
type Request struct {
	ID       string
	At       int64    // of the decision
	Accounts []string // present keys of its accounts; PruneRequests compares the first with the prefix
	Content  []byte   // digest of the request
	Answer   []byte   // opaque
	Spend    []byte   // the spend that it began, opaque; nil if it began none
}

// Entry is one line of an account's ledger. It never changes.
type Entry struct {
	Account   string
	Seq       int64  // 1, 2, 3 ... in each account
	At        int64  // of the decision, or of the entry before if that is higher
	Dated     int64  // date at which it counts: At if Part is Seq, and otherwise At or earlier
	Kind      string // see spend.Entry
	RequestID string // of the request that caused it
	SpendID   string // of the request that began the spend
	// SpendAmount is the amount of the request that began the spend, of a credit, or of the request
	// that was declined; it is Least of an UpTo that was declined. Rules may filter by it. It is 0
	// for a request that moves no money.
	SpendAmount int64
	Part        int64 // Seq of the entry that it corrects, or its own; 0 if it has an earlier date and corrects none
	Amount      int64 // of the request: that was approved, and that was asked if it was declined
	Asked       int64 // by an UpTo or Increase of which less was approved; otherwise 0
	Least       int64 // of an UpTo or Increase; 0 if it named none, and -1 for an authorization that no rule has judged
	TTL         int64 // microseconds that an Authorize, UpTo or Extend asked for; 0 for the default
	Currency    string
	Used        int64 // change of the used amount
	Held        int64 // change of the held amount
	Count       int64 // change of the number of spends that count for good
	Expires     int64 // end of the hold whose money the entry moves; 0 if it moves none
	Pending     int64 // change of the number of spends that count until Expires
	Spends      bool  // at Expires, Held and Pending become Used and Count
	Tags        map[string]string
	Refused     []string // names of the rules that declined it, and the reason of a freeze
	Credited    []Credited
}

// Credited is the part of a credit that a rule has counted. It pays for that amount of the oldest
// units that the rule has used.
type Credited struct {
	Rule   string `json:"rule"`   // name of the rule
	Counts uint64 `json:"counts"` // identifies the entries that the rule counts
	Amount int64  `json:"amount"` // positive
}

// Rules are one revision of the rules of a budget. They never change.
type Rules struct {
	Budget   string
	Seq      int64  // 1, 2, 3 ... in each budget; the highest is in force
	Revision int64  // as the author of the rules has numbered them
	At       int64  // when they were stored
	By       string // who has set them; may be empty
	Reason   string // why; may be empty
	Held     bool   // a program does not replace them when it starts
	Digest   []byte // of all other fields
	Text     []byte // UTF-8
}

// Position is a position in an account's ledger, whose entries are in the order of their numbers.
type Position struct{ At, Seq int64 }

// Place is a place among the entries of an account in the order of their dates, and of their
// numbers within one date.
type Place struct{ Dated, Seq int64 }

// EndOf returns the place after all entries of a date.
func EndOf(date int64) Place { return Place{date, math.MaxInt64} }

// Compare returns a number below, at or above 0: p comes before q, is q, or comes after q.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Dated, q.Dated), cmp.Compare(p.Seq, q.Seq))
}

// Place returns the place of an entry.
func (e *Entry) Place() Place { return Place{e.Dated, e.Seq} }

// Hold records that an account still reserves money for a spend. The amount is in the Spend of the
// [Request].
type Hold struct {
	Account string
	Expires int64
	SpendID string // of the request that began the spend
}

// Held is an open hold with the request that began it.
type Held struct {
	Request
	Expires int64 // of the [Hold]
}

// Drop names the entries of an account up to and including At.
type Drop struct {
	Account string
	At      int64
}
