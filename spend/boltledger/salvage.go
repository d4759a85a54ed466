package boltledger

import (
	"bytes"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/boltfile"
)

// Salvor returns the part of the command "brim verify" that knows the tables of a ledger. It begins
// the accounts and requests with the keys in forget anew, instead of withholding them, and with
// forgetLost also the accounts of which nothing was found. Its type is internal: only this
// repository can use it, and it may change at any time.
func Salvor(forgetLost bool, forget ...string) boltfile.Salvor { return &salvor{forgetLost, forget} }

// salvor carries over an account only if all of its values are whole. It withholds every other
// account, and every request whose answer is lost: they answer ErrCorrupt, because an account that
// began anew would spend its money twice.
//
// If nothing proves that all accounts were found, an account that is not in the new file may have
// lost its money. The new file then has a mark, and every account that is not in it answers
// ErrCorrupt, too.
type salvor struct {
	anewLost bool
	anew     []string // keys of accounts and requests to begin anew
}

// lostKey is the key of the mark, in the meta bucket of the accounts.
var lostKey = []byte("lost")

const (
	accountsSuffix = ".accounts"
	requestsSuffix = ".requests"
)

// Tables chooses both tables of every ledger that has one of them. If the list of buckets is
// damaged, a ledger may have been lost as a whole, so the new file gets one that knows this. A
// ledger of which only the journal knows is among them.
func (*salvor) Tables(r *boltfile.Remains) (tables []*boltfile.Table) {
	var ledgers []string
	if !r.Listed {
		ledgers = append(ledgers, DefaultName)
	}
	add := func(table string) {
		name, isLedger := strings.CutSuffix(table, accountsSuffix)
		if !isLedger {
			name, isLedger = strings.CutSuffix(table, requestsSuffix)
		}
		if isLedger && !slices.Contains(ledgers, name) {
			ledgers = append(ledgers, name)
		}
	}
	for _, t := range r.Tables() {
		add(string(t.Name()))
	}
	changes, _, _ := bolt.SalvageTables(r) // Complete meets the same error
	for _, c := range changes {
		for _, table := range c.Tables() {
			add(table)
		}
	}
	for _, name := range ledgers {
		n := namesOf(name)
		tables = append(tables, n.accounts, n.requests)
	}
	return tables
}

// Create makes the buckets of ledgers.
func (*salvor) Create(tx *bbolt.Tx, tables []*boltfile.Table) error {
	for _, t := range tables {
		if _, err := t.Create(tx); err != nil {
			return err
		}
	}
	return nil
}

func isRequests(t *boltfile.Table) bool { return bytes.HasSuffix(t.Name(), []byte(requestsSuffix)) }

// Name returns the key of the account, or the ID of the request.
func (*salvor) Name(t *boltfile.Table, key []byte) (what, name string) {
	if isRequests(t) {
		return "request", string(key)
	}
	name, _, _ = strings.Cut(string(key), "\x00")
	return "account", name
}

// Check decodes the value.
func (*salvor) Check(t *boltfile.Table, key, value []byte) (err error) {
	n := &names{accounts: t, requests: t}
	if isRequests(t) {
		_, err = n.decodeRequest(key, value)
		return err
	}
	name, rest, _ := bytes.Cut(key, []byte{0})
	if len(rest) == 0 {
		return boltfile.Damagef("a key of an account is cut short")
	}
	switch rest[0] {
	case ofState:
		_, err = n.decodeAccount(string(name), key, value)
	case ofEntries:
		_, err = n.decodeEntry(key, value)
	case ofDates:
		_, err = n.decodeDate(key, value)
	case ofHolds:
		err = n.checkHold(key, value)
	default:
		err = boltfile.Damagef("an account has a value of an unknown kind")
	}
	return err
}

// Survey returns nothing: the store looks at the journal.
func (*salvor) Survey(*boltfile.Remains) ([]boltfile.Finding, error) { return nil, nil }

// Complete carries over the changes in the journal, and withholds accounts that are not whole, and
// requests whose answers are lost.
func (s *salvor) Complete(
	tx *bbolt.Tx, tables []*boltfile.Table, r *boltfile.Remains, so []boltfile.Finding,
) (found []boltfile.Finding, err error) {
	changes, whole, err := bolt.SalvageTables(r)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if err := c.Write(tx); err != nil {
			return nil, err
		}
	}
	for i := 0; i+1 < len(tables); i += 2 {
		n := &names{tables[i], tables[i+1]}
		c := &completion{salvor: s, names: n, remains: r, behind: !whole, listed: make(map[[2]string]bool)}
		if c.accounts, c.meta, err = n.accounts.Find(tx); err != nil {
			return found, err
		}
		if c.requests, _, err = n.requests.Find(tx); err != nil {
			return found, err
		}
		for _, f := range so {
			if !f.Doubtful {
				c.listed[[2]string{f.What, f.Key}] = true
			}
		}
		if err := c.run(); err != nil {
			return found, err
		}
		found = append(found, c.found...)
	}
	return found, nil
}

// completion completes one ledger of a new file.
type completion struct {
	*salvor
	*names
	remains            *boltfile.Remains
	behind             bool // changes in the journal are lost
	accounts, requests *bbolt.Bucket
	meta               *bbolt.Bucket      // of the accounts
	listed             map[[2]string]bool // kind and key of the findings so far
	found              []boltfile.Finding
}

