package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// TestVisitWhileEntriesMove prunes most buckets while Visit is under way, so that each shard
// shrinks and moves the rest. Those must be visited exactly once.
func TestVisitWhileEntriesMove(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := New(&Options{Clock: func() time.Time { return now }})
	defer s.Close()
	// Shards of several pieces each.
	const stay, leak = 40, 12
	want := make(map[string]int)
	fill := func(key string, rate float64) {
		t.Helper()
		op := store.Op{Bucket: store.Limit{Capacity: 10, LeakRate: rate}.For(key), Amount: 1}
		if _, err := s.Fill(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	sh := &s.shards[0]
	long, buf := slices.Repeat([]byte("k"), 100), make([]byte, 0, 120)
	for i := 0; sh.live < 6*visitPiece; i++ {
		key := string(strconv.AppendInt(append(buf[:0], long[:i%100]...), int64(i), 10))
		if of, _ := s.shard(key); of != sh {
			continue
		}
		if len(want) < sh.live/leak {
			want[key] = 0
			fill(key, 0)
		} else {
			fill(key, 1)
		}
	}
	visits, resized := 0, 0
	err := s.Visit(t.Context(), "", func(e store.Entry) bool {
		if _, stays := want[e.Key]; stays {
			want[e.Key]++
		}
		switch visits++; visits {
		case visitPiece / 2, 3 * visitPiece:
			now = now.Add(time.Hour)
			before := len(sh.slots)
			if _, err := s.Prune(t.Context()); err != nil {
				t.Error(err)
			}
			if len(sh.slots) != before {
				resized++
			}
		}
		return true
	})
	if err != nil || resized == 0 {
		t.Errorf("Visit: %v; the shard was resized %d times, want at least once", err, resized)
	}
	if len(want) < stay {
		t.Fatalf("%d buckets stay, too few", len(want))
	}
	for key, n := range want {
		if n != 1 {
			t.Errorf("a bucket that stays, %q, was visited %d times", key, n)
		}
	}
}

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
