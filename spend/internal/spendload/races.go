package spendload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// raceBudgets allows 100.00 EUR in any 30 days.
func raceBudgets(ctx context.Context, l ledger.Ledger) (*spend.Budgets, error) {
	return spend.New(ctx, l, spend.Budget{Name: "races", Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("month", euros(100_00), 30*24*time.Hour),
	}}, nil)
}

// Seed returns the seed of BRIM_SEED, or a new one, and logs it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	n, err := seed.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("BRIM_SEED=%d repeats what is random here, and not the order of goroutines and processes", n)
	return n
}

// Race has goroutines charge random amounts from least to most, in cents, to one account of 100.00
// EUR a month. The amounts come from a seed. Race stops after the given number of tries and returns
// the sum of the approved amounts. Unless it is nil, told gets the ID and the amount of each
// approval.
func Race(
	l ledger.Ledger, account string, seed uint64, goroutines, tries int, least, most int64, told func(id string, amount int64),
) (approved int64, err error) {
	b, err := raceBudgets(context.Background(), l)
	if err != nil {
		return 0, err
	}
	var tried, sum atomic.Int64
	errs := make(chan error, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(g)))
			for tried.Add(1) <= int64(tries) {
				n := least + r.Int64N(most-least+1)
				id := fmt.Sprintf("races-%x", rand.Uint64())
				d, err := b.Charge(context.Background(), spend.Request{ID: id, Account: account, Amount: euros(n)})
				switch {
				case err != nil:
					errs <- err
					return
				case d.Approved && told != nil:
					told(id, n)
					fallthrough
				case d.Approved:
					sum.Add(n)
				}
			}
		})
	}
	wg.Wait()
	select {
	case err = <-errs:
	default:
	}
	return sum.Load(), err
}

// Races has 64 goroutines race for accounts of 100.00 EUR a month, through
// ledgers that share their data. Charges of 1.00 are approved exactly 100
// times. Charges of random amounts never exceed 100.00, and the remainder
// still fits exactly. With -short, it makes one run instead of three.
func Races(t *testing.T, ledgers []ledger.Ledger) {
	from := Seed(t)
	b, err := raceBudgets(t.Context(), ledgers[0])
	if err != nil {
		t.Fatal(err)
	}
	accounts := 3
	if testing.Short() {
		accounts = 1
	}
	for i := range accounts {
		if sum := race(t, ledgers, fmt.Sprint("ones:", i), from, 1_00, 1_00); sum != 100_00 {
			t.Errorf("%d charges of 1.00 were approved; want exactly 100", sum/1_00)
		}
		account := fmt.Sprint("random:", i)
		sum := race(t, ledgers, account, from+uint64(i*len(ledgers)), 1, 90)
		if sum > 100_00 || sum < 90_00 {
			t.Errorf("charges of %d cents were approved; want 9000 to 10000", sum)
		}
		remainder(t, b, account, 100_00-sum)
	}
}

// Told checks an account of [Race] after kills: each approval that a caller was told is in the
// ledger once, with its amount, and the account has exactly the rest of 100.00 left.
func Told(t *testing.T, l ledger.Ledger, account string, approved map[string]int64) {
	t.Helper()
	b, err := raceBudgets(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	sum, found := int64(0), 0
	for e, err := range b.History(t.Context(), account, nil) {
		if err != nil {
			t.Fatal(err)
		}
		n, told := approved[e.RequestID]
		if sum += e.Used.Minor; told && n == e.Used.Minor {
			found++
		}
	}
	if found != len(approved) || sum > 100_00 {
		t.Errorf("%s: %d approvals of %d are in the ledger, and %d of %d cents were spent", account, found, len(approved), sum, 100_00)
	}
	if err := b.Verify(t.Context(), account); err != nil {
		t.Error(err)
	}
	remainder(t, b, account, 100_00-sum)
}

// Remainder checks that an account of [Race] has that many cents left, and not one more.
func Remainder(t *testing.T, l ledger.Ledger, account string, left int64) {
	t.Helper()
	b, err := raceBudgets(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	remainder(t, b, account, left)
}

func remainder(t *testing.T, b *spend.Budgets, account string, left int64) {
	t.Helper()
	for n, want := range map[int64]bool{left + 1: false, left: true} {
		if n == 0 {
			continue
		}
		d, err := b.AbleToAccept(context.Background(), spend.Request{Account: account, Amount: euros(n)})
		if err != nil || d.Approved != want {
			t.Errorf("%d cents of a remainder of %d: approved is %t, %v; want %t", n, left, d.Approved, err, want)
		}
	}
	if left == 0 {
		return
	}
	d, err := b.Charge(context.Background(), spend.Request{ID: fmt.Sprint("fit-", account), Account: account, Amount: euros(left)})
	if err != nil || !d.Approved {
		t.Errorf("charging the exact remainder of %d cents: %+v, %v; want an approval", left, d, err)
	}
}

// race shares 64 goroutines and 400 tries among the ledgers.
func race(t *testing.T, ledgers []ledger.Ledger, account string, seed uint64, least, most int64) (sum int64) {
	var total atomic.Int64
	var wg sync.WaitGroup
	for i, l := range ledgers {
		wg.Go(func() {
			n, err := Race(l, account, seed+uint64(i), 64/len(ledgers), 400/len(ledgers), least, most, nil)
			if err != nil {
				t.Error(err)
			}
			total.Add(n)
		})
	}
	wg.Wait()
	return total.Load()
}

// euros returns an amount of euros in cents.
func euros(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "EUR"} }
