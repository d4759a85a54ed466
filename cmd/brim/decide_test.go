package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim"
)

// Each step is a run of the command on the same file.
func TestDecisions(t *testing.T) {
	path := storeIn(t)
	never := []string{"--capacity", "5", "--leak-rate", "0", "--store", path}
	slow := []string{"--capacity", "5", "--over", "30d", "--store", path}
	for _, step := range []struct {
		why    string
		args   []string
		limit  []string
		code   int
		stdout string
	}{
		{"it fits", []string{"try", "a", "3"}, slow, exitOK, "accepted: level 3 of 5, 2 remaining\n"},
		{"a refusal shows when it will fit, as a duration and a time of day", []string{"try", "a", "4"}, slow, exitRefused, "4 would fit in 12d, at 20"},
		{"more than the capacity never fits", []string{"try", "a", "6"}, slow, exitNever, "6 can never fit a capacity of 5\n"},
		{"take: as many as fit", []string{"take", "t", "1", "4"}, never, exitOK, "took 4: level 4 of 5, 1 remaining\n"},
		{"take: a part", []string{"take", "t", "1", "4"}, never, exitOK, "took 1: level 5 of 5, 0 remaining\n"},
		{"take: the least does not fit", []string{"take", "s", "6", "9"}, slow, exitNever, "6 can never fit a capacity of 5\n"},
		{"able: it fits", []string{"able", "a", "1"}, slow, exitOK, "yes: level "},
		{"able: it does not fit", []string{"able", "a", "4"}, slow, exitRefused, "no: "},
		{"able: an amount above the capacity does not fit either", []string{"able", "a", "6"}, slow, exitRefused, "6 can never fit"},
		{"a fillup stops at the capacity and shows it", []string{"fillup", "a", "4"}, slow, exitOK, "this filled it up, at "},
		{"a drain gives back", []string{"drain", "a", "5"}, slow, exitOK, "drained: level 0 of 5, 5 remaining\n"},
		{"a drain stops at 0", []string{"drain", "a", "5"}, slow, exitOK, "drained: level 0 of 5"},
		{"exactly full is accepted", []string{"try", "b", "5"}, never, exitOK, "accepted: level 5 of 5, 0 remaining\n"},
		{"a full bucket that does not leak never has room again", []string{"try", "b", "1"}, never, exitNever, "the bucket does not leak\n"},
		{"a fillup of a full bucket is lost", []string{"fillup", "b", "2.5"}, never, exitOK, "2.5 of 2.5 lost over the rim\n"},
		{"the state", []string{"state", "b"}, never, exitOK, "empty in   never\n"},
		{"the state by the limit last used", []string{"state", "b", "--store", path}, nil, exitOK, "capacity   5\n"},
		{"no such bucket", []string{"state", "c", "--store", path}, nil, exitOK, "there is no such bucket"},
		{"a block shows the limit last used", []string{"block", "b", "24h", "--store", path}, nil, exitOK, ": level 5 of 5, 0 remaining\n"},
		{"a blocked bucket shows its end", []string{"state", "b", "--store", path}, nil, exitOK, "blocked until  "},
		{"an empty bucket needs no block until it is empty", []string{"block", "c", "until-empty", "--store", path}, nil, exitOK, "not blocked, because the bucket is empty\n"},
		{"a block needs no limit", []string{"block", "c", "90s", "--store", path}, nil, exitOK, "blocked until "},
		{"a bucket that has a block alone", []string{"state", "c", "--store", path}, nil, exitOK, "blocked until  "},
		{"nothing fits into a blocked bucket", []string{"try", "c", "1"}, slow, exitRefused, "1 would fit in 1m"},
		{"unblock", []string{"unblock", "c", "--store", path}, nil, exitOK, "not blocked: the bucket is empty, or there"},
		{"after unblock", []string{"able", "c", "1"}, slow, exitOK, "yes: level 0"},
		{"unblock of no bucket", []string{"unblock", "none", "--store", path}, nil, exitOK, "there is no such bucket\n"},
		{"reset", []string{"reset", "b", "c", "--store", path}, nil, exitOK, "reset: 2\n"},
		{"empty again", []string{"try", "b", "1"}, never, exitOK, "accepted: level 1 of 5"},
	} {
		t.Run(step.why, func(t *testing.T) {
			cli(t, append(step.args, step.limit...)...).want(t, step.code, step.stdout, "")
		})
	}
}

func TestStateJSON(t *testing.T) {
	path := storeIn(t)
	limit := []string{"--capacity", "8", "--leak-rate", "0.25", "--store", path, "--json"}
	r := cli(t, append([]string{"try", "k", "6"}, limit...)...)
	var st stateJSON
	r.decode(t, &st)
	if st.Key != "k" || st.Level != 6 || st.Capacity != 8 || st.LeakRate != 0.25 || st.Remaining != 2 || !st.Accepted ||
		st.Full || *st.RetryAfter != 0 {
		t.Errorf("accepted: got %+v", st)
	}
	if st.At.Location() != time.UTC || time.Since(st.At).Abs() > time.Minute {
		t.Errorf("at is %v; want now, in UTC", st.At)
	}
	r = cli(t, append([]string{"try", "k", "4"}, limit...)...)
	r.want(t, exitRefused, `"accepted":false`, "")
	r.decode(t, &st)
	if st.RetryAfter == nil || *st.RetryAfter <= 0 || *st.RetryAfter > 8 {
		t.Errorf("2 of 8 units at 0.25 per second fit within 8 s, and not within %v", st.RetryAfter)
	}
	cli(t, append([]string{"try", "k", "9"}, limit...)...).want(t, exitNever, `"retry_after":null`, "")
	cli(t, append([]string{"able", "k", "4"}, limit...)...).want(t, exitRefused, `"accepted":false`, "")
	r = cli(t, append([]string{"fillup", "k", "4"}, limit...)...)
	st = stateJSON{}
	r.decode(t, &st)
	if !st.Full || st.Accepted || st.Spilled <= 1.5 || st.Level != 8 || r.code != exitOK {
		t.Errorf("a fillup above the capacity: got %+v, exit status %d", st, r.code)
	}
	cli(t, "state", "none", "--store", path, "--json").want(t, exitOK, `"capacity":0`, "")
}

