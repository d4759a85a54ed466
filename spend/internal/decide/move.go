package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// unlocked is the error of a decision whose job has not locked all of its accounts. Another attempt
// may lock them.
type unlocked struct{ from, to string } // keys of an account that has moved; else empty

func (*unlocked) Error() string {
	return "spend: an account or a request has changed since the decision locked its accounts"
}

var errUnlocked = &unlocked{}

// attempts bounds how often a decision is tried. The second attempt locks the accounts that the
// first has found, so it needs a third one only if one of them moves at that moment.
const attempts = 48

// again returns the keys for another attempt at a decision whose n-th attempt with keys has
// failed. If another attempt is of no use, it returns the error.
func (d *Decider) again(ctx context.Context, keys []string, n int, err error) ([]string, error) {
	var lacks *unread
	if errors.As(err, &lacks) && n < attempts {
		_, err := d.Find(ctx, lacks.budget)
		return keys, err
	}
	var begins many
	if errors.As(err, &begins) && n < attempts {
		for _, of := range begins {
			if err := (counter{d}).count(ctx, of, nil); err != nil {
				return nil, err
			}
		}
		return keys, nil
	}
	if lacks != nil || begins != nil {
		return nil, fmt.Errorf("spend: %w: the rules of the accounts of the request change again and again; send it again", store.ErrUnavailable)
	}
	u := errUnlocked
	if !errors.As(err, &u) {
		return nil, err
	}
	if n == attempts {
		return nil, fmt.Errorf("spend: %w: the accounts of the request are being moved, or the request that it is about is being decided; "+
			"send it again", store.ErrUnavailable)
	}
	if i := slices.Index(keys, u.from); i >= 0 {
		keys = slices.Clone(keys)
		keys[i] = u.to
	}
	return keys, nil
}

// locked returns an error if the job has not locked the accounts of an earlier request: the request
// was stored, or one of the accounts has moved, after the ledger had locked those of the job.
func (g *group) locked(accounts []string) error {
	for _, key := range accounts {
		if !g.snap.Locked(key) {
			return errUnlocked
		}
	}
	return nil
}

// former returns the present key of the account that once had this key, or nothing.
func former(snap ledger.Snapshot, key string) (string, error) {
	r, err := snap.Request(book.FormerID(key))
	if err != nil || r == nil {
		return "", err
	}
	return r.Accounts[0], nil
}

// owner returns the key under which the account of a key goes on, which is another one if it has
// moved.
func owner(snap ledger.Snapshot, key string) (string, error) {
	stored, err := snap.Account(key)
	if err != nil || stored.State != nil {
		return key, err
	}
	now, err := former(snap, key)
	return cmp.Or(now, key), err
}

// about reports whether keys are those of these accounts, or were, the first of them before the
// others.
func (g *group) about(keys, accounts []string) (bool, error) {
	var now []string
	for _, key := range keys {
		if !slices.Contains(accounts, key) {
			var err error
			if key, err = owner(g.snap, key); err != nil {
				return false, err
			}
		}
		now = append(now, key)
	}
	first := now[0] == accounts[0]
	return first && slices.Equal(slices.Sorted(slices.Values(now)), slices.Sorted(slices.Values(accounts))), nil
}

// loadOne loads the account that has a key, or that had it before it moved. It looks for a move
// only if no account has the key.
func (g *group) loadOne(key string, plan *string) (*account, error) {
	budget, err := g.newestOf(key)
	if err != nil {
		return nil, err
	}
	a, err := g.decider.load(budget, g.snap, key, plan)
	if err == nil && a.seq == 0 {
		var now string
		switch now, err = former(g.snap, key); {
		case err != nil || now == "":
		case !g.snap.Locked(now) || now == key: // the key has an account again
			err = &unlocked{key, now}
		default:
			a, err = g.decider.load(budget, g.snap, now, plan)
		}
	}
	if err == nil && slices.ContainsFunc(g.accounts, func(b *account) bool { return b.key == a.key }) {
		err = BadRequest("the request names an account twice, by its name and by one that it had before")
	}
	return a, err
}

// present returns the key under which an account goes on.
func (d *Decider) present(ctx context.Context, key string) (string, error) {
	now := new(string)
	err := d.Ledger.View(ctx, &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (_ *ledger.Changes, err error) {
		*now, err = owner(snap, key)
		return nil, err
	}})
	return *now, err
}

// History returns a page of the entries of an account; see [ledger.Ledger]. An account without
// entries there may have moved.
func (d *Decider) History(ctx context.Context, key string, before ledger.Position, limit int) ([]ledger.Entry, error) {
	list, err := d.Ledger.History(ctx, key, before, limit)
	if len(list) > 0 || err != nil {
		return list, err
	}
	now, err := d.present(ctx, key)
	if err != nil || now == key {
		return nil, err
	}
	return d.Ledger.History(ctx, now, before, limit)
}

// movable returns an error if the account cannot get its new key. A key that has led to another
// account is refused: requests that mean the other account may still come.
func (g *group) movable(to string) error {
	a := g.accounts[0]
	if a.key == to {
		return BadRequest("the account has that name already")
	}
	if a.seq == 0 {
		return BadRequest("the ledger has no account of that name that could move")
	}
	stored, err := g.snap.Account(to)
	if err != nil {
		return err
	}
	if stored.State != nil {
		return BadRequest("another account has the new name")
	}
	now, err := former(g.snap, to)
	if err == nil && now != "" && now != a.key {
		err = BadRequest("another account had the new name within KeepIDs, and requests about it may still come")
	}
	return err
}

// move gives the account its new key after the other changes of the decision, and leaves a request
// that leads from the old key to the account. It goes when Prune removes the requests of that time.
func (g *group) move(c *ledger.Changes, at int64, to string) error {
	key := g.accounts[0].key
	r := ledger.Request{
		ID: book.FormerID(key), At: at, Accounts: []string{key}, Content: []byte(figures.KindMove), Answer: newEncoder().B,
	}
	known, err := g.snap.Request(r.ID)
	if known != nil {
		c.Replaced = append(c.Replaced, r)
	} else {
		c.Requests = append(c.Requests, r)
	}
	moved := c.Accounts[0]
	moved.Key = to
	moved = Resealed(moved) // the ledger stores it before it gets its new key
	moved.Key = key
	c.Accounts[0], c.Moved = moved, append(c.Moved, ledger.Move{From: key, To: to})
	return err
}
