package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/internal/table"
)

// The largest numbers of attempts in a picture of a level and in a list of decisions, which are in
// memory until the end.
const (
	maxDrawn  = 2_000_000
	maxListed = 10_000
)

// simulateFlags are the flags of simulate beside the limit.
type simulateFlags struct {
	pattern simulate.Pattern
	shape   string
	length  duration.Value
	retry   duration.Value
	at      arrivals
	fillup  bool
	queue   bool
	maxWait duration.Value
	timeout duration.Value
	penalty string
	each    bool
	compare bool
	plot    string
}

// use returns the way in which the callers use the bucket.
func (f *simulateFlags) use() (simulate.Use, error) {
	u := simulate.Use{Fillup: f.fillup, Queue: f.queue, MaxWait: f.maxWait.Std()}
	if f.penalty != "" {
		d, err := blockFor(f.penalty)
		if err != nil {
			return u, usagef("--penalty is %q; it must be a positive time like 90s or 15m, or until-empty", f.penalty)
		}
		u.Penalty = d
	}
	if err := u.Validate(); err != nil {
		return u, usagef("--fillup, --queue, --max-wait, --penalty: %w", err)
	}
	return u, nil
}

// check completes the pattern, and returns an error if the flags contradict each other or the
// limit.
func (f *simulateFlags) check(l simulate.Limit) error {
	p := &f.pattern
	p.Shape, p.Duration, p.RetryEvery, p.List = simulate.Shape(f.shape), f.length.Std(), f.retry.Std(), f.at
	p.Timeout = f.timeout.Std()
	if len(f.at) > 0 {
		if p.Rate != 0 || p.Burst != 0 || p.Shape != simulate.Constant || p.Cost != 1 {
			return usagef("--at lists the arrivals; leave out --rate, --pattern, --burst and --cost")
		}
		p.Shape, p.Duration = simulate.Listed, f.at[len(f.at)-1].At
		f.shape = string(p.Shape)
	}
	switch {
	case p.Rate == 0 && len(f.at) == 0:
		return usagef("--rate is missing: the number of arrivals per second; or list them with --at")
	case p.Keys < 1:
		return usagef("--keys is %d; it must be 1 or more", p.Keys)
	case p.Attempts < 1:
		return usagef("--attempts is %d; it must be 1 or more", p.Attempts)
	case !(p.Cost > 0):
		return usagef("--cost is %v; it must be above 0", p.Cost)
	case p.Attempts == 1 && (p.RetryEvery > 0 || p.Jitter > 0):
		return usagef("--retry-every and --jitter need --attempts of 2 or more: with 1, nobody comes back")
	case p.Timeout > 0 && p.Attempts == 1 && !f.queue:
		return usagef("--timeout needs callers who wait: add --queue, or --attempts of 2 or more")
	case p.Attempts > 1 && f.fillup:
		return usagef("--attempts needs refusals; leave out --fillup")
	}
	if err := p.Validate(); err != nil {
		return usagef("--%w", err) // the error begins with the name of the flag
	}
	if err := l.ValidateAmount(p.Cost); err != nil {
		return usagef("--cost: %w", err)
	}
	for _, a := range f.at {
		if err := l.ValidateAmount(a.Cost); err != nil {
			return usagef("--at: %w", err)
		}
	}
	if l.Use.Queue && l.LeakRate == 0 {
		return usagef("--queue needs a limit that leaks: without it no turn ever comes")
	}
	if err := checkPicture(f.plot); err != nil {
		return err
	}
	if f.compare {
		return f.checkCompare(l)
	}
	return f.checkSize()
}

// checkSize returns an error if there are too many decisions to draw or to list.
func (f *simulateFlags) checkSize() error {
	most := f.attempts()
	switch {
	case f.each && most > maxListed:
		return usagef("%.0f attempts are too many to list; choose a shorter --duration with at most %d", most, maxListed)
	case f.plot != "" && most/float64(f.pattern.Keys) > maxDrawn:
		return usagef("the first key may see %.0f attempts, too many for a picture; choose a shorter --duration",
			most/float64(f.pattern.Keys))
	}
	return nil
}

// attempts returns the largest number of attempts, in the mean if the pattern is random.
func (f *simulateFlags) attempts() float64 {
	p := &f.pattern
	if len(p.List) > 0 {
		return float64(len(p.List) * p.Attempts)
	}
	return p.Rate * p.Duration.Seconds() * float64(p.Attempts)
}

// cost returns the cost of every arrival, or 0 if the costs differ.
func (f *simulateFlags) cost() float64 {
	if len(f.at) > 0 {
		return 0
	}
	return f.pattern.Cost
}

