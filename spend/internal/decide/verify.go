package decide

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

const (
	proofPage = 1024    // number of entries that one View reads, and of the requests that it looks up
	mostLives = 1 << 18 // number of spends that a proof follows at once, so that it takes little memory
)

// proof compares all that is stored of an account with its entries, which it reads in pages. Others
// decide on the account meanwhile: their entries follow.
//
// The first pass over the entries proves the account as it was when it began. Each pass follows the
// spends that began after from, as many as mostLives, to the newest entry. It then compares them
// with the stored spends, of which each View also reads the entries that were added since the View
// before.
type proof struct {
	*Decider
	key string

	a       *account         // as it was when the proof began
	figures []*figures.Proof // of the rules of a, until all entries up to a.seq are counted
	first   int64            // number of the first entry that there is
	checks  []ledger.Entry   // whose requests are to be looked up

	from, at mark             // after which the pass follows spends, and up to which it has read
	until    mark             // after which the pass follows no more spends; zero for none
	lives    map[string]*life // by the ID of the spend
}

// mark is a place in the chain of the entries of an account.
type mark struct {
	ledger.Position
	sum uint32 // of all entries up to it
}

// errPruned is the reason to begin a proof anew: Prune has removed entries that it has not read
// yet.
var errPruned = errors.New("spend: entries were removed meanwhile")

// Verify compares all that is stored of an account with its entries. A difference is
// [store.ErrCorrupt].
func (d *Decider) Verify(ctx context.Context, key string) error {
	key, err := d.present(ctx, key)
	if err != nil {
		return err
	}
	for {
		p := &proof{Decider: d, key: key, from: mark{Position: ledger.Position{At: minTime}}}
		if err := p.run(ctx); !errors.Is(err, errPruned) {
			return err
		}
	}
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("spend: %w: "+format, append([]any{store.ErrCorrupt}, args...)...)
}

