package bolt

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// TestFailedCloseMarksNothing: Close cannot write the changes that only the journal has. Nothing may
// note in the file that the file has all changes: the next Open would not read them from the journal.
func TestFailedCloseMarksNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	fillup(t, s, "k", 1)
	fillup(t, s, "k", 1)
	if _, err := s.Apply(t.Context(), longFills("long", 900)...); err != nil {
		t.Fatal(err)
	}
	database(s).MaxSize = 1
	if err := s.Close(); err == nil {
		t.Fatal("the file had no room, and the store was closed without an error")
	}
	if err := s.db.Checkpoint(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a write after Close: %v; want ErrClosed", err)
	}
	again := openAt(t, path, nil)
	levelIs(t, again, "k", 2)
	if entries, err := paging.All(t.Context(), again, ""); err != nil || len(entries) != 901 {
		t.Errorf("%d buckets, %v; want 901", len(entries), err)
	}
}

// TestFailedFlushAnswersAll: the second capture of a hold fails because the first one is in the same
// flush. If the flush fails, the hold still stands, and ErrNotHeld would be wrong.
func TestFailedFlushAnswersAll(t *testing.T) {
	limit := store.Limit{Capacity: 10}
	capture := request{op: store.Op{Bucket: limit.For("k"), Amount: 5, Hold: -5, Mode: store.Always}}
	for name, o := range map[string]*Options{"with a journal": nil, "without a journal": {NoJournal: true}} {
		t.Run(name, func(t *testing.T) {
			s := openTemp(t, o)
			for _, hold := range []float64{2, 3} {
				if _, err := s.Fill(t.Context(), store.Op{Bucket: limit.For("k"), Hold: hold}); err != nil {
					t.Fatal(err)
				}
			}
			batch := []*combine.Request[request, reply]{{In: capture}, {In: capture}}
			goOn := holdUp(t, s)
			defer goOn()
			if o != nil {
				database(s).MaxSize = 1
				batch = append(batch, &combine.Request[request, reply]{In: request{kind: apply, txns: longFills("long", 900)}})
				s.flush(0, batch)
			} else {
				s.db.File().Refuse("a commit failed")
				s.flush(0, batch)
			}
			for i, r := range batch {
				if !errors.Is(r.Err, store.ErrUnavailable) {
					t.Errorf("request %d: %v; want ErrUnavailable", i, r.Err)
				}
			}
		})
	}
}
