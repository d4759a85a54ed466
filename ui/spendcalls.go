package ui

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/brimgo/brim/spend"
)

// recentDeclines is the number of accounts and rules whose last decline a Recorder keeps.
const recentDeclines = 20

// spendCalls are the decisions and failed calls of each second, and the last declines.
type spendCalls struct {
	mu      sync.Mutex
	seconds [slots]struct{ second, approved, declined, failed uint32 }
	last    failedCall
	decided time.Time // the last decision
	seen    bool      // the hooks are in use
	recent  []declined
}

// declined is the last decline of an account by a rule.
type declined struct {
	at    time.Time // on the ledger's clock
	seen  time.Time // by this process's clock
	rule  spend.Decline
	more  int // further rules that refused
	times int // without a pause as long as [Window]
}

// like reports whether two declines are those of one account by one rule.
func (d declined) like(x declined) bool {
	return d.rule.Account == x.rule.Account && d.rule.Rule == x.rule.Rule && d.rule.Value == x.rule.Value && d.rule.Frozen == x.rule.Frozen
}

// Hooks returns the hooks by which the Recorder counts spends, for [spend.Options]. The first page
// then shows their decisions, declines and failures. They count the calls of this process. Times
// are by this process's clock.
func (r *Recorder) Hooks() spend.Hooks {
	r.spends.mu.Lock()
	r.spends.seen = true
	r.spends.mu.Unlock()
	return spend.Hooks{Decision: r.spent, End: r.spendEnded}
}

// spent is the hook of decisions.
func (r *Recorder) spent(_ context.Context, _ spend.Call, d spend.Decision) {
	if d.Replayed {
		return // counted before
	}
	now := r.clock()
	r.spends.mu.Lock()
	defer r.spends.mu.Unlock()
	r.spends.decided = now
	second := &r.spends.seconds[r.spends.second(now)]
	if d.Approved {
		second.approved++
		return
	}
	second.declined++
	if len(d.Declines) > 0 {
		last := declined{d.At, now, d.Declines[0], len(d.Declines) - 1, 1}
		out := slices.IndexFunc(r.spends.recent, last.like)
		if out >= 0 && now.Sub(r.spends.recent[out].seen) < Window {
			last.times += r.spends.recent[out].times
		}
		if out >= 0 || len(r.spends.recent) == recentDeclines {
			r.spends.recent = slices.Delete(r.spends.recent, max(0, out), max(0, out)+1)
		}
		r.spends.recent = append(r.spends.recent, last)
	}
}

// spendEnded is the hook at the end of a call. Calls that were wrong, or whose caller left, are no
// failures of the ledger, and the page tells of its own ones itself.
func (r *Recorder) spendEnded(ctx context.Context, _ spend.Call, o spend.Outcome) {
	switch o.Label() {
	case "failed", "unknown", "late":
	default:
		return
	}
	if isOwn(ctx) {
		return
	}
	now := r.clock()
	r.spends.mu.Lock()
	defer r.spends.mu.Unlock()
	r.spends.seconds[r.spends.second(now)].failed++
	r.spends.last = failedCall{now, o.Err.Error()}
}

// second returns the place of a time, and empties it if it was that of another second.
func (c *spendCalls) second(now time.Time) int {
	at, second := int(uint64(now.Unix())%slots), uint32(now.Unix())
	if c.seconds[at].second != second {
		c.seconds[at] = struct{ second, approved, declined, failed uint32 }{second: second}
	}
	return at
}

// spendView are the spends of the last [Window].
type spendView struct {
	seen                       bool
	approved, declined, failed [slots]uint32
	failure                    failedNow
	answered                   time.Duration // since the last decision; noDecision if there is none
	recent                     []declined    // the latest last
}

func (c *spendCalls) view(now time.Time) (y spendView) {
	c.mu.Lock()
	defer c.mu.Unlock()
	y.seen, y.failure, y.answered = c.seen, c.last.now(now), noDecision
	if !c.decided.IsZero() {
		y.answered = max(0, now.Sub(c.decided))
	}
	for at := range slots {
		second := now.Unix() - slots + 1 + int64(at)
		if s := &c.seconds[uint64(second)%slots]; int64(s.second) == second {
			y.approved[at], y.declined[at], y.failed[at] = s.approved, s.declined, s.failed
		}
	}
	for _, d := range c.recent {
		if now.Sub(d.seen) < Window {
			y.recent = append(y.recent, d)
		}
	}
	return y
}
