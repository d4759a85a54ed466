package spendtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// goesBy wants that the ledger has these accounts, and that the card has the first name everywhere.
func goesBy(names ...string) check {
	return func(s *fixture) {
		s.Helper()
		prefix := s.c.name + "/"
		keys, _, err := s.l.Accounts(ctx, prefix, "", 0, 100)
		for i := range keys {
			keys[i] = keys[i][len(prefix):]
		}
		if want := slices.Sorted(slices.Values(names)); err != nil || !slices.Equal(keys, want) {
			s.Errorf("the ledger has the accounts %q, %v; want %q", keys, err, want)
		}
		list, err := s.b.Remaining(ctx, "card")
		if err != nil || list[0].Account.Name != names[0] {
			s.Errorf("the figures are of %+v, %v; want %s", list, err, names[0])
		}
		for _, name := range []string{"card", names[0]} {
			n := 0
			for e, err := range s.b.History(ctx, name, nil) {
				if n++; err != nil || e.Account.Name != names[0] {
					s.Errorf("the history of %s has %+v, %v; want entries of %s", name, e, err, names[0])
				}
			}
			if n == 0 {
				s.Errorf("the history of %s is empty", name)
			}
		}
		holds, err := collect(s.b.Holds(ctx, names[0]))
		if err != nil {
			s.Error(err)
		}
		for _, h := range holds {
			if got, err := s.b.Get(ctx, h.ID); err != nil || got.Spend.Accounts[0] != list[0].Account || got.Decision.Remaining[0].Account != list[0].Account {
				s.Errorf("the hold is %+v, %v; want one of %s", got, err, names[0])
			}
		}
	}
}

// chargesAll charges the card under these names, in one call.
func chargesAll(names ...string) check {
	return func(s *fixture) {
		var requests []spend.Request
		for _, name := range names {
			requests = append(requests, charge(10).to(name).in(s).money())
		}
		for i, a := range s.b.ChargeAll(ctx, requests) {
			if a.Err != nil || !a.Decision.Approved {
				s.Errorf("the charge of %s: %+v, %v", names[i], a.Decision, a.Err)
			}
		}
	}
}

