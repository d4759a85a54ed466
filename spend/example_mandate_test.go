package spend_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// An agent pays for calls of APIs by x402. Its mandate allows 0.10 for a payment and 0.25 for the
// session, and all sessions of the payer together may spend 10.00 a day. Amounts are in the units
// of the token, millionths of a dollar.
func Example_mandate() {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	l := memledger.New(&memledger.Options{Clock: func() time.Time { return now }}) // leave the clock out for that of the machine
	usd := func(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "USD"} }
	sessions, err := spend.New(context.Background(), l, spend.Budget{Name: "sessions", Currency: "USD:6", Rules: []spend.Rule{
		spend.PerTransaction("payment", usd(10)),
		spend.Lifetime("session", usd(25)),
		spend.PerTransaction("other payees", usd(0)).NotMatching("payee", "0xMaps", "0xNews"),
	}}, &spend.Options{Budgets: []spend.Budget{{Name: "payers", Currency: "USD:6", Rules: []spend.Rule{
		spend.Calendar("day", usd(10_00), spend.Day, time.UTC),
	}}}})
	if err != nil {
		log.Fatal(err)
	}

	// sign asks before the wallet signs. The nonce of the signature is the ID: to ask again is to
	// ask for the same payment. The payee can settle the signature until it ends, so the money is
	// held until then, and is spent if nobody tells its outcome.
	sign := func(nonce, payee string, amount int64, valid time.Duration) bool {
		d, err := sessions.Authorize(context.Background(), spend.Request{
			ID: nonce, Account: "session-1", Amount: spend.Money{Minor: amount, Currency: "USD:6"},
			Also: []spend.Account{{Budget: "payers", Name: "0xAlice"}},
			Tags: map[string]string{"payee": payee}, TTL: valid, OnExpiry: spend.SpendOnExpiry,
		})
		if err != nil {
			log.Fatal(err) // do not sign
		}
		fmt.Print(nonce, ": approved ", d.Approved)
		for _, x := range d.Declines {
			fmt.Printf(", %s of %s", x.Rule, x.Budget)
		}
		fmt.Println()
		return d.Approved
	}
	// settled notes the amount that the payee has settled: all of it by the scheme "exact", and at
	// most all of it by "upto".
	settled := func(nonce string, amount int64) {
		_, err := sessions.Capture(context.Background(), spend.CaptureRequest{
			ID: nonce + "/settled", HoldID: nonce, Amount: spend.Money{Minor: amount, Currency: "USD:6"}, Final: true,
		})
		if err != nil {
			log.Fatal(err)
		}
	}

	if sign("0x01", "0xMaps", 40_000, time.Minute) {
		settled("0x01", 40_000)
	}
	sign("0x02", "0xNews", 100_001, time.Minute)
	sign("0x03", "0xCasino", 10_000, time.Minute)
	if sign("0x04", "0xNews", 100_000, time.Minute) {
		settled("0x04", 62_500)
	}
	sign("0x05", "0xMaps", 90_000, time.Minute) // no answer comes
	now = now.Add(time.Hour)
	sign("0x06", "0xMaps", 60_000, time.Minute)

	// The chain tells that nobody has settled 0x05, and nobody can any more.
	_, err = sessions.Refund(context.Background(), spend.RefundRequest{
		ID: "0x05/unsettled", SpendID: "0x05", Amount: spend.Money{Minor: 90_000, Currency: "USD:6"},
	})
	if err != nil {
		log.Fatal(err)
	}
	sign("0x07", "0xMaps", 60_000, time.Minute)
	// Output:
	// 0x01: approved true
	// 0x02: approved false, payment of sessions
	// 0x03: approved false, other payees of sessions
	// 0x04: approved true
	// 0x05: approved true
	// 0x06: approved false, session of sessions
	// 0x07: approved true
}
