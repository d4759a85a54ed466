package store

import (
	"errors"
	"testing"

	"github.com/brimgo/brim/internal/differ"
)

// TestDecideUndoes: an error undoes the operations before it, also in the records.
func TestDecideUndoes(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	a, b := Record{Level: 2, Time: noon, Limit: limit}, Record{Level: 8, Time: noon, Limit: limit}
	before := [2]Record{a, b}
	txn := Txn{{Bucket: limit.For("a"), Amount: 3}, {Bucket: limit.For("b"), Hold: -1, Mode: Always}}
	res, effects := Decide(txn, []*Record{&a, &b}, noon, DefaultMaxSkew)
	if !errors.Is(res.Err, ErrNotHeld) || res.Accepted || effects[0]|effects[1] != 0 {
		t.Errorf("%+v, %v; want ErrNotHeld and no effect", res, effects)
	}
	if d := differ.Fields([2]Record{a, b}, before); d != "" {
		t.Errorf("the records have changed:\n%s", d)
	}
}