// moveCases are about accounts that get another name.
func moveCases() []testCase {
	rules := []spend.Rule{month(1000), spend.Count("often", 9, 30*days)}
	return []testCase{
		{
			name: "a moved account", rules: rules,
			why: "a replaced card keeps its figures and its limits, and a request that was in flight under the old name finds them",
			steps: []step{
				charge(50).as("c"), authorize("h", 100), charge(2000).as("d").no(store.Never, "month"),
				limit(spend.RuleLimit{Rule: "month", Amount: money(500)}), move("new").as("m"), goesBy("new"), shows(50, 100, 350), sound(5),
				check(func(s *fixture) {
					if e := s.history(nil)[0]; e.Kind != "move" || !maps.Equal(e.Tags, map[string]string{"reason": "replaced"}) {
						s.Errorf("the entry of the move is %+v", e)
					}
				}),
				move("new").as("m").again(), move("third").as("m").fails(spend.ErrIDReused),
				charge(50).as("c").again(), charge(50).as("c").to("new").again(), charge(50).as("c").to("other").fails(spend.ErrIDReused),
				charge(51).as("c").fails(spend.ErrIDReused), charge(2000).as("d").again().no(store.Never, "month"),
				charge(20).as("late"), charge(20).as("late").to("new").again(), upTo(400).down(money(1)).as("up"), shows(400, 100, 0), charge(1).no(7*days, "month"),
				capture("h", 60).last(), shows(460, 0, 40), refund("c", 50), cancel("up").to("new"), cancel("up").again(), charge(1).as("up").canceled(), shows(80, 0, 420),
				cancel("unsent"), charge(5).as("unsent").to("new").canceled(), cancel("late").to("other").fails(spend.ErrRequest),
				authorize("g", 30).to("new"), cancel("g"), chargesAll("new", "card"), chargesAll("card"), shows(110, 0, 390), goesBy("new"), sound(18),
			},
		},
		{
			name: "the plan and the freeze of a moved account", rules: rules, plans: map[string][]spend.Rule{"gold": {month(5000)}},
			why: "a stolen card must not pay again because it has another number",
			steps: []step{
				plan("gold"), freeze("stolen"), move("new"), hasPlan("gold"), charge(1).no(store.Never, ""), charge(1).to("new").no(store.Never, ""),
				on("unfreeze", 0), charge(1), shows(1, 0, 4999), goesBy("new"), sound(7),
			},
		},
		{
			name: "moves that are refused", rules: rules,
			why: "no two accounts become one, and a request under a name never reaches an account that it did not mean",
			steps: []step{
				move("new").fails(spend.ErrRequest), move("card").fails(spend.ErrRequest), charge(1), charge(1).to("other"),
				move("other").fails(spend.ErrRequest), move("").fails(spend.ErrRequest), move("a\x00").fails(spend.ErrRequest), move("card").fails(spend.ErrRequest),
				check(func(s *fixture) {
					r := move("new").in(s)
					r.Reason = ""
					if _, err := r.Send(ctx, s.b); !errors.Is(err, spend.ErrRequest) {
						s.Errorf("a move without a reason: %v; want ErrRequest", err)
					}
				}),
				move("new"), move("new").fails(spend.ErrRequest), move("new").to("card").fails(spend.ErrRequest), move("card").to("other").fails(spend.ErrRequest), goesBy("new", "other"), sound(2),
			},
		},
		{
			name: "an account that moves again", rules: rules,
			why: "every name that an account has had leads to it, and also one that it gets back",
			steps: []step{
				charge(1).as("x"), move("b").as("m"), charge(2).as("y").to("b"), move("c"), charge(1).as("x").to("c").again(), charge(2).as("y").again(),
				charge(3).as("z"), charge(4).to("b"), shows(10, 0, 990), goesBy("c"), move("b").as("m").again(),
				move("b").to("b").fails(spend.ErrRequest), move("b").to("c"), goesBy("b"), charge(5).to("c"), shows(15, 0, 985),
				move("card").to("b"), charge(6).to("b"), charge(1).as("x").to("b").again(), shows(21, 0, 979), goesBy("card"),
				move("d"), charge(7), charge(8).to("c"), shows(36, 0, 964), goesBy("d"), sound(13),
			},
		},
		{
			name: "the old name is forgotten", rules: rules,
			why: "the ledger keeps a digest of the name as long as requests under it may come, and not for ever",
			steps: []step{
				charge(10).as("c"), move("new").as("m"), after(60 * days), charge(1).as("later"), after(20 * days), authorize("h", 5).lasting(20 * days), after(11*days - time.Hour), move("newer"), move("new"), after(time.Hour), prune(0, 3),
				charge(20), charge(3).to("new"), charge(1).as("later").fails(spend.ErrIDReused), charge(1).as("later").to("new").again(), capture("h", 5),
				shows(20, 0, 980), check(func(s *fixture) {
					for name, want := range map[string]int64{"new": 8, "card": 20} {
						if list, err := s.b.Remaining(ctx, name); err != nil || list[0].Used.Minor != want || list[0].Account.Name != name {
							s.Errorf("%s has %+v, %v; want %d used", name, list, err, want)
						}
						if err := s.b.Verify(ctx, name); err != nil {
							s.Errorf("%s: %v", name, err)
						}
					}
				}),
			},
		},
		{
			name: "moves of an account that pays with others", rules: rules,
			why: "money that counts against a moved account of a team counts there, whoever names it",
			steps: []step{check(func(s *fixture) {
				team, squad, third := spend.Account{Budget: s.c.name, Name: "team"}, spend.Account{Budget: s.c.name, Name: "squad"}, spend.Account{Budget: s.c.name, Name: "third"}
				for _, c := range []call{
					authorize("h", 100).and(team, third), charge(2000).as("d").and(team).no(store.Never, "month", "month"),
					move("squad").to("team"), move("new"), authorize("h", 100).and(third, squad).again(), authorize("h", 100).to("new").and(team, third).again(),
					authorize("h", 100).to("squad").and(third, team).fails(spend.ErrIDReused), authorize("h", 100).and(third).fails(spend.ErrIDReused),
					authorize("h", 100).to("third").and(team, spend.Account{Budget: s.c.name, Name: "card"}).fails(spend.ErrIDReused),
					charge(10).and(team), charge(10).and(spend.Account{Budget: s.c.name, Name: "new"}).fails(spend.ErrRequest), charge(10).to("squad").and(team).fails(spend.ErrRequest),
					capture("h", 60), cancel("d").to("new"),
				} {
					c.do(s)
				}
				d := charge(2000).as("d").and(team).canceled().no(0, "month", "month").decide(s)
				if d.Declines[0].Account.Name != "new" || d.Declines[1].Account.Name != "squad" {
					s.Errorf("%+v; want declines of the accounts by their present names", d.Declines)
				}
				for _, c := range []call{move("newer"), capture("d", 7).forced(), charge(2000).as("d").canceled().no(0, "month", "month")} {
					c.do(s)
				}
				list, err := s.b.Remaining(ctx, "team")
				if err != nil || list[0].Used.Minor != 70 || list[0].Held.Minor != 40 || list[0].Account.Name != "squad" {
					s.Errorf("the team has %+v, %v", list, err)
				}
			}), shows(77, 40, 883), goesBy("newer", "squad", "third"), sound(8)},
		},
		{
			name: "racing moves", rules: []spend.Rule{month(100)},
			why: "a charge that meets a move is decided on the account, and never on a new one with all of its limit",
			steps: []step{charge(1), check(func(s *fixture) {
				var approved, moves atomic.Int64
				s.race(func(racer, i int) error {
					c := charge(1).as(fmt.Sprintf("%d/%d", racer, i))
					if racer < 2 {
						c = move(fmt.Sprint("card ", moves.Add(1))).as(c.ID)
					}
					d, err := c.in(s).Send(ctx, s.b)
					if d.Approved && racer >= 2 {
						approved.Add(1)
					}
					return err
				})
				if approved.Load() != 99 {
					s.Errorf("%d charges of 1 were approved; want 99", approved.Load())
				}
				keys, _, err := s.l.Accounts(ctx, s.c.name+"/", "", 0, 100)
				if err != nil || len(keys) != 1 {
					s.Errorf("the ledger has the accounts %q, %v; want one", keys, err)
				}
			}), shows(100, 0, 0), sound(rounds*perRound*racers + 1)},
		},
		{
			name: "jobs after a move in one call", rules: rules,
			why: "a ledger that decides several jobs together must know the new key when it decides the next one",
			steps: []step{charge(1), check(func(s *fixture) {
				from, to, due := s.c.name+"/card", s.c.name+"/new", int64(77)
				errs := s.l.DecideAll(ctx, []*ledger.Job{
					{Accounts: []string{from, to}, Run: func(ledger.Snapshot) (*ledger.Changes, error) {
						return &ledger.Changes{Moved: []ledger.Move{{From: from, To: to}}}, nil
					}},
					{Accounts: []string{from, to}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
						old, err := snap.Account(from)
						if err != nil {
							return nil, err
						}
						now, err := snap.Account(to)
						if err == nil && (old.State != nil || now.State == nil || now.Key != to) {
							err = fmt.Errorf("the old key has the state %x, and the new one %+v", old.State, now)
						}
						now.Due = due
						return &ledger.Changes{Accounts: []ledger.Account{now}}, err
					}},
					{Accounts: []string{to}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
						now, err := snap.Account(to)
						if err == nil && now.Due != due {
							err = fmt.Errorf("the account is due at %d, and not at %d, as the job before has set it", now.Due, due)
						}
						return nil, err
					}},
				})
				if err := errors.Join(errs...); err != nil {
					s.Error(err)
				}
			}), check(func(s *fixture) {
				to := s.c.name + "/new" // package spend would not read it: a checksum covers the key
				if list, err := s.l.History(ctx, to, ledger.Position{}, 9); err != nil || len(list) != 1 || list[0].Account != to {
					s.Errorf("%+v, %v; want an entry of the new key", list, err)
				}
			})},
		},
	}
}
