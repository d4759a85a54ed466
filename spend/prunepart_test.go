package spend_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
)

// parts is a ledger that counts the entries and the holds that jobs remove between two rests. Each
// read of entries takes a millisecond.
type parts struct {
	ledger.Ledger
	mu    sync.Mutex
	ended time.Time // the last decision
	all   []part
}

type part struct {
	removed int
	jobs    int
	worked  time.Duration
	rested  time.Duration // before it
}

// listing is a snapshot that keeps the entries that it has listed.
type listing struct {
	ledger.Snapshot
	list []ledger.Entry
}

func (s *listing) Since(account string, after ledger.Position, limit int) (list []ledger.Entry, err error) {
	time.Sleep(time.Millisecond)
	list, err = s.Snapshot.Since(account, after, limit)
	s.list = append(s.list, list...)
	return list, err
}

func (p *parts) Decide(ctx context.Context, job *ledger.Job) error {
	other := *job
	other.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
		start := time.Now()
		s := &listing{Snapshot: snap}
		c, err := job.Run(s)
		n := 0
		if c != nil {
			n = len(c.Closed)
			for _, d := range c.Drop {
				for _, e := range s.list {
					if e.At <= d.At {
						n++
					}
				}
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if rested := start.Sub(p.ended); len(p.all) == 0 || rested > 0 {
			p.all = append(p.all, part{rested: rested})
		}
		p.ended = time.Now()
		last := &p.all[len(p.all)-1]
		last.removed += n
		last.jobs++
		last.worked += p.ended.Sub(start)
		return c, err
	}
	return p.Ledger.Decide(ctx, &other)
}

// TestPruneInParts: Prune removes at most 512 entries, and ends at most 64 holds or one of each
// account, between two rests, however many accounts have how much to prune. It rests twelve times
// as long as it works, and is done in few parts and decisions.
func TestPruneInParts(t *testing.T) {
	for _, c := range []struct {
		name           string
		accounts, each int
		holds          bool
		most           int // removed in a part
		parts, jobs    int // at most
	}{
		{"much of one account", 1, 5000, false, 512, 20, 20},
		{"some of many accounts", 400, 20, false, 512, 40, 2000},
		{"little of many accounts", 400, 1, false, 200, 3, 400},
		{"many expired holds of one account", 1, 500, true, 64, 12, 12},
		{"some expired holds of many accounts", 20, 50, true, 64, 60, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead time.Duration
				p := &parts{Ledger: memledger.New(&memledger.Options{Clock: func() time.Time { return time.Now().Add(ahead) }})}
				b := budgets(t, p.Ledger, spend.Rolling("window", cents(1<<40), day))
				for i := range c.each * c.accounts {
					r := spend.Request{ID: fmt.Sprint(i), Account: fmt.Sprint(i % c.accounts), Amount: cents(1), TTL: time.Hour}
					decide := b.Charge
					if c.holds {
						decide = b.Authorize
					}
					if d, err := decide(t.Context(), r); err != nil || !d.Approved {
						t.Fatal(d, err)
					}
					ahead += time.Microsecond
				}
				if ahead += 300 * day; c.holds {
					ahead -= 299 * day
				}
				if _, err := b.With(p).Prune(t.Context()); err != nil {
					t.Fatal(err)
				}
				removed, jobs := 0, 0
				for i, x := range p.all {
					removed, jobs = removed+x.removed, jobs+x.jobs
					if x.removed > c.most || i > 0 && x.rested < min(8*p.all[i-1].worked, time.Second) {
						t.Errorf("part %d: %+v; want %d removed at most, after a rest of eight times the work of the part before, %v",
							i, x, c.most, p.all[max(0, i-1)].worked)
					}
				}
				if removed != c.each*c.accounts || len(p.all) > c.parts || jobs > c.jobs {
					t.Errorf("%d parts of %d decisions have removed %d; want %d in %d parts of %d decisions at most",
						len(p.all), jobs, removed, c.each*c.accounts, c.parts, c.jobs)
				}
			})
		})
	}
}
