package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/seed"
)

// checkSize runs size, and then replay with the limit that size names and with the next smaller
// one. The first must refuse at most the share, the second more, and both exactly as size says.
func checkSize(t *testing.T, log, refuse string, flags ...string) {
	t.Helper()
	var s sizeJSON
	r := cli(t, append([]string{"size", log, "--refuse", refuse, "--json"}, flags...)...)
	r.decode(t, &s)
	if s.Limit == nil {
		r.want(t, exitBroken, `"limit":null`, "every limit on the list refuses more")
		return
	}
	r.want(t, exitOK, `"limits":[`, "")
	smaller := -1
	for i := range s.Limits {
		if s.Limits[i] == *s.Limit {
			smaller = i - 1
		}
	}
	replay := func(o outcomeJSON) float64 {
		t.Helper()
		args := []string{"replay", log, "--json", "--capacity", strconv.FormatFloat(o.Capacity, 'f', -1, 64)}
		over := "1m"
		for i := 0; i < len(flags); i += 2 {
			switch flags[i] {
			case "--leak-rate":
				over = ""
				args = append(args, flags[i:i+2]...)
			case "--over":
				over = flags[i+1]
			case "--key", "--cost":
				args = append(args, flags[i:i+2]...)
			}
		}
		if over != "" {
			args = append(args, "--over", over)
		}
		var rep replayJSON
		cli(t, args...).decode(t, &rep)
		if rep.Refused != o.Refused || rep.Accepted != o.Accepted || rep.UnitsAccepted != o.UnitsAccepted ||
			rep.Requests != s.Requests || rep.Keys != s.Keys {
			t.Errorf("%v: size reports %+v, and replay %+v", args, o, rep)
		}
		return float64(rep.Refused) / float64(rep.Requests)
	}
	if got := replay(*s.Limit); got > s.Refuse {
		t.Errorf("size %v: the limit %+v refuses %v in a replay; want at most %v", flags, *s.Limit, got, s.Refuse)
	}
	if smaller >= 0 {
		if got := replay(s.Limits[smaller]); got <= s.Refuse {
			t.Errorf("size %v: the next smaller limit %+v refuses only %v", flags, s.Limits[smaller], got)
		}
	}
}

// The table of docs/cli.md is the answer of the command.
func TestSizeOfADay(t *testing.T) {
	part := partOf(t, 10)
	checkSize(t, part, "1%")
	checkSize(t, part, "0.05", "--leak-rate", "0.1")
	checkSize(t, part, "0.1%", "--over", "1h", "--cost", "bytes")
	checkSize(t, part, "0", "--over", "10m", "--key", "path")
	checkSize(t, part, "0.1%", "--to", "2")
	r := cli(t, "size", nasa, "--refuse", "1%")
	r.want(t, exitOK, "The smallest limit that refuses at most 1% is --capacity 10 --over 1m: it refuses 0.57%.", "")
	r.want(t, exitOK, "brim replay "+nasa+" --capacity 10 --over 1m\n", "")
	cli(t, "size", nasa, "--to", "7").want(t, exitBroken, "3.08%", "choose a --to above 7")
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, got := 0, r.stdout
	_, table, _ := strings.Cut(string(page), "```\n  CAPACITY")
	table, _, _ = strings.Cut("  CAPACITY"+table, "```")
	for row := range strings.Lines(table) {
		rows++
		if !strings.Contains(strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(row), " ")) {
			t.Errorf("docs/cli.md shows %q, which is not in the answer %s", row, got)
		}
	}
	if rows != 9 {
		t.Errorf("the table of docs/cli.md has %d rows; want a head and 8 limits", rows)
	}
}

// The named limit refuses at most the share, and the next smaller one more, for any log.
func TestSizeOfRandomLogs(t *testing.T) {
	dir := t.TempDir()
	for log := range seed.Attempts(12, 1000) {
		r := rand.New(rand.NewPCG(uint64(log), 1))
		var text strings.Builder
		text.WriteString("time,key,cost\n")
		at := 1_700_000_000.0
		keys, gap, costs := 1+r.IntN(20), r.ExpFloat64(), 1+r.IntN(2)*r.IntN(30)
		for range 50 + r.IntN(2000) {
			at += r.ExpFloat64() * gap * float64(r.IntN(3))
			line := at - float64(r.IntN(2)*r.IntN(5)) // some lines are out of order
			fmt.Fprintf(&text, "%.3f,k%d,%d\n", line, r.IntN(keys), 1+r.IntN(costs))
		}
		path := filepath.Join(dir, fmt.Sprint(log)+".csv")
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		refuse := fmt.Sprintf("%.1f%%", r.Float64()*10)
		flags := []string{"--over", []string{"7s", "1m", "15m"}[r.IntN(3)]}
		if r.IntN(2) == 0 {
			flags = []string{"--leak-rate", []string{"0", "0.3", "2"}[r.IntN(3)]}
		}
		checkSize(t, path, refuse, flags...)
	}
}

func TestSizeByTimeout(t *testing.T) {
	cli(t, "size", "--leak-rate", "200", "--timeout", "3s", "--json").
		want(t, exitOK, `{"capacity":600,"leak_rate":200,"max_wait":3}`, "")
	cli(t, "size", "--leak-rate", "200", "--timeout", "3s").want(t, exitOK, "600, or less", "")
	// With a log, the list ends at the deepest queue that drains in time.
	var s sizeJSON
	cli(t, "size", nasa, "--leak-rate", "0.1", "--timeout", "2m", "--json").decode(t, &s)
	if last := s.Limits[len(s.Limits)-1]; last.Capacity != 12 || s.Limit == nil || *s.Limit != last {
		t.Errorf("the list ends at %+v, and %+v is chosen; want the capacity 12 at its end, which suffices", last, s.Limit)
	}
}

func TestPictures(t *testing.T) {
	dir := t.TempDir()
	picture := func(name string, args ...string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		cli(t, append(args, "--plot", path)...).want(t, exitOK, "{", "the picture is in "+path)
		svg, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(svg), "<svg") {
			t.Errorf("%s: %v, %.100s", name, err, svg)
		}
		return string(svg)
	}
	limit := []string{"--capacity", "5", "--leak-rate", "0.1"}
	_ = picture("size.svg", "size", partOf(t, 10), "--json")
	day := picture("day.svg", append([]string{"replay", nasa, "--json"}, limit...)...)
	for _, says := range []string{">accepted<", ">refused<", "hours since 1995-08-01", "requests in 10 min"} {
		if !strings.Contains(day, says) {
			t.Errorf("the picture of a replay does not contain %q", says)
		}
	}
	// A store gets the same picture.
	stored := picture("stored.svg", append([]string{"replay", nasa, "--json", "--store", "memory:"}, limit...)...)
	if stored != day {
		t.Error("the picture of a replay into a store differs")
	}
}
