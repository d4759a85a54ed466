package crash

import (
	"fmt"
	"strings"

	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/history"
)

// The number of calls of each class that fail in turn, by day and at night.
const (
	mostQuick   = 40
	mostAtNight = 400
)

// faulty returns the scenario of a seed, in which one of the first most calls of a class fails.
func faulty(seed harness.Seed, subject history.Subject, most int) scenario {
	r := seed.Rand()
	f := &fault{class: class(r.IntN(int(classes))), n: 1 + r.IntN(most), errno: errnos[r.IntN(len(errnos))]}
	switch r.IntN(3) {
	case 0:
		f.lasts = true
	case 1:
		f.short = f.class == writes
	}
	size := 16 + f.n
	ops := history.Random(r, subject, size, 12)
	if f.class == names || f.class == resizes {
		if f.n = 1 + r.IntN(most/8); f.class == resizes {
			f.n = 1 + r.IntN(4)
		}
		for i := 0; i < len(ops); i += 2 {
			ops[i] = history.Op{Kind: history.Compact}
			if i%8 == 0 {
				ops[i].Kind = history.Reopen // the next calls that write make a log
			}
		}
	}
	return scenario{fault: f, req: history.Request{
		Subject: subject, Ops: ops, Segment: history.Segments[r.IntN(len(history.Segments))], Free: r.IntN(2) == 0,
	}}
}

// after is the number of calls that follow the call in which a fault strikes.
const after = 12

// answers carries out a scenario with a fault, and returns whether the fault struck, and the first
// false answer.
func answers(s scenario) (struck bool, err error) {
	left := after
	until := func(failed int) bool {
		if failed > 0 {
			left--
		}
		return left >= 0
	}
	rec, err := record(s, until, func(rec *recording) error {
		j := history.NewJudge(rec.req)
		for _, n := range rec.notes {
			if j.Undecided() {
				return nil
			}
			if err := j.See(n.Note); err != nil {
				return fmt.Errorf("%w\n%s", err, rec.tell())
			}
		}
		if err := look(rec.req, j); err != nil {
			return fmt.Errorf("%w\n%s", err, rec.tell())
		}
		return nil
	})
	return rec != nil && rec.failed > 0, err
}

// look compares the content of the file of a request with the possible contents.
func look(req history.Request, j *history.Judge) error {
	content, err := history.Look(req.Dir, req.Subject, j.Seconds())
	if err == nil {
		err = history.Holds(j.Alive(), j.Seconds(), content)
	}
	return err
}

// tell describes the fault, the history and its answers.
func (rec *recording) tell() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\nhistory:\n", *rec.fault)
	for _, n := range rec.notes {
		if n.Answer == nil {
			continue
		}
		op := "close"
		if n.Op != history.Final {
			op = rec.req.Ops[n.Op].String()
		}
		fmt.Fprintf(&b, "  %d %s: %+v\n", n.Op, op, *n.Answer)
	}
	return b.String()
}
