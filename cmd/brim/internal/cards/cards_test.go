package cards

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

func budgets(t testing.TB, clock *simulate.Clock) *spend.Budgets {
	t.Helper()
	l := memledger.New(&memledger.Options{Clock: clock.Now})
	eur := func(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }
	b, err := spend.New(l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("month", eur(2000_00), 30*24*time.Hour), spend.Count("burst", 4, 10*time.Minute),
		spend.Rolling("travel", eur(800_00), 7*24*time.Hour).Matching("category", "travel", "hotel").CountsCredits(),
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func replayed(t *testing.T, log string) *Report {
	t.Helper()
	r, err := NewReader(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	clock := new(simulate.Clock)
	rep, err := Replay(t.Context(), r, budgets(t, clock), clock, 2)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// A log with every kind of event, in which each rule declines.
func TestReplay(t *testing.T) {
	const log = `time,kind,id,account,ref,amount,currency,final,force,category
2026-01-01T08:00:00Z,spend,1,card,,500.00,EUR,,,travel
2026-01-01T08:00:05Z,spend,1,card,,500.00,EUR,,,travel
2026-01-02T08:00:00Z,spend,2,card,,400.00,EUR,,,travel
2026-01-03T08:00:00Z,authorize,3,card,,900.00,EUR,,,hotel
2026-01-09T08:00:00Z,authorize,4,card,,700.00,EUR,,,hotel
2026-01-09T09:00:00Z,increase,5,,4,50.00,EUR,,,
2026-01-10T09:00:00Z,capture,6,,4,740.00,EUR,true,,
2026-01-11T09:00:00Z,refund,7,,4,40.00,EUR,,,
2026-01-12T08:00:00Z,authorize,8,card,,900.00,EUR,,,
2026-01-12T08:00:10Z,authorize,9,card,,20.00,EUR,,,restaurant
2026-01-12T09:00:00Z,capture,10,,9,25.00,EUR,true,true,
2026-01-12T10:00:00Z,authorize,11,other,,30.00,EUR,,,fuel
2026-01-12T11:00:00Z,void,12,,11,,,,,
2026-01-13T08:00:00Z,spend,13,other,,1.00,EUR,,,
2026-01-13T08:00:01Z,spend,14,other,,1.00,EUR,,,
2026-01-13T08:00:02Z,spend,15,other,,1.00,EUR,,,
2026-01-13T08:00:03Z,spend,16,other,,1.00,EUR,,,
2026-01-13T08:00:04Z,spend,17,other,,1.00,EUR,,,
2026-01-14T08:00:00Z,record,18,third,,5000.00,EUR,,,
`
	rep := replayed(t, log)
	if rep.Approved != 9 || rep.Declined != 4 || rep.Replayed != 1 || rep.Accounts != 3 || rep.Unparsed != 0 {
		t.Errorf("got %+v", rep)
	}
	for _, kind := range []string{"spend", "authorize", "increase", "capture", "void", "refund", "record"} {
		if rep.ByKind[kind] == 0 {
			t.Errorf("no %s in the report", kind)
		}
	}
	if want := map[string]int64{"month": 1, "burst": 1, "travel": 2}; !maps.Equal(rep.ByRule, want) {
		t.Errorf("declined by %v; want %v", rep.ByRule, want)
	}
	if len(rep.Top) != 2 || rep.Top[0] != (Top{Account: "card", Declined: 3, Approved: 4}) {
		t.Errorf("the most declined are %+v", rep.Top)
	}
}

func TestReplayCredit(t *testing.T) {
	const log = `time,kind,id,account,amount,currency,category
2026-01-01T00:00:00Z,spend,1,card,700.00,EUR,travel
2026-01-01T00:00:01Z,spend,2,card,200.00,EUR,travel
2026-01-01T00:00:02Z,credit,3,card,100.00,EUR,travel
2026-01-01T00:00:03Z,spend,4,card,200.00,EUR,travel
`
	rep := replayed(t, log)
	if rep.Approved != 2 || rep.Declined != 1 || rep.ByKind["credit"] != 1 || rep.Spent.Minor != 900_00 || len(rep.Failed) != 0 {
		t.Errorf("got %+v", rep)
	}
}

func TestBadLogs(t *testing.T) {
	for _, text := range []string{"", "time,kind\n", "time,time,kind,id,account,amount,currency\n"} {
		if _, err := NewReader(strings.NewReader(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
	const log = `# a comment
time,kind,id,account,amount,currency,ref,final
2026-01-01T00:00:00Z,authorize,1,card,10.00,EUR,,
yesterday,spend,2,card,10.00,EUR,,
2026-01-01T00:00:01Z,capture,3,,10.001,EUR,1,
2026-01-01T00:00:01Z,capture,4,,10.00,EUR,1,perhaps
2026-01-01T00:00:01Z,capture,5,,10.00,EUR,1,true
2026-01-01T00:00:02Z,capture,6,,1.00,EUR,1,true
2026-01-01T00:00:03Z,steal,7,card,1.00,EUR,,
"
`
	rep := replayed(t, log)
	if rep.Unparsed != 3 || rep.Events != 5 || !strings.HasPrefix(rep.Bad[0], "line 4:") || rep.Spent.Minor != 10_00 {
		t.Errorf("got %+v", rep)
	}
	for reason, n := range map[string]int64{spend.ErrAmount.Error(): 1, spend.ErrHoldEnded.Error(): 1, errKind.Error(): 1} {
		if rep.Failed[reason] != n {
			t.Errorf("%s: %d; want %d", reason, rep.Failed[reason], n)
		}
	}
}
