package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/duration"
)

func TestReplayOfADay(t *testing.T) {
	path := storeIn(t)
	cli(t, "try", "live", "3", "--capacity", "5", "--leak-rate", "0", "--store", path).want(t, exitOK, "accepted", "")
	for _, store := range []string{"memory:", path} {
		var rep replayJSON
		cli(t, "replay", nasa, "--capacity", "5", "--leak-rate", "0.1", "--json", "--top", "3", "--store", store).decode(t, &rep)
		if rep.Requests != 30969 || rep.Accepted != 27846 || rep.Refused != 3123 || rep.UnitsAccepted != 27846 ||
			rep.Keys != 2365 || rep.Unparsed != 0 {
			t.Errorf("%s: got %+v", store, rep)
		}
		if len(rep.TopRefused) != 3 ||
			rep.TopRefused[0] != (simulate.Refused{Key: "edams.ksc.nasa.gov", Accepted: 288, Refused: 76}) {
			t.Errorf("%s: most refused %v", store, rep.TopRefused)
		}
	}
	// The buckets of the replay are gone, and the live bucket is unchanged.
	cli(t, "list", "--store", path, "--json").want(t, exitOK, `{"key":"live","level":3,`, "")
	if r := cli(t, "list", "--store", path, "--json"); strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("after the replay the store contains %s", r.stdout)
	}
}

// A replay has a clock of its own. A log from the future or the past must not move the clock of
// the store.
func TestReplayLeavesTheClockAlone(t *testing.T) {
	path := storeIn(t)
	limit := []string{"--capacity", "5", "--leak-rate", "0.001", "--store", path, "--json"}
	const century = 100 * 365 * duration.Day
	// A store would follow a clock that is four minutes ahead.
	for _, shift := range []time.Duration{4 * time.Minute, century, -century} {
		log := fmt.Sprintf("time,key\n%d,k\n%d,k\n", time.Now().Add(shift).Unix(), time.Now().Add(shift).Unix()+1)
		cliIn(t, t.Context(), log, append([]string{"replay", "-"}, limit...)...).want(t, exitOK, `"requests":2`, "")
		before := time.Now()
		var st stateJSON
		cli(t, append([]string{"try", "k", "1"}, limit...)...).decode(t, &st)
		if st.At.Before(before.Add(-time.Second)) || st.At.After(time.Now().Add(time.Second)) {
			t.Errorf("after a log that is off by %v, the store's time is %v", shift, st.At)
		}
	}
}

// A replay ignores BRIM_STORE, so that an experiment with a limit does not fill a live store.
func TestReplayDecidesInMemory(t *testing.T) {
	path := storeIn(t)
	t.Setenv("BRIM_STORE", path)
	cliIn(t, t.Context(), "time,key\n1,k\n2,k\n", "replay", "-", "--capacity", "5", "--leak-rate", "0.1").want(t, exitOK, "2  accepted", "")
	if _, err := os.Stat(path); err == nil {
		t.Error("the replay has created the file that BRIM_STORE names")
	}
}

