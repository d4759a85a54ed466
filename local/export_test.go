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

// Force gets an allotment for b at once, whatever its demand is.
func Force(s store.Store, b store.Bucket, size float64) {
	l := s.(*leases)
	as, h := l.at(b.Key)
	as.insert(h, b, l.now(), 0)
	a := as.find(h, b.Key)
	a.mu.Lock()
	if a.bucket.Limit == b.Limit {
		l.request(a, size)
	}
	pending := a.pending
	a.mu.Unlock()
	if pending != nil {
		<-pending
	}
}
