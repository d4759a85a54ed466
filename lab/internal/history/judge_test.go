package history

import (
	"slices"
	"testing"

	"github.com/brimgo/brim/store"
)

// fill puts n units into bucket 0, which does not leak and holds 20.
func fill(n float64) Op {
	return Op{Kind: Fill, Txns: [][]Move{{{Key: 0, Amount: n, Mode: store.IfFits}}}}
}

// level is the answer of a fill that was accepted.
func level(n float64) Answer {
	return Answer{Results: []Result{{Accepted: true, Levels: []float64{n}, Held: []float64{0}}}}
}

func TestJudge(t *testing.T) {
	notApplied, unknown, done := Answer{Err: NotApplied}, Answer{Err: Unknown}, Answer{}
	refused := Answer{Results: []Result{{Levels: []float64{15}, Held: []float64{0}}}}
	for _, c := range []struct {
		name, why string
		relaxed   bool
		ops       []Op
		answers   []Answer
		wrong     int       // the index of the answer that is false, or -1
		levels    []float64 // that the file may hold in the end
	}{
		{
			name: "applied", why: "an answer lasts",
			ops: []Op{fill(5), fill(6)}, answers: []Answer{level(5), level(11)},
			wrong: -1, levels: []float64{11},
		},
		{
			name: "a false level", why: "the first fill is missing",
			ops: []Op{fill(5), fill(6)}, answers: []Answer{level(5), level(6)}, wrong: 1,
		},
		{
			name: "refused", why: "21 units do not fit",
			ops: []Op{fill(15), fill(6)}, answers: []Answer{level(15), refused},
			wrong: -1, levels: []float64{15},
		},
		{
			name: "wrongly refused", why: "20 units fit",
			ops: []Op{fill(15), fill(5)}, answers: []Answer{level(15), refused}, wrong: 1,
		},
		{
			name: "not applied", why: "an error changes nothing",
			ops: []Op{fill(5), fill(6)}, answers: []Answer{notApplied, level(6)},
			wrong: -1, levels: []float64{6},
		},
		{
			name: "applied after all", why: "the error was false",
			ops: []Op{fill(5), fill(6)}, answers: []Answer{notApplied, level(11)}, wrong: 1,
		},
		{
			name: "unknown", why: "both are possible",
			ops: []Op{fill(5)}, answers: []Answer{unknown},
			wrong: -1, levels: []float64{0, 5},
		},
		{
			name: "unknown, then applied", why: "a later answer decides",
			ops: []Op{fill(5), fill(6)}, answers: []Answer{unknown, level(11)},
			wrong: -1, levels: []float64{11},
		},
		{
			name: "relaxed", why: "all since the last Sync may be lost", relaxed: true,
			ops:     []Op{fill(5), {Kind: Sync}, fill(1), fill(2)},
			answers: []Answer{level(5), done, level(6), level(8)},
			wrong:   -1, levels: []float64{5, 6, 8},
		},
		{
			name: "relaxed, Sync failed", why: "it promises nothing", relaxed: true,
			ops: []Op{fill(5), {Kind: Sync}}, answers: []Answer{level(5), notApplied},
			wrong: -1, levels: []float64{0, 5},
		},
		{
			name: "relaxed, Reopen failed", why: "the store may hold an older content", relaxed: true,
			ops:     []Op{fill(5), {Kind: Reopen}, fill(1)},
			answers: []Answer{level(5), notApplied, level(1)},
			wrong:   -1, levels: []float64{0, 5, 1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			subject := Bolt
			if c.relaxed {
				subject = Relaxed
			}
			j := NewJudge(Request{Ops: c.ops, Subject: subject})
			for i := range c.answers {
				if err := j.See(Note{Op: i, Begun: true}); err != nil {
					t.Fatal(err)
				}
				err := j.See(Note{Op: i, Answer: &c.answers[i]})
				if (err != nil) != (i == c.wrong) {
					t.Fatalf("answer %d: %v; %s", i, err, c.why)
				}
				if err != nil {
					return
				}
			}
			possible := j.Possible()
			if len(possible) != len(c.levels) {
				t.Errorf("%d contents are possible, want %d: %s", len(possible), len(c.levels), c.why)
			}
			for _, want := range c.levels {
				var content Content
				content.Buckets[0].Level = want
				if !Holds(possible, Latest(possible), content) {
					t.Errorf("level %g is not possible: %s", want, c.why)
				}
			}
		})
	}
}

// TestTogether: callers at once are answered in any order, and a part of them may have no answer.
func TestTogether(t *testing.T) {
	op := Op{Kind: Together, Txns: [][]Move{fill(5).Txns[0], fill(6).Txns[0], fill(12).Txns[0]}}
	refused := func(n float64) Answer { return Answer{Results: []Result{{Levels: []float64{n}, Held: []float64{0}}}} }
	for _, c := range []struct {
		name   string
		each   []Answer
		levels []float64
	}{
		{"in order", []Answer{level(5), level(11), refused(11)}, []float64{11}},
		{"the last first", []Answer{level(17), refused(17), level(12)}, []float64{17}},
		{"one is lost", []Answer{level(5), level(11), level(12)}, nil},
		{"one failed", []Answer{level(5), {Err: NotApplied}, level(17)}, []float64{17}},
		{"one is unknown", []Answer{{Err: Unknown}, {Err: NotApplied}, level(12)}, []float64{12, 17}},
		{"no answer yet", nil, []float64{0, 5, 6, 12, 11, 17, 18}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []float64
			for _, m := range (Model{}).interleaved(op, c.each) {
				got = append(got, m.buckets[0].Level)
			}
			slices.Sort(got)
			slices.Sort(c.levels)
			if !slices.Equal(got, c.levels) {
				t.Errorf("levels %v are possible, want %v", got, c.levels)
			}
		})
	}
}

// TestUnderWay: a call that has begun and not answered may have been applied.
func TestUnderWay(t *testing.T) {
	j := NewJudge(Request{Ops: []Op{fill(5)}})
	if err := j.See(Note{Op: 0, Begun: true}); err != nil {
		t.Fatal(err)
	}
	if n := len(j.Possible()); n != 2 {
		t.Errorf("%d contents are possible, want 2", n)
	}
}