func (c *completion) run() error {
	// An account whose working set is damaged, and which owns nothing else, is known by its finding
	// alone.
	var accounts []string
	cursor := c.accounts.Cursor()
	for name, ok := next(cursor, nil); ok; name, ok = next(cursor, prefix(name, ofNone)) {
		accounts = append(accounts, name)
	}
	known := accounts // in order
	for id := range c.listed {
		if _, ok := slices.BinarySearch(known, id[1]); id[0] == "account" && !ok {
			accounts = append(accounts, id[1])
		}
		if id[0] == "request" {
			if err := c.withholdRequest(id[1], ""); err != nil {
				return err
			}
		}
	}
	slices.Sort(accounts)
	whole := c.remains.Complete(c.names.requests) && !c.behind
	for _, name := range accounts {
		problem, err := c.problem(name)
		if err == nil && !whole {
			err = c.answers(name)
		}
		if err == nil && (problem != "" || slices.Contains(c.anew, name)) {
			err = c.withhold(name, problem)
		}
		if err != nil {
			return err
		}
	}
	r, t := c.remains, c.names.accounts
	if c.anewLost || r.Known(t) && r.Current && !c.behind && !r.Marked(t, lostKey) {
		return nil
	}
	c.found = append(c.found, boltfile.Finding{
		What: "accounts", Of: string(t.Name()),
		Problem: "may be lost without a trace; those that are not in the new file answer ErrCorrupt until you decide",
	})
	mark := make([]byte, boltfile.SealSize)
	t.SealMeta(lostKey, mark)
	return c.meta.Put(lostKey, mark)
}

// isLost reports whether the answer to a request is lost.
func (c *completion) isLost(id []byte) bool {
	value := c.requests.Get(id)
	if value == nil {
		return true
	}
	_, err := c.decodeRequest(id, value)
	return err != nil
}

// problem returns the reason why an account is not carried over, or "".
func (c *completion) problem(name string) (string, error) {
	if c.listed[[2]string{"account", name}] {
		return "is damaged", nil
	}
	switch {
	case !c.remains.Current:
		return "may be older than the last commit", nil
	case c.behind:
		return "may have lost its newest change with the journal", nil
	}
	key := prefix(name, ofState)
	value := c.accounts.Get(key)
	if value == nil {
		return "has lost its working set", nil
	}
	a, err := c.decodeAccount(name, key, value)
	if err != nil {
		return "", err // Check has let it pass
	}
	var owned boltfile.Totals
	problem := ""
	cursor, start := c.accounts.Cursor(), append([]byte(name), 0)
	holds := prefix(name, ofHolds)
	for k, v := cursor.Seek(start); bytes.HasPrefix(k, start); k, v = cursor.Next() {
		if bytes.Equal(k, key) {
			continue
		}
		_, sum, _ := c.names.accounts.Open(k, v)
		owned.Add(sum)
		if !bytes.HasPrefix(k, holds) {
			continue
		}
		if id := k[len(holds)+8:]; c.isLost(id) {
			problem = "has a hold whose request is lost"
			if err := c.withholdRequest(string(id), "is lost"); err != nil {
				return "", err
			}
		}
	}
	if !owned.Same(&a.owned) {
		problem = "has lost entries or holds"
	}
	return problem, nil
}

// withhold replaces an account by a mark, or removes it if the operator wants to forget it.
func (c *completion) withhold(name, problem string) error {
	var keys [][]byte
	cursor, start := c.accounts.Cursor(), append([]byte(name), 0)
	for k, _ := cursor.Seek(start); bytes.HasPrefix(k, start); k, _ = cursor.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := c.accounts.Delete(k); err != nil {
			return err
		}
	}
	if slices.Contains(c.anew, name) {
		c.find("account", name, "begins anew, as asked")
		return nil
	}
	c.find("account", name, problem+"; it answers ErrCorrupt until you decide")
	key := prefix(name, ofState)
	return c.accounts.Put(key, withheld().seal(c.names.accounts, key))
}

// withheld returns the mark of an account or a request that was left out.
func withheld() *encoder { return &encoder{b: []byte{formatWithheld}} }

func (c *completion) find(what, key, problem string) {
	if id := [2]string{what, key}; !c.listed[id] {
		c.listed[id] = true
		c.found = append(c.found, boltfile.Finding{What: what, Key: key, Problem: problem})
	}
}

// answers withholds the requests that an account's entries name and whose answers are lost. Some of
// them may have been pruned long ago; a request of that age is not sent again.
func (c *completion) answers(name string) error {
	start := prefix(name, ofEntries)
	cursor := c.accounts.Cursor()
	for k, v := cursor.Seek(start); bytes.HasPrefix(k, start); k, v = cursor.Next() {
		e, err := c.decodeEntry(k, v)
		if err != nil {
			return err
		}
		for _, id := range [...]string{e.RequestID, e.SpendID} {
			if id == "" || !c.isLost([]byte(id)) {
				continue
			}
			if err := c.withholdRequest(id, "is lost or was pruned"); err != nil {
				return err
			}
		}
	}
	return nil
}

// withholdRequest puts a mark in the place of a request.
func (c *completion) withholdRequest(id, problem string) error {
	if slices.Contains(c.anew, id) {
		c.find("request", id, "is forgotten, as asked")
		return nil
	}
	c.find("request", id, problem+"; it answers ErrCorrupt until you decide")
	return c.requests.Put([]byte(id), withheld().seal(c.names.requests, []byte(id)))
}
