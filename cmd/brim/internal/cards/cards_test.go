package cards

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

var some = Generation{Seed: 7, Cards: 40, Days: 90, Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Currency: "EUR"}

func generated(t testing.TB, g Generation) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Generate(t.Context(), &out, g); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

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

func TestGenerate(t *testing.T) {
	text := generated(t, some)
	if !bytes.Equal(text, generated(t, some)) {
		t.Error("one seed gives two logs")
	}
	other := some
	other.Seed++
	if bytes.Equal(text, generated(t, other)) {
		t.Error("two seeds give one log")
	}
	if !strings.HasPrefix(string(text), Synthetic) || strings.Count(string(text), "synthetic-card-") < 1000 {
		t.Error("the log does not state that it is synthetic, or has few events")
	}
	for _, bad := range []Generation{{}, {Cards: 1, Days: 1, Currency: "XXX"}, {Cards: 1 << 30, Days: 1, Currency: "EUR"}} {
		if err := Generate(t.Context(), &bytes.Buffer{}, bad); err == nil {
			t.Errorf("%+v makes a log", bad)
		}
	}
}

// A generated log contains every kind of event, and gives the same report each time.
func TestReplay(t *testing.T) {
	g := some
	if testing.Short() {
		g.Days = 30
	}
	text := generated(t, g)
	var reports []*Report
	for range 2 {
		r, err := NewReader(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		clock := new(simulate.Clock)
		rep, err := Replay(t.Context(), r, budgets(t, clock), clock, 3)
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, rep)
	}
	a, b := reports[0], reports[1]
	if a.Approved != b.Approved || a.Declined != b.Declined || a.Spent != b.Spent || a.Events != b.Events {
		t.Errorf("two replays differ: %+v and %+v", a, b)
	}
	for _, kind := range []string{"spend", "authorize", "increase", "capture", "void", "refund"} {
		if a.ByKind[kind] == 0 {
			t.Errorf("no %s in the log", kind)
		}
	}
	for _, rule := range []string{"month", "burst", "travel"} {
		if a.ByRule[rule] == 0 {
			t.Errorf("rule %s declined nothing", rule)
		}
	}
	if a.Replayed == 0 || a.Accounts != 40 || len(a.Top) != 3 || a.Unparsed != 0 ||
		a.Top[0].Declined < a.Top[2].Declined {
		t.Errorf("got %+v", a)
	}
}

func TestReplayCredit(t *testing.T) {
	const log = `time,kind,id,account,amount,currency,category
2026-01-01T00:00:00Z,spend,1,card,700.00,EUR,travel
2026-01-01T00:00:01Z,spend,2,card,200.00,EUR,travel
2026-01-01T00:00:02Z,credit,3,card,100.00,EUR,travel
2026-01-01T00:00:03Z,spend,4,card,200.00,EUR,travel
`
	r, err := NewReader(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	clock := new(simulate.Clock)
	rep, err := Replay(t.Context(), r, budgets(t, clock), clock, 3)
	if err != nil {
		t.Fatal(err)
	}
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
	r, err := NewReader(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	clock := new(simulate.Clock)
	rep, err := Replay(t.Context(), r, budgets(t, clock), clock, 3)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Unparsed != 3 || rep.Events != 5 || !strings.HasPrefix(rep.Bad[0], "line 4:") || rep.Spent.Minor != 10_00 {
		t.Errorf("got %+v", rep)
	}
	for reason, n := range map[string]int64{spend.ErrAmount.Error(): 1, spend.ErrHoldEnded.Error(): 1, errKind.Error(): 1} {
		if rep.Failed[reason] != n {
			t.Errorf("%s: %d; want %d", reason, rep.Failed[reason], n)
		}
	}
}
