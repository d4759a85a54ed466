package spend

import (
	"fmt"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

var errLost = fmt.Errorf("%w: an account has a state and no entries", store.ErrCorrupt)

// needsAll reports whether a rule counts entries of all times.
func (a *account) needsAll() bool {
	for _, u := range a.rules {
		if u.rule.kind == lifetime {
			return true
		}
	}
	return false
}

// verify compares what the account keeps for each rule with what all of its entries add up to.
func (a *account) verify(entries []ledger.Entry) error {
	whole := len(entries) > 0 && entries[0].Seq == 1
	seq, at := int64(0), int64(ever)
	for i := range entries {
		e := &entries[i]
		if i > 0 && e.Seq != seq+1 || e.At < at || e.Dated > e.At || e.Part > e.Seq {
			return fmt.Errorf("spend: %w: entry %d is out of order, or one before it is missing", store.ErrCorrupt, e.Seq)
		}
		seq, at = e.Seq, e.At
	}
	if len(entries) > 0 && seq != a.seq {
		return fmt.Errorf("spend: %w: the last entry is %d, and the account says %d", store.ErrCorrupt, seq, a.seq)
	}
	for _, u := range a.rules {
		if !u.known || !u.rule.counts() && u.rule.kind != leaky {
			continue
		}
		if !whole && (u.rule.kind == leaky || u.rule.kind == lifetime) {
			continue
		}
		plain := usage{name: u.name, rule: u.rule, edge: u.edge, since: u.since, bucket: store.NewRecord(0)}
		for i := range entries {
			if entries[i].Seq > u.upto {
				break
			}
			if err := plain.count(&entries[i]); err != nil {
				return err
			}
		}
		same := plain.used == u.used && plain.held == u.held
		if u.rule.kind == leaky {
			same = plain.bucket.Level == u.bucket.Level && plain.bucket.Held == u.bucket.Held
		}
		if !same {
			return fmt.Errorf("spend: %w: rule %q is not what its entries add up to", store.ErrCorrupt, u.name)
		}
	}
	return nil
}