// watch returns the function that records the decisions for the picture and the list, or nil.
func (f *simulateFlags) watch(levels *simulate.Levels, result *simulationJSON) func(simulate.Event) {
	draw := f.plot != ""
	if !draw && !f.each {
		return nil
	}
	return func(e simulate.Event) {
		if draw {
			levels.Add(e)
		}
		if f.each {
			result.Decisions = append(result.Decisions, newStepJSON(e))
		}
	}
}

// stepJSON is the JSON of one decision. Times are in seconds.
type stepJSON struct {
	At         float64  `json:"at"` // after the start
	Key        string   `json:"key"`
	Cost       float64  `json:"cost"`
	Accepted   bool     `json:"accepted"`
	Full       bool     `json:"full"` // the arrival filled the bucket up
	Spilled    float64  `json:"spilled"`
	Level      float64  `json:"level"`
	Turn       float64  `json:"turn"`        // after the start; with --queue
	RetryAfter *float64 `json:"retry_after"` // after a refusal; null if it can never fit
}

func newStepJSON(e simulate.Event) stepJSON {
	at := e.At.Sub(simulate.Start)
	return stepJSON{
		At: at.Seconds(), Key: e.Arrival.Key, Cost: e.Arrival.Cost, Accepted: e.Accepted, Full: e.Full,
		Spilled: e.Spilled, Level: e.Level, Turn: (at + e.Wait).Seconds(), RetryAfter: humanize.SecondsOrNull(e.RetryAfter),
	}
}

// decisions returns the table of --each.
func (f *simulateFlags) decisions(all []stepJSON) *table.Table {
	columns := []table.Column{table.Right("AT")}
	if f.pattern.Keys > 1 {
		columns = append(columns, table.Left("KEY"))
	}
	columns = append(columns, table.Right("COST"), table.Left("ANSWER"), table.Right("LEVEL"))
	switch {
	case f.fillup:
		columns = append(columns, table.Right("LOST"))
	case f.queue:
		columns = append(columns, table.Right("TURN"), table.Right("RETRY AFTER"))
	default:
		columns = append(columns, table.Right("RETRY AFTER"))
	}
	t := table.New(columns...)
	for _, d := range all {
		cells := []string{precise(d.At)}
		if f.pattern.Keys > 1 {
			cells = append(cells, d.Key)
		}
		cells = append(cells, units(d.Cost), answer(d, f.fillup), units(d.Level))
		switch {
		case f.fillup:
			cells = append(cells, unless(d.Spilled == 0, units(d.Spilled)))
		case f.queue:
			cells = append(cells, unless(!d.Accepted, precise(d.Turn)), unless(d.Accepted, comeBackIn(d.RetryAfter)))
		default:
			cells = append(cells, unless(d.Accepted, comeBackIn(d.RetryAfter)))
		}
		t.Add(cells...)
	}
	return t
}

// answer names the answer to an arrival.
func answer(d stepJSON, fillup bool) string {
	s := "refused"
	switch {
	case d.Accepted:
		s = "accepted"
	case fillup:
		s = "overflowed"
	}
	if d.Full {
		s += ", full"
	}
	return s
}

// unless returns an empty cell if it is empty, and the text otherwise.
func unless(empty bool, text string) string {
	if empty {
		return ""
	}
	return text
}

// comeBackIn writes the time until a refused arrival would fit.
func comeBackIn(seconds *float64) string {
	if seconds == nil {
		return "never"
	}
	return precise(*seconds)
}

// precise writes seconds to a microsecond.
func precise(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond).String()
}

// arrivals is the value of --at: times, each with a cost in front if it is not 1.
type arrivals []simulate.Timed

func (a *arrivals) Type() string { return "list" }

func (a *arrivals) String() string {
	var all []string
	for _, t := range *a {
		all = append(all, fmt.Sprintf("%v@%v", t.Cost, t.At))
	}
	return strings.Join(all, ",")
}

func (a *arrivals) Set(text string) error {
	*a = nil
	for item := range strings.SplitSeq(text, ",") {
		t := simulate.Timed{Cost: 1}
		cost, at, found := strings.Cut(item, "@")
		if !found {
			at = item
		} else if c, err := strconv.ParseFloat(cost, 64); err == nil {
			t.Cost = c
		} else {
			return fmt.Errorf("%q is not a cost and a time, like 3@2s", item)
		}
		d, err := duration.Parse(at)
		if err != nil {
			return err
		}
		t.At = d
		*a = append(*a, t)
	}
	return nil
}
