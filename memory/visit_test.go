package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brimgo/brim/store"
)

// TestVisitAnyTable visits tables piece by piece while buckets come and go. Every bucket that
// stays must be visited exactly once, and no bucket more than once.
func TestVisitAnyTable(t *testing.T) {
	for _, test := range tableHashes {
		t.Run(test.name, func(t *testing.T) {
			s := New(nil)
			defer s.Close()
			sh := &s.shards[0]
			r := rand.New(rand.NewPCG(8, 9))
			for round := range 2 {
				sh.table = table{hash: test.hash}
				stays, comes := testKeys(400), []string(nil)
				for i := range 3 * visitPiece * (round % 2) {
					comes = append(comes, fmt.Sprint("comes and goes ", i))
				}
				rec := store.Record{Level: 1}
				for _, key := range stays {
					sh.insert(test.hash([]byte(key)), key, &rec)
				}
				visited := make(map[string]int)
				for at := uint64(0); at < visitEnd; {
					var piece []store.Entry
					piece, at = s.visitShard(sh, at, nil, nil)
					for _, e := range piece {
						if visited[e.Key]++; visited[e.Key] > 1 && e.Key[0] != 'c' {
							t.Fatalf("round %d: visited twice: %q", round, e.Key)
						}
					}
					for range min(len(comes), 150) {
						key := comes[r.IntN(len(comes))]
						if hash := test.hash([]byte(key)); !sh.remove(hash, key) {
							sh.insert(hash, key, &rec)
						}
					}
				}
				for _, key := range stays {
					if visited[key] != 1 {
						t.Fatalf("round %d: visited %d times: %q: %s", round, visited[key], key, test.why)
					}
				}
			}
		})
	}
}

// TestVisitPieces tests that no lock covers much more than a piece, however many buckets a shard
// has and however few of them match.
func TestVisitPieces(t *testing.T) {
	s := New(nil)
	defer s.Close()
	sh := &s.shards[0]
	const buckets = 5*visitPiece + 5
	for i := range buckets {
		key := fmt.Sprint(i)
		if err := s.insert(sh, s.hash([]byte(key)), key, &store.Record{}); err != nil {
			t.Fatal(err)
		}
	}
	looked := 0 // slots in use; visitShard hashes the key of each
	good := sh.hash
	sh.hash = func(key []byte) uint32 { looked++; return good(key) }
	for prefix, want := range map[string]int{"": buckets, "30": 111, "none": 0} {
		var all []store.Entry
		pieces := 0
		for at := uint64(0); at < visitEnd; pieces++ {
			looked = 0
			all, at = s.visitShard(sh, at, []byte(prefix), all)
			if most := visitPiece + visitPiece/4; looked > most { // a run goes on behind the piece
				t.Errorf("prefix %q: a lock covers %d buckets, want at most %d", prefix, looked, most)
			}
		}
		if least := len(sh.slots) / visitPiece; len(all) != want || pieces < least {
			t.Errorf("prefix %q: %d entries in %d pieces, want %d in at least %d", prefix, len(all), pieces, want, least)
		}
	}
}
