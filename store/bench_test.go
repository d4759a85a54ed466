package store

import "testing"

// BenchmarkFill measures the arithmetic of one decision that leaks, without a lock or a lookup.
func BenchmarkFill(b *testing.B) {
	op := Op{Bucket: Limit{Capacity: 1 << 53, LeakRate: 1e6}.For("k"), Amount: 1}
	r := NewRecord(noon)
	b.ReportAllocs()
	for clock := noon; b.Loop(); clock++ {
		if _, _, err := r.Fill(&op, clock, DefaultMaxSkew); err != nil {
			b.Fatal(err)
		}
	}
}
