package sqliteledger

import (
	"database/sql"
	"encoding/json"

	"github.com/brimgo/brim/spend/ledger"
)

// store stores changes, with as few statements for each table as can be.
func (r *rows) store(c *ledger.Changes) (err error) {
	exec := func(name string, args ...any) {
		if err == nil {
			r.changed = true
			_, err = r.q.Exec(name, args...)
		}
	}
	insert := func(name string, n int, row func(i int, args []any) []any) {
		if err == nil && n > 0 {
			r.changed = true
			err = r.q.Insert(name, n, row)
		}
	}
	numbers, err := r.numbers(c)
	if err != nil {
		return err
	}
	for _, d := range c.Drop {
		exec("drop", numbers[d.Account], d.At)
	}
	due, same := r.accountRows(c, numbers)
	for name, list := range map[string][]ledger.Account{"save": due, "update": same} {
		insert(name, len(list), func(i int, args []any) []any {
			a := &list[i]
			return append(args, numbers[a.Key], a.Key, a.Pruned, a.Due, a.Rules, a.State)
		})
	}
	insert("append", len(c.Entries), func(i int, args []any) []any {
		e := &c.Entries[i]
		return append(args, numbers[e.Account], e.At, e.Seq, unless(e.Dated, e.Part == e.Seq), unless(e.Part, e.Part == e.Seq), e.Kind,
			e.RequestID, unless(e.SpendID, e.SpendID == e.RequestID), e.Currency, e.Amount, unless(e.SpendAmount, e.SpendAmount == e.Amount),
			e.Asked, e.Least, e.TTL, e.Used, e.Held, e.Count, e.Expires, e.Pending, e.Spends,
			encode(e.Tags, len(e.Tags)), encode(e.Refused, len(e.Refused)), encode(e.Credited, len(e.Credited)))
	})
	for _, list := range [...][]ledger.Request{c.Requests, c.Replaced} {
		insert("answer", len(list), func(i int, args []any) []any {
			q := &list[i]
			var also []int64
			for _, key := range q.Accounts[1:] {
				also = append(also, numbers[key])
			}
			return append(args, q.ID, q.At, numbers[q.Accounts[0]], encode(also, len(also)), q.Content, q.Answer, q.Spend)
		})
	}
	for i := range c.Spends {
		exec("spend", c.Spends[i].ID, c.Spends[i].Spend)
	}
	insert("hold", len(c.Opened), func(i int, args []any) []any {
		h := &c.Opened[i]
		return append(args, numbers[h.Account], h.Expires, h.SpendID)
	})
	for _, h := range c.Closed {
		exec("unhold", numbers[h.Account], h.Expires, h.SpendID)
	}
	insert("revise", len(c.Rules), func(i int, args []any) []any {
		v := &c.Rules[i]
		return append(args, v.Budget, v.Seq, v.Revision, v.At, v.Held, v.By, v.Reason, filled(v.Digest), string(v.Text))
	})
	for _, m := range c.Moved {
		exec("rename", numbers[m.From], m.To)
	}
	return err
}

// numbers returns the ids of all accounts that changes name, by key. A new account gets the next
// one.
func (r *rows) numbers(c *ledger.Changes) (map[string]int64, error) {
	ids := make(map[string]int64)
	var failed error
	number := func(key string) {
		if ids[key] != 0 || failed != nil {
			return
		}
		a, err := r.account(key)
		if err == nil && a.id == 0 {
			err = r.assign(a)
		}
		if failed = err; err == nil {
			ids[key] = a.id
		}
	}
	for i := range c.Accounts {
		number(c.Accounts[i].Key)
	}
	for i := range c.Entries {
		number(c.Entries[i].Account)
	}
	for _, list := range [...][]ledger.Request{c.Requests, c.Replaced} {
		for i := range list {
			for _, key := range list[i].Accounts {
				number(key)
			}
		}
	}
	for _, list := range [...][]ledger.Hold{c.Opened, c.Closed} {
		for i := range list {
			number(list[i].Account)
		}
	}
	for _, d := range c.Drop {
		number(d.Account)
	}
	for _, m := range c.Moved {
		number(m.From)
	}
	return ids, failed
}

// assign gives a new account its id. accountRows makes the row.
func (r *rows) assign(a *account) error {
	if r.last == 0 {
		err := r.q.Each("last", nil, func(found *sql.Rows) (bool, error) { return false, found.Scan(&r.last) })
		if err != nil {
			return err
		}
	}
	r.last++
	a.id, a.fresh = r.last, true
	return nil
}

// accountRows returns the accounts to store: those whose due changes, or that are new, and the
// others.
func (r *rows) accountRows(c *ledger.Changes, numbers map[string]int64) (due, same []ledger.Account) {
	for _, a := range c.Accounts {
		stored := r.accounts[a.Key]
		if stored.fresh || stored.Due != a.Due {
			due = append(due, a)
		} else {
			same = append(same, a)
		}
		stored.fresh = false
	}
	for key := range numbers {
		if a := r.accounts[key]; a.fresh { // only named by a request
			due = append(due, a.Account)
			a.fresh = false
		}
	}
	return due, same
}

// unless returns a value, or nil where another column has it.
func unless(v any, repeats bool) any {
	if repeats {
		return nil
	}
	return v
}

// filled returns bytes that are not null.
func filled(b []byte) []byte { return append([]byte{}, b...) }

// encode returns a list as JSON, or nil if it is empty. It cannot fail: it has text and numbers.
func encode(list any, n int) any {
	if n == 0 {
		return nil
	}
	text, _ := json.Marshal(list)
	return string(text)
}
