package lease

// Pools counts the buckets that may have slices.
func Pools(s *Store) int {
	n := 0
	for i := range s.table.shards {
		if pools := s.table.shards[i].pools.Load(); pools != nil {
			n += len(*pools)
		}
	}
	return n
}
