package records

import (
	"strings"

	"github.com/brimgo/brim/store"
)

// Page lists up to limit intact buckets whose keys have a prefix and are greater than after, and
// counts damaged ones.
func (v *View) Page(prefix, after string, limit int, now int64) (entries []store.Entry, damaged int, err error) {
	err = v.Walk(max(prefix, after), func(key string, r *store.Record) bool {
		switch {
		case !strings.HasPrefix(key, prefix):
			return false
		case after != "" && key == after:
		case r == nil:
			damaged++
		default:
			entries = append(entries, store.Entry{Key: key, State: r.State(store.Limit{}, now, v.MaxSkew)})
		}
		return len(entries) < limit
	})
	return entries, damaged, err
}

// Step is a step of a prune: a list of buckets that have expired.
type Step struct {
	Scan    int // the largest number of buckets that a step looks at
	Damaged int // number of damaged buckets of all steps

	after string // the last key of the step before
	more  bool
	keys  []string
}

// PruneBatch is the largest number of buckets that one commit removes.
const PruneBatch = 1_000

// Next lists the next buckets that have expired.
func (s *Step) Next(v *View, now int64) error {
	seen, after := 0, s.after
	s.more, s.keys = false, nil
	return v.Walk(after, func(key string, r *store.Record) bool {
		if after != "" && key == after {
			return true
		}
		if s.more = seen == s.Scan || len(s.keys) == PruneBatch; s.more {
			return false
		}
		s.after = key
		seen++
		if r == nil {
			s.Damaged++
		} else if r.Expired(now, v.MaxSkew) {
			s.keys = append(s.keys, key)
		}
		return true
	})
}

// Run lists and removes buckets, up to a thousand in each commit, until none is left or a call
// fails. It returns the number of removed ones.
func (s *Step) Run(next func() error, remove func(keys []string) (int64, error)) (pruned int64, err error) {
	for s.more = true; s.more; {
		if err := next(); err != nil {
			return pruned, err
		}
		if len(s.keys) > 0 {
			n, err := remove(s.keys)
			if pruned += n; err != nil {
				return pruned, err
			}
		}
	}
	return pruned, nil
}
