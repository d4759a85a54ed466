package spendload

import (
	"fmt"
	"math"
	"testing"

	"github.com/brimgo/brim/spend/ledger"
)

// Bounded sees that the reader of a ledger looks at no more entries than the limit, and at no more
// corrections, whatever their dates. read is [ledger.Snapshot.Entries] of the reader.
func Bounded(
	t *testing.T, l ledger.Ledger,
	read func(account string, after ledger.Place, upto int64, limit int) ([]ledger.Entry, ledger.Place, error),
) {
	const key, each, limit = "bounded/a", 100, 8
	var entries []ledger.Entry
	add := func(at, dated int64, corrects int64) {
		for range each {
			seq := int64(len(entries) + 1)
			e := ledger.Entry{
				Account: key, Seq: seq, At: at, Dated: dated, Part: corrects, Kind: "spend", Used: 1, Amount: 1, SpendAmount: 1,
				Currency: "EUR", RequestID: fmt.Sprint(seq), SpendID: fmt.Sprint(seq),
			}
			if corrects == 0 {
				e.Part = seq
			}
			entries = append(entries, e)
		}
	}
	add(10, 10, 0)
	add(20, 5, 1)
	add(20, 10, 1)
	err := l.Decide(t.Context(), &ledger.Job{Accounts: []string{key}, Run: func(ledger.Snapshot) (*ledger.Changes, error) {
		return &ledger.Changes{Accounts: []ledger.Account{{Key: key, State: []byte("state")}}, Entries: entries}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		after   ledger.Place
		most    int // entries
		through ledger.Place
	}{
		{"entries of one date", ledger.EndOf(5), 2 * limit, ledger.Place{Dated: 10, Seq: limit}},
		{"entries of a date from within", ledger.Place{Dated: 10, Seq: 50}, 2 * limit, ledger.Place{Dated: 10, Seq: 50 + limit}},
		{"corrections of one date", ledger.Place{Dated: 10, Seq: each}, limit, ledger.Place{Dated: 10, Seq: 2*each + limit}},
		{"corrections of an earlier date", ledger.EndOf(10), 0, ledger.Place{Dated: 20, Seq: each + limit}},
	} {
		page, through, err := read(key, c.after, math.MaxInt64, limit)
		if err != nil || len(page) > c.most || through != c.through {
			t.Errorf("%s: %d entries up to %d, %v; want %d at most, up to %d", c.name, len(page), through, err, c.most, c.through)
		}
	}
}
