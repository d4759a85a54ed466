package sqliteledger

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"

	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/internal/sqliterun"
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// rows are the rows that the jobs of one transaction read: the [book.Reader] of its batch.
type rows struct {
	q        *sqliterun.Queries
	accounts map[string]*account        // that were read; also those without a row
	requests map[string]*ledger.Request // likewise; nil for an ID without an answer
	known    map[string][]byte          // by budget, the digest of the rules that all jobs know, or nil
	last     int64                      // the largest id of an account; 0 until one is new
	failed   error                      // of a statement; nothing is stored after it
	changed  bool                       // something was written
}

// account is the row of an account.
type account struct {
	ledger.Account
	id    int64 // 0 without a row
	fresh bool  // it has an id and no row yet
}

func newRows(q *sqliterun.Queries) *rows {
	return &rows{
		q: q, accounts: make(map[string]*account), requests: make(map[string]*ledger.Request), known: make(map[string][]byte),
	}
}

// decide decides jobs, and stores their changes. own are the errors of jobs that fail alone. The
// jobs after one that has moved an account are decided on rows that are read anew.
func (r *rows) decide(jobs []*ledger.Job, c *clock.Clock) (own []error, err error) {
	for len(own) < len(jobs) {
		if err := r.read(jobs[len(own):]); err != nil {
			return nil, err
		}
		batch := book.NewBatch(r, c.Now())
		for len(own) < len(jobs) && !batch.Moves() {
			own = append(own, batch.Run(jobs[len(own)]))
			if r.failed != nil {
				return nil, r.failed
			}
		}
		if err := r.store(batch.Changes()); err != nil {
			return nil, err
		}
		next := newRows(r.q)
		next.changed = r.changed
		*r = *next
	}
	return own, nil
}

// view runs a job and drops its changes.
func (r *rows) view(job *ledger.Job, c *clock.Clock) (own, err error) {
	if err := r.read([]*ledger.Job{job}); err != nil {
		return nil, err
	}
	_, own = job.Run(book.NewBatch(r, c.Now()))
	return own, r.failed
}

// read reads the accounts and the answers that the jobs will need, each kind by one statement.
func (r *rows) read(jobs []*ledger.Job) error {
	var keys, ids []string
	for _, job := range jobs {
		for _, key := range job.Accounts {
			if r.accounts[key] == nil {
				r.accounts[key] = &account{Account: ledger.Account{Key: key}}
				keys = append(keys, key)
			}
		}
		for _, k := range job.Rules {
			if had, asked := r.known[k.Budget]; asked && !bytes.Equal(had, k.Digest) {
				k.Digest = nil
			}
			r.known[k.Budget] = k.Digest
		}
	}
	if err := r.readAccounts(keys); err != nil {
		return err
	}
	want := func(id string) {
		if _, asked := r.requests[id]; !asked && id != "" {
			r.requests[id] = nil
			ids = append(ids, id)
		}
	}
	for _, job := range jobs {
		for _, id := range job.Requests {
			want(id)
		}
		want(job.SpendID)
	}
	for _, key := range keys { // a job looks whether an account has moved that is missing
		if r.accounts[key].id == 0 {
			want(book.FormerID(key))
		}
	}
	return r.readRequests(ids)
}

func (r *rows) readAccounts(keys []string) error {
	return r.q.EachOf("accounts", keys, func(found *sql.Rows) error {
		a := new(account)
		err := found.Scan(&a.id, &a.Key, &a.Pruned, &a.Due, &a.Rules, &a.State)
		r.accounts[a.Key] = a
		return err
	})
}

func (r *rows) readRequests(ids []string) error {
	also := make(map[*ledger.Request]string) // another statement may have to wait for the end of this one
	err := r.q.EachOf("requests", ids, func(found *sql.Rows) error {
		request := new(ledger.Request)
		var first, more sql.NullString
		err := found.Scan(&request.ID, &request.At, &first, &more, &request.Content, &request.Answer, &request.Spend)
		if err == nil && !first.Valid {
			err = sqliterun.Damagef("the account of a request has lost its row")
		}
		request.Accounts = []string{first.String}
		if r.requests[request.ID] = request; more.Valid {
			also[request] = more.String
		}
		return err
	})
	for request, list := range also {
		var further []int64
		if err == nil {
			err = decode(list, &further)
		}
		for _, id := range further {
			if err == nil {
				err = r.q.Each("name", []any{id}, func(found *sql.Rows) (bool, error) {
					var key string
					err := found.Scan(&key)
					request.Accounts = append(request.Accounts, key)
					return true, err
				})
			}
		}
	}
	return err
}

// decode reads JSON that only this package writes.
func decode(text string, to any) error {
	if err := json.Unmarshal([]byte(text), to); err != nil {
		return sqliterun.Damagef("a row of the ledger has a list that is not JSON: %v", err)
	}
	return nil
}

// fails notes the error of a statement: nothing is stored, even if the job ignores the error.
func (r *rows) fails(err error) error {
	if r.failed == nil {
		r.failed = err
	}
	return err
}

// Locked reports that nobody else changes an account.
func (r *rows) Locked(string) bool { return true }

