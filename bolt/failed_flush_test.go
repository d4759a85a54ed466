package bolt

import (
	"errors"
	"testing"

	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/store"
)

// TestFailedFlushAnswersAll: the second capture of a hold fails because the first one is in the
// same flush. If the flush fails, the hold still stands, and ErrNotHeld would be wrong.
func TestFailedFlushAnswersAll(t *testing.T) {
	limit := store.Limit{Capacity: 10}
	capture := records.Request{Op: store.Op{Bucket: limit.For("k"), Amount: 5, Hold: -5, Mode: store.Always}}
	for name, o := range map[string]*Options{"with a journal": nil, "without a journal": {NoJournal: true}} {
		t.Run(name, func(t *testing.T) {
			s := openTemp(t, o)
			for _, hold := range []float64{2, 3} {
				mustFill(t, s, store.Op{Bucket: limit.For("k"), Hold: hold})
			}
			batch := []*records.Queued{{In: capture}, {In: capture}}
			goOn := holdUp(t, s)
			defer goOn()
			want := store.ErrMisconfigured
			if o != nil {
				want = store.ErrUnavailable
				database(s).MaxSize = 1
				batch = append(batch, &records.Queued{In: records.Request{Kind: records.Apply, Txns: longFills("long", 900)}})
				s.flush(0, batch)
			} else {
				s.db.File().Refuse("a commit failed")
				s.flush(0, batch)
			}
			for i, r := range batch {
				if !errors.Is(r.Err, want) {
					t.Errorf("request %d: %v; want %v", i, r.Err, want)
				}
			}
		})
	}
}