func (p *proof) run(ctx context.Context) error {
	for more := true; more; more = p.until.Seq > 0 {
		if p.until.Seq > 0 {
			p.from = p.until
		}
		p.at, p.until, p.lives = p.from, mark{}, make(map[string]*life)
		if err := p.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// follow makes one pass over the entries.
func (p *proof) follow(ctx context.Context) error {
	out, err := p.step(ctx, nil, true)
	if err != nil {
		return err
	}
	if err := p.checkHolds(out); err != nil {
		return err
	}
	ids := slices.Collect(maps.Keys(p.lives))
	for part := range slices.Chunk(ids, proofPage) {
		out, err := p.step(ctx, part, false)
		if err != nil {
			return err
		}
		for _, id := range part {
			if err := p.checkSpend(out.requests[id], p.lives[id], out.now); err != nil {
				return err
			}
		}
	}
	return nil
}

// sight is that which one View has read.
type sight struct {
	now      int64
	account  *account
	entries  []ledger.Entry
	requests map[string]*ledger.Request
	holds    []*spend
}

// step reads on to the newest entry. The last View, which has found it, has also read the requests
// with these IDs, and the holds.
func (p *proof) step(ctx context.Context, ids []string, holds bool) (*sight, error) {
	for {
		checks := p.checks
		all := slices.Clone(ids)
		for i := range checks {
			all = append(all, checks[i].RequestID)
		}
		out, err := p.look(ctx, all, holds)
		if err != nil {
			return nil, err
		}
		p.checks = nil
		for i := range checks {
			if err := p.checkRequest(&checks[i], out); err != nil {
				return nil, err
			}
		}
		if err := p.read(out); err != nil {
			return nil, err
		}
		if len(out.entries) < proofPage && len(p.checks) == 0 {
			return out, nil
		}
	}
}

// look reads the account, a page of entries, and the requests with these IDs, as of one time. The
// holds are those of a View that has found the newest entry.
func (p *proof) look(ctx context.Context, ids []string, holds bool) (*sight, error) {
	out, at := new(sight), p.at.Position
	k := p.Rules.known()
	job := &ledger.Job{Accounts: []string{p.key}, Requests: ids, Rules: k.of(p.key), Run: func(snap ledger.Snapshot) (_ *ledger.Changes, err error) {
		*out = sight{now: snap.Now(), requests: make(map[string]*ledger.Request, len(ids))}
		g := &group{decider: p.Decider, snap: snap, known: k}
		budget, err := g.newestOf(p.key)
		if err != nil {
			return nil, err
		}
		if out.account, err = p.load(budget, snap, p.key, nil); err != nil {
			return nil, err
		}
		entries, err := snap.Since(p.key, at, proofPage)
		if err != nil {
			return nil, err
		}
		out.entries = slices.Clone(entries)
		for _, id := range ids {
			if out.requests[id], err = snap.Request(id); err != nil {
				return nil, err
			}
		}
		if holds && len(entries) < proofPage {
			out.holds, _, err = out.account.held(ledger.Hold{}, maxTime, figures.Unlimited)
		}
		return nil, err
	}}
	err := p.Ledger.View(ctx, job)
	return out, err
}

// read takes in a page of entries. The last page must end the chain of the account.
func (p *proof) read(out *sight) error {
	if p.a == nil {
		if err := p.begin(out); err != nil {
			return err
		}
	}
	err := p.readEntries(out)
	if now := out.account; err == nil && len(out.entries) < proofPage {
		switch {
		case p.at.Seq != 0 && p.at.Seq != now.seq:
			err = damaged("the last entry is %d and the account's figures end at %d", p.at.Seq, now.seq)
		case p.at.sum != now.sum:
			err = damaged("an entry is missing, or is not as it was made")
		}
	}
	if err != nil && (out.account.gone != p.a.gone || out.account.seq < p.a.seq) { // the latter if it has another key
		return errPruned
	}
	return err
}

func (p *proof) readEntries(out *sight) error {
	for i := range out.entries {
		e := &out.entries[i]
		if p.at.Seq != 0 && e.Seq != p.at.Seq+1 {
			return damaged("entry %d is out of order, or the entry before it is missing", e.Seq)
		}
		if err := p.live(e); err != nil {
			return err
		}
		p.at = mark{ledger.Position{At: e.At, Seq: e.Seq}, chained(p.at.sum, e)}
		if e.Seq <= p.a.seq && p.from.Seq == 0 {
			if err := p.prove(e, out.now); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin begins with the account as it is now.
func (p *proof) begin(out *sight) error {
	p.a = new(*out.account)
	p.from.sum, p.at.sum, p.first = p.a.gone, p.a.gone, p.a.seq+1
	if len(out.entries) > 0 {
		p.first = out.entries[0].Seq
	}
	for _, u := range p.a.all() {
		if f := u.Prove(p.first, p.a.time); f != nil {
			p.figures = append(p.figures, f)
		}
	}
	if len(out.entries) == 0 {
		return p.counted()
	}
	return nil
}

// prove counts an entry, and notes the ID of its request if that is as old as the entry and must be
// there.
func (p *proof) prove(e *ledger.Entry, now int64) error {
	placed := *e
	p.a.place(&placed)
	for _, f := range p.figures {
		if err := f.Count(&placed); err != nil {
			return err
		}
	}
	if e.Kind != figures.KindExpire && e.RequestID != "" && p.young(p.made(e), now) {
		p.checks = append(p.checks, *e)
	}
	if e.Seq == p.a.seq {
		return p.counted()
	}
	return nil
}

// made returns a time that is not after that of the request of an entry. It is the earliest time if
// a Prune by a wrong clock may have removed the request.
func (p *proof) made(e *ledger.Entry) int64 {
	n := len(p.a.mends)
	switch {
	case n == 0:
		return e.At
	case e.Seq <= p.a.mends[n-1].seq:
		return minTime
	}
	placed := *e
	p.a.place(&placed)
	return placed.Dated // At is that of the wrong clock
}

// young reports whether the ledger has a request of that time, because it is younger than KeepIDs.
func (p *proof) young(made, now int64) bool { return made > now-p.a.keepIDs }

// counted compares the figures, for which all entries of the account have been counted.
func (p *proof) counted() error {
	for _, f := range p.figures {
		if err := f.Check(len(p.a.mends) > 0); err != nil {
			return err
		}
	}
	p.figures = nil
	return nil
}

// checkRequest checks the request that an entry names.
func (p *proof) checkRequest(e *ledger.Entry, out *sight) error {
	r := out.requests[e.RequestID]
	switch {
	case !p.young(p.made(e), out.now): // any more
		return nil
	case r == nil:
		return damaged("the request of an entry is gone, although it is younger than KeepIDs")
	case slices.Contains(r.Accounts, p.key), isCanceled(r): // a cancellation has the first account of a declined request
	case e.Kind != figures.KindDecline || r.Spend == nil: // money that moved after a cancellation has the ID of the declined request
		return damaged("the request of an entry is of other accounts")
	}
	if err := openAnswer(r).Err; err != nil || r.Spend == nil {
		return err
	}
	_, err := spendOf(r)
	return err
}
