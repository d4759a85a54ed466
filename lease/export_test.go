package lease

// Accounts returns the number of buckets that may have allotments.
func Accounts(s *Store) int {
	n := 0
	for i := range s.table.shards {
		if accounts := s.table.shards[i].accounts.Load(); accounts != nil {
			n += len(*accounts)
		}
	}
	return n
}