// The buckets that --keep leaves in the store count in units of the given limit, even if the
// replay counted in other units.
func TestReplayKeeps(t *testing.T) {
	path := storeIn(t)
	const log = "time,key,cost\n100,k,3\n104,k,1\n104,l,0\n"
	r := cliIn(t, t.Context(), log, "replay", "-", "--capacity", "5", "--leak-rate", "1e-12", "--store", path, "--keep")
	r.want(t, exitOK, "accepted", "begin with brim-replay/")
	_, prefix, _ := strings.Cut(strings.TrimSpace(r.stderr), "begin with ")
	var st stateJSON
	cli(t, "state", prefix+"k", "--capacity", "5", "--leak-rate", "1", "--store", path, "--json").decode(t, &st)
	if math.Abs(st.Level-4) > 0.01 { // 2e9 s at 1e-12
		t.Errorf("level %v; want 4", st.Level)
	}
	var last stateJSON
	cli(t, "state", prefix+"k", "--store", path, "--json").decode(t, &last)
	if last.Capacity != 5 || last.LeakRate != 1e-12 {
		t.Errorf("the bucket is kept with the limit %+v", last)
	}
	// The next replay uses another prefix, and leaves these buckets alone.
	cliIn(t, t.Context(), log, "replay", "-", "--capacity", "5", "--leak-rate", "0.2", "--store", path).want(t,
		exitOK, "accepted", "")
	cli(t, "list", "--store", path).want(t, exitOK, prefix+"k", "")
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReplayOfBadInput(t *testing.T) {
	const line = `h - - [01/Aug/1995:02:00:00 -0400] "GET / HTTP/1.0" 200 1` + "\n"
	whole := packed(t, strings.Repeat(line, 10000))
	dir := t.TempDir()
	for _, tc := range []struct {
		name, content string
		args          []string
		code          int
		says          string
		part          string // on stdout
	}{
		{name: "empty", code: exitData, says: "is empty"},
		{name: "blank", content: "\n\n  \n", code: exitData, says: "is empty"},
		{name: "binary", content: strings.Repeat("\x00\xff\x7fELF", 9999), code: exitData, says: "no request in its 1 line"},
		{name: "html", content: "<html>\n<body>\n</html>\n", code: exitData, says: "no request in its 3 lines"},
		{name: "one long line", content: strings.Repeat("x", 3<<20), code: exitData, says: "longer than"},
		{name: "truncated.gz", content: whole[:len(whole)-20], code: exitData, says: "the gzip file is truncated", part: "in the part of the log that was decided"},
		{name: "damaged.gz", content: whole[:len(whole)-8] + "12345678", code: exitData, says: "the gzip file is damaged", part: "in the part of the log that was decided"},
		{name: "header.csv", content: "time,cost\n1,1\n", code: exitData, says: `no column "key"`},
		{name: "field", content: line, args: []string{"--key", "colour"}, code: exitUsage, says: "agent, host"},
		{name: "bytes.csv", content: "time,key\n1,1\n", args: []string{"--cost", "bytes"}, code: exitUsage, says: "only access logs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(dir, tc.name)
			if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			path := storeIn(t)
			args := append([]string{"replay", file, "--capacity", "1", "--leak-rate", "1", "--store", path}, tc.args...)
			r := cli(t, args...)
			r.want(t, tc.code, tc.part, tc.says)
			if n := strings.Count(r.stderr, "\n"); n != 1 || !strings.Contains(r.stderr, tc.name) {
				t.Errorf("stderr is %q; want one line with the name of the file", r.stderr)
			}
			if _, err := os.Stat(path); err == nil {
				cli(t, "list", "--store", path).want(t, exitOK, "", "")
			}
		})
	}
	limit := []string{"--capacity", "1", "--leak-rate", "1"}
	// The message about a wrong format names all that were tried.
	for _, format := range []string{"NCSA", "nginx", "CSV", "JSON lines", "line 1: "} {
		cli(t, append([]string{"replay", filepath.Join(dir, "html")}, limit...)...).want(t, exitData, "", format)
	}
	r := cliIn(t, t.Context(), "time,key\n1,a\n1,b\n2,c\n", append([]string{"replay", "-", "--max-keys", "2"}, limit...)...)
	r.want(t, exitData, "2  requests by 2 keys, in the part of the log that was decided", "line 4: too many keys: more than 2")
	cli(t, append([]string{"replay", filepath.Join(dir, "none")}, limit...)...).want(t, exitData, "", "no such file")
	cli(t, append([]string{"replay", dir}, limit...)...).want(t, exitData, "", "is a directory")
	r = cliIn(t, t.Context(), "x\n"+line+"y\nz\n\nw\n", append([]string{"replay", "-"}, limit...)...)
	r.want(t, exitOK, "1  requests", "stdin: line 1: ")
	for _, says := range []string{"line 3: ", "line 4: ", "further lines that are not requests: 1"} {
		if !strings.Contains(r.stderr, says) {
			t.Errorf("stderr is %q; want %q in it", r.stderr, says)
		}
	}
	r = cliIn(t, t.Context(), whole, append([]string{"replay", "-"}, limit...)...)
	r.want(t, exitOK, "10000  requests by 1 key", "")
}

func TestReplayOfFormats(t *testing.T) {
	limit := []string{"--capacity", "1", "--leak-rate", "1"}
	const times = `{"ts":1700000000000,"request":{"ip":"a"}}` + "\n" + `{"ts":1700000000500,"request":{"ip":"a"}}` + "\n" +
		`{"ts":1700000001000,"request":{"ip":"a"}}` + "\n"
	args := append([]string{"replay", "-", "--time", "ts", "--key", "request.ip"}, limit...)
	r := cliIn(t, t.Context(), times, args...)
	r.want(t, exitOK, "2  accepted", "stdin: the times are read as milliseconds since 1970")
	var rep replayJSON
	cliIn(t, t.Context(), times, append(args, "--json")...).decode(t, &rep)
	if rep.Accepted != 2 || rep.Refused != 1 || rep.Format != "JSON lines" || rep.TimeUnit == nil || *rep.TimeUnit != "milliseconds" {
		t.Errorf("got %+v; want JSON lines whose second request is refused", rep)
	}
	// By the time of their responses the second of these requests fits. Both began at once.
	const nginx = `h - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-" 0.000` + "\n" +
		`h - - [10/Oct/2000:13:55:37 +0000] "GET / HTTP/1.1" 200 1 "-" "-" 1.000` + "\n"
	cliIn(t, t.Context(), nginx, append([]string{"replay", "-"}, limit...)...).want(t, exitOK, "2  accepted", "")
	cliIn(t, t.Context(), nginx, append([]string{"replay", "-", "--time", "start"}, limit...)...).want(t, exitOK, "1  accepted", "")
	cliIn(t, t.Context(), nginx, append([]string{"replay", "-", "--time", "ts"}, limit...)...).want(t, exitUsage, "", "choose start")
}

// An interrupted replay removes its committed buckets.
func TestReplayInterrupted(t *testing.T) {
	path := storeIn(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	in, out := io.Pipe()
	go func() {
		var log bytes.Buffer
		fmt.Fprintln(&log, "time,key")
		for i := range 12_000 {
			fmt.Fprintf(&log, "%d,key-%d\n", i, i)
		}
		// When the replay has taken the last line, it has decided the first chunks. The input
		// does not end.
		if _, err := log.WriteTo(out); err != nil {
			t.Error(err)
		}
		cancel(signalError{syscall.SIGINT})
	}()
	defer out.Close()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"replay", "-", "--capacity", "1", "--leak-rate", "1", "--store", path, "--keep"},
		in, &stdout, &stderr)
	result{code, stdout.String(), stderr.String()}.want(t, 130, "in the part of the log that was decided",
		"ended by signal: interrupt")
	info, err := os.Stat(path)
	if err != nil || info.Size() < 1<<18 {
		t.Errorf("the file is %v, %v: no bucket was committed before the interrupt", info, err)
	}
	cli(t, "list", "--store", path, "--json").want(t, exitOK, "", "")
}
