package spendtest

import (
	"fmt"
	"math"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

func extend(of string, d time.Duration) call { return on("extend", 0).about(of).lasting(d) }

// gives wants these figures of a spend.
func gives(id, state string, held, captured, refunded int64) check {
	return func(s *fixture) {
		s.Helper()
		x, err := s.b.Get(ctx, s.named(id))
		if err != nil || x.Spend.State != state || x.Spend.Held.Minor != held || x.Spend.Captured.Minor != captured ||
			x.Spend.Refunded.Minor != refunded {
			s.Errorf("spend %s: %+v, %v; want %s, %d held, %d captured and %d refunded", id, x.Spend, err, state, held, captured, refunded)
		}
	}
}

// expiryCases are about holds whose expiry spends the money.
func expiryCases() []testCase {
	rules := []spend.Rule{
		month(1000), spend.Count("often", 3, 30*days), spend.Leaky("smooth", money(1000), 1000*days),
		spend.Rolling("each", money(1000), 30*days).Per("model"), spend.Calendar("day", money(1000), spend.Day, time.UTC),
	}
	return []testCase{
		{
			name: "a hold that its expiry spends", rules: rules,
			why: "a provider may have billed the call of a caller that died, so its money counts from the authorization on",
			steps: []step{
				authorize("h", 100).lasting(days).spent(), increase("h", 20), capture("h", 10), shows(10, 110, 880),
				after(days - time.Microsecond), shows(10, 110, 880), shows(10, 110, 880, "smooth"), able(881).no(29*days+time.Microsecond, "month", "smooth", "each"),
				after(time.Microsecond), shows(120, 0, 880), shows(119, 0, 881, "smooth"), shows(1, 0, 2, "often"), shows(120, 0, 880, "each"),
				shows(0, 0, 1000, "day"), gives("h", "expired", 0, 120, 0),
				void("h").fails(spend.ErrHoldExpired), capture("h", 5).fails(spend.ErrHoldExpired), capture("h", 5).forced().fails(spend.ErrHoldExpired),
				extend("h", days).fails(spend.ErrHoldExpired), refund("h", 121).fails(spend.ErrExceeds), refund("h", 30), shows(90, 0, 910),
				gives("h", "expired", 0, 120, 30), sound(7),
				after(10 * days), shows(79, 0, 921, "smooth"), after(19 * days), shows(0, 0, 1000), shows(0, 0, 3, "often"), sound(7),
			},
		},
		{
			name: "a hold that was captured after its expiry", rules: rules,
			why: "the error tells that the hold came to its end too late, also after money was taken all the same",
			steps: []step{
				authorize("h", 100).lasting(days), after(days), capture("h", 30).forced(), shows(30, 0, 970),
				capture("h", 1).fails(spend.ErrHoldExpired), void("h").fails(spend.ErrHoldExpired), increase("h", 1).fails(spend.ErrHoldExpired),
				capture("h", 5).forced(), gives("h", "expired", 0, 35, 0), cancel("h"), void("h").fails(spend.ErrHoldEnded), shows(0, 0, 1000), sound(6),
			},
		},
		{
			name: "cancel of a hold that its expiry has spent", rules: rules,
			why: "the caller knows now that the provider was never called: nothing counts",
			steps: []step{
				authorize("h", 100).lasting(days).spent().and(spend.Account{Budget: "cancel of a hold that its expiry has spent", Name: "team"}),
				after(2 * days), shows(100, 0, 900), cancel("h"), shows(0, 0, 1000), shows(0, 0, 3, "often"),
				gives("h", "canceled", 0, 100, 100), prune(0, 0), sound(3),
			},
		},
		{
			name: "an expiry that spends as much as an amount can be", rules: []spend.Rule{month(1000), spend.Lifetime("each", money(1000)).Per("model")},
			why: "used money never overflows: it would count as room",
			steps: []step{
				authorize("h", 1<<62).forced().lasting(days).spent(), record(1 << 62).fails(spend.ErrAmount), record(1<<62 - 1),
				after(days), shows(math.MaxInt64, 0, 1000-math.MaxInt64), shows(math.MaxInt64, 0, 1000-math.MaxInt64, "each"),
				charge(1).no(store.Never, "month", "each"), sound(4),
			},
		},
		{
			name: "extend changes the fate of a hold", rules: rules,
			why: "a call is released as long as it was not sent, and spent from then on",
			steps: []step{
				authorize("a", 100).lasting(days), extend("a", days).spent(), authorize("b", 50).lasting(days).spent(), extend("b", days).released(),
				authorize("c", 7).lasting(days).spent(), extend("c", 2*days), shows(0, 157, 843), after(days), shows(100, 7, 893),
				after(days), shows(107, 0, 893), sound(9), charge(1), charge(1).no(28*days, "often"), sound(14),
			},
		},
		{
			name: "a hold spends before a limit ends", rules: []spend.Rule{leaky(1024)},
			why: "its units leak from the expiry on, and RetryAfter knows it",
			steps: []step{
				raise("leaky", 512, 200*time.Second), authorize("h", 512).lasting(100 * time.Second).spent(), after(50 * time.Second),
				charge(600).no(188*time.Second, "leaky"), after(188 * time.Second), charge(600), shows(1024, 0, 0), sound(5),
			},
		},
		{
			name: "a hold spends after a limit has ended", rules: []spend.Rule{leaky(1024)},
			why: "the hold was open when the leak rate changed, so Verify begins with it",
			steps: []step{
				raise("leaky", 512, 50*time.Second), authorize("h", 512).lasting(100 * time.Second).spent(), after(200 * time.Second),
				charge(1), shows(413, 0, 611), sound(4),
			},
		},
		{
			name: "a caller that dies", rules: rules,
			why: "whatever step the caller of a provider has reached, the budget shows no room for a call that may have been billed",
			steps: []step{check(func(s *fixture) {
				const most, billed = 100, 60
				for step, want := range []int64{0, 0, most, most, billed} {
					id := fmt.Sprint("call", step)
					steps := []func(){
						func() { authorize(id, most).lasting(time.Hour).do(s) }, // the call is prepared
						func() { extend(id, time.Hour).spent().do(s) },          // from here on it may be sent
						func() {}, // the provider bills it
						func() { capture(id, billed).last().do(s) },
					}
					for _, do := range steps[:step] {
						do()
					}
					after(2 * time.Hour).do(s)
					list, err := s.b.Remaining(ctx, "card")
					if err != nil || list[0].Used.Minor != want || list[0].Held.Minor != 0 {
						s.Errorf("after %d steps: %+v, %v; want %d used", step, list[0], err, want)
					}
					after(30 * days).do(s)
				}
			})},
		},
	}
}