// account returns the row of an account.
func (r *rows) account(key string) (*account, error) {
	a := r.accounts[key]
	if a == nil {
		r.accounts[key] = &account{Account: ledger.Account{Key: key}}
		if err := r.readAccounts([]string{key}); err != nil {
			return nil, r.fails(err)
		}
		a = r.accounts[key]
	}
	return a, nil
}

// Account returns a working set. A missing account has no State.
func (r *rows) Account(key string) (ledger.Account, error) {
	a, err := r.account(key)
	if err != nil {
		return ledger.Account{}, err
	}
	return a.Account, nil
}

// Request returns the answer to an ID, or nil.
func (r *rows) Request(id string) (*ledger.Request, error) {
	request, asked := r.requests[id]
	if !asked {
		if err := r.readRequests([]string{id}); err != nil {
			return nil, r.fails(err)
		}
		request = r.requests[id]
	}
	return request, nil
}

// Rules returns the newest rules of a budget.
func (r *rows) Rules(budget string) (newest ledger.Rules, err error) {
	list, err := r.revisions(budget, math.MaxInt64, 1, r.known[budget])
	if len(list) > 0 {
		newest = list[0]
	}
	return newest, err
}

// revisions lists the rules of a budget in descending order of their numbers, beginning below
// before. They come without their text if their digest is known.
func (r *rows) revisions(budget string, before int64, limit int, known []byte) (list []ledger.Rules, err error) {
	err = r.q.Each("rules", []any{budget, before, limit, known}, func(found *sql.Rows) (bool, error) {
		rules := ledger.Rules{Budget: budget}
		err := found.Scan(&rules.Seq, &rules.Revision, &rules.At, &rules.Held, &rules.By, &rules.Reason, &rules.Digest, &rules.Text)
		list = append(list, rules)
		return true, err
	})
	if err != nil {
		return nil, r.fails(err)
	}
	return list, nil
}

// entries calls fn with the entries of a statement.
func (r *rows) entries(name, account string, args []any, fn func(e ledger.Entry)) error {
	err := r.q.Each(name, args, func(found *sql.Rows) (bool, error) {
		e := ledger.Entry{Account: account}
		var tags, refused, credited sql.NullString
		err := found.Scan(&e.At, &e.Seq, &e.Dated, &e.Part, &e.Kind, &e.RequestID, &e.SpendID, &e.Currency, &e.Amount, &e.SpendAmount,
			&e.Asked, &e.Least, &e.TTL, &e.Used, &e.Held, &e.Count, &e.Expires, &e.Pending, &e.Spends, &tags, &refused, &credited)
		for _, list := range [...]struct {
			sql.NullString
			to any
		}{{tags, &e.Tags}, {refused, &e.Refused}, {credited, &e.Credited}} {
			if err == nil && list.Valid {
				err = decode(list.String, list.to)
			}
		}
		fn(e)
		return true, err
	})
	if err != nil {
		return r.fails(err)
	}
	return nil
}

// Entries lists entries by date.
func (r *rows) Entries(
	account string, after ledger.Place, upto int64, limit int,
) (list []ledger.Entry, through ledger.Place, err error) {
	a, err := r.account(account)
	if err != nil {
		return nil, through, err
	}
	most := min(limit, math.MaxInt32) + 1
	page := book.NewListing(upto, most)
	args := []any{a.id, after.Dated, after.Seq, upto, most}
	err = r.entries("entries", account, args, func(e ledger.Entry) { page.Add(e, false) })
	if err == nil {
		err = r.entries("corrections", account, args, func(e ledger.Entry) { page.Add(e, true) })
	}
	if err != nil {
		return nil, through, err
	}
	list, through = page.Page()
	return list, through, nil
}

// Since lists entries by number.
func (r *rows) Since(account string, after ledger.Position, limit int) (list []ledger.Entry, err error) {
	a, err := r.account(account)
	if err != nil {
		return nil, err
	}
	err = r.entries("since", account, []any{a.id, after.At, after.Seq, limit}, func(e ledger.Entry) { list = append(list, e) })
	return list, err
}

// Open lists open holds.
func (r *rows) Open(
	account string, after ledger.Hold, upto int64, limit int,
) (open []ledger.Hold, next int64, err error) {
	a, err := r.account(account)
	if err != nil {
		return nil, 0, err
	}
	if after.Expires == 0 {
		after.Expires = math.MinInt64
	}
	args := []any{a.id, after.Expires, after.SpendID, min(limit, math.MaxInt32) + 1}
	err = r.q.Each("open", args, func(found *sql.Rows) (bool, error) {
		h := ledger.Hold{Account: account}
		if err := found.Scan(&h.Expires, &h.SpendID); err != nil {
			return false, err
		}
		if h.Expires > upto || len(open) == limit {
			next = h.Expires
			return false, nil
		}
		open = append(open, h)
		return true, nil
	})
	if err != nil {
		return nil, 0, r.fails(err)
	}
	return open, next, nil
}

// strays returns an error if entries or holds belong to no account.
func (r *rows) strays() (err error) {
	var found bool
	err = r.q.Each("strays", nil, func(row *sql.Rows) (bool, error) { return false, row.Scan(&found) })
	if err == nil && found {
		err = fmt.Errorf("%w: entries or holds belong to accounts that have lost their rows", store.ErrCorrupt)
	}
	return err
}
