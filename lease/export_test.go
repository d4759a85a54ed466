package lease

import "github.com/brimgo/brim/store"

// Accounts returns the number of buckets that may have allotments.
func Accounts(s *Store) int {
	n := 0
	for i := range s.table.shards {
		n += len(s.table.shards[i].accounts.Load().from(0))
	}
	return n
}

// Force gets an allotment for b at once, whatever its demand is.
func Force(s *Store, b store.Bucket, size float64) {
	h := s.table.hash(b.Key)
	s.table.insert(h, b, s.readClocks(), 0)
	a := s.table.find(h, b.Key)
	a.mu.Lock()
	if a.limit == b.Limit {
		s.request(a, size)
	}
	pending := a.pending
	a.mu.Unlock()
	if pending != nil {
		<-pending
	}
}
