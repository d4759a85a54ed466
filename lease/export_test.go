package lease

// Accounts returns the number of buckets that may have allotments.
func Accounts(s *Store) int {
	n := 0
	for i := range s.table.shards {
		n += len(s.table.shards[i].accounts.Load().from(0))
	}
	return n
}
