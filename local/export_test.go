package local

import "github.com/brimgo/brim/store"

// Accounts returns the number of buckets that may have allotments.
func Accounts(s store.Store) (n int) {
	l := s.(*leases)
	for i := range l.sets {
		for w := range ways {
			if l.sets[i].ways[w].Load() != nil {
				n++
			}
		}
	}
	return n
}