func TestComeBack(t *testing.T) {
	a := &app{now: func() time.Time { return time.Date(2024, 1, 1, 12, 0, 0, 0, time.Local) }}
	for _, tc := range []struct {
		n    float64
		st   brim.State
		want string
	}{
		{2, brim.State{Capacity: 5, LeakRate: 1, RetryAfter: 1500 * time.Millisecond}, "2 would fit in 1.5s, at 12:00:02"},
		{9, brim.State{Capacity: 5, LeakRate: 1, RetryAfter: brim.Never}, "9 can never fit a capacity of 5"},
		{2, brim.State{Capacity: 5, RetryAfter: brim.Never}, "2 will not fit by waiting: the bucket does not leak"},
		{2, brim.State{Capacity: 5, Held: 4, LeakRate: 1, RetryAfter: brim.Never}, "2 will not fit while 4 are held"},
		{2, brim.State{Capacity: 5, LeakRate: 1e-12, RetryAfter: brim.Never}, "2 would not fit within 146 years"},
	} {
		if got := a.comeBack(tc.n, tc.st); got != tc.want {
			t.Errorf("got %q; want %q", got, tc.want)
		}
	}
}

// listed fills buckets to several levels and shares.
func listed(t *testing.T) string {
	t.Helper()
	path := storeIn(t)
	for _, b := range [][3]string{{"p:big", "50", "1000"}, {"p:full", "5", "5"}, {"q:half", "10", "20"}, {"p:odd\x1b[31m", "1", "1000"}} {
		cli(t, "try", b[0], b[1], "--capacity", b[2], "--leak-rate", "0", "--store", path).want(t, exitOK,
			"accepted", "")
	}
	return path
}

func TestList(t *testing.T) {
	path := listed(t)
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"p:big", "p:full", "p:odd\x1b[31m", "q:half"}},
		{[]string{"--by", "key", "--rows", "2"}, []string{"p:big", "p:full"}},
		{[]string{"--by", "level"}, []string{"p:big", "q:half", "p:full", "p:odd\x1b[31m"}},
		{[]string{"--by", "ratio", "--rows", "2"}, []string{"p:full", "q:half"}},
		{[]string{"--prefix", "q:"}, []string{"q:half"}},
		{[]string{"--prefix", "none"}, nil},
		{[]string{"--by", "level", "--rows", "99", "--prefix", "p:f"}, []string{"p:full"}},
	} {
		r := cli(t, append([]string{"list", "--json", "--store", path}, tc.args...)...)
		var keys []string
		for line := range strings.Lines(r.stdout) {
			var e entryJSON
			result{stdout: line}.decode(t, &e)
			keys = append(keys, e.Key)
			if e.TimeToEmpty != nil || e.Share != e.Level/e.Capacity || e.Remaining != e.Capacity-e.Level {
				t.Errorf("%v: got %+v", tc.args, e)
			}
		}
		if !reflect.DeepEqual(keys, tc.want) {
			t.Errorf("%v: got %q; want %q", tc.args, keys, tc.want)
		}
	}
	r := cli(t, "list", "--by", "ratio", "--store", path)
	r.want(t, exitOK, "SHARE", "")
	if !regexp.MustCompile(`(?m)^p:full +5 +0 +5 +100\.0% +never *$`).MatchString(r.stdout) {
		t.Errorf("there is no aligned line of p:full in\n%s", r.stdout)
	}
	if strings.Contains(r.stdout, "\x1b") || !strings.Contains(r.stdout, `"p:odd\x1b[31m"`) {
		t.Errorf("a key must not control the terminal: %q", r.stdout)
	}
}

func TestPruneAndCompact(t *testing.T) {
	path := listed(t)
	cli(t, "try", "gone", "1", "--capacity", "1", "--leak-rate", "1000000", "--store", path).want(t, exitOK,
		"accepted", "")
	// The bucket is empty within a microsecond, but the store keeps it for MaxSkew.
	cli(t, "prune", "--store", path).want(t, exitOK, "pruned: 0\n", "")
	cli(t, "prune", "--store", path, "--json").want(t, exitOK, `{"pruned":0}`, "")
	// A replay leaves a bucket of long ago.
	log := filepath.Join(t.TempDir(), "old.csv")
	if err := os.WriteFile(log, []byte("time,key\n1,a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cli(t, "replay", log, "--capacity", "1", "--leak-rate", "1", "--store", path, "--keep").want(t, exitOK, "1",
		"begin with brim-replay/")
	cli(t, "prune", "--store", path, "--json").want(t, exitOK, `{"pruned":1}`, "")
	var sizes struct {
		Before int64 `json:"before_bytes"`
		After  int64 `json:"after_bytes"`
	}
	cli(t, "compact", "--store", path, "--json").decode(t, &sizes)
	info, err := os.Stat(path)
	if err != nil || sizes.Before <= 0 || sizes.After > sizes.Before || sizes.After != info.Size() {
		t.Errorf("sizes %+v; the file is %v bytes, %v", sizes, info.Size(), err)
	}
	cli(t, "compact", "--store", path).want(t, exitOK, "compacted: ", "")
	cli(t, "state", "p:big", "--store", path).want(t, exitOK, "level      50\n", "")
}
