package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/pgledger"
)

// teams is the number of accounts that are charged together with others.
const teams = 100

// spends returns the decisions of package spend on accounts under three rules.
func spends(l *pgledger.Ledger) (subject, error) {
	rules := []spend.Rule{
		spend.Rolling("rolling", euros(1<<50), 30*24*time.Hour),
		spend.Calendar("month", euros(1<<50), spend.Month, time.UTC),
		spend.PerTransaction("single", euros(1<<40)),
	}
	cards, err := spend.New(l, spend.Budget{Name: "cards", Currency: "EUR", Rules: rules}, &spend.Options{
		Budgets: []spend.Budget{{Name: "teams", Currency: "EUR", Rules: rules}},
	})
	earlier := func(key string, n int) string { return fmt.Sprintf("earlier %s %d", key, n) }
	earliers := func(key string) int { // a caller of a locked row refunds another spend each time
		if strings.HasPrefix(key, held(0)[:4]) {
			return 32
		}
		return 1
	}
	return subject{
		rows: 10_000, locked: []int{1, 2, 10},
		lock: "SELECT FROM brim.buckets_accounts WHERE key >= 'cards/' || $1 AND key < 'cards/' || $2 ORDER BY key FOR UPDATE",
		prepare: func(ctx context.Context, key string) error {
			for n := range earliers(key) {
				if _, err := cards.Charge(ctx, spend.Request{ID: earlier(key, n), Account: key, Amount: euros(1 << 30)}); err != nil {
					return err
				}
			}
			return nil
		},
		decide: func(ctx context.Context, key string, caller int) (bool, error) {
			id := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
			var d spend.Decision
			var err error
			switch r := (spend.Request{ID: id, Account: key, Amount: euros(1)}); caller {
			case kinds - 1:
				d, err = cards.Refund(ctx, spend.RefundRequest{ID: id, SpendID: earlier(key, rand.IntN(earliers(key))), Amount: euros(1)})
			case kinds - 2:
				r.Also = []spend.Account{{Budget: "teams", Name: fmt.Sprint(crc32.ChecksumIEEE([]byte(key)) % teams)}}
				d, err = cards.Charge(ctx, r)
			default:
				d, err = cards.Charge(ctx, r)
			}
			return d.Approved, err
		},
	}, err
}

func euros(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "EUR"} }
