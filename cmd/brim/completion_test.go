package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCompletion asks for the completion of the last word of a call.
func TestCompletion(t *testing.T) {
	path := storeIn(t)
	for _, key := range []string{"tenant:1", "tenant:2", "other", "odd\nkey"} {
		cli(t, "fillup", key, "1", "--limit", "5/24h", "--store", path).want(t, exitOK, "filled", "")
	}
	const none, files = ":4", ":0" // cobra.ShellCompDirectiveNoFileComp and Default
	for _, tc := range []struct {
		call string // its last word is completed; '' is an empty one
		want string
	}{
		{"state tenant", "tenant:1 tenant:2 " + none},
		{"state ''", "other tenant:1 tenant:2 " + none},
		{"try other", "other " + none},
		{"reset tenant:1 o", "other " + none},
		{"exec ''", "other tenant:1 tenant:2 " + none},
		{"try other ''", none},
		{"block other ''", "until-empty " + none},
		{"simulate --pattern ''", "constant poisson bursts " + none},
		{"simulate --pattern=''", "constant poisson bursts " + none},
		{"list --by ''", "key level ratio refused " + none},
		{"list --prefix ''", none},
		{"list --rows ''", none},
		{"migrate partitions --every ''", "day week month " + none},
		{"spend authorize --on-expiry ''", "release spend " + none},
		{"spend charge ''", none},
		{"spend move card ''", none},
		{"replay ''", files},
		{"size ''", files},
		{"backup ''", files},
		{"spend rules set ''", files},
		{"spend backtest --rules ''", files},
		{"replay --plot ''", files},
		{"exec other 1 -- ''", files},
	} {
		args := []string{cobra.ShellCompNoDescRequestCmd}
		for _, word := range strings.Fields(tc.call) {
			args = append(args, strings.ReplaceAll(word, "''", ""))
		}
		last := args[len(args)-1]
		if dash := strings.Index(tc.call, " -- "); dash < 0 {
			args = append(args[:len(args)-1], "--store", path, last)
			if strings.HasPrefix(args[len(args)-4], "--") { // a flag waits for the word
				args = append(args[:len(args)-4], "--store", path, args[len(args)-4], last)
			}
		}
		if got := strings.Join(strings.Fields(cli(t, args...).stdout), " "); got != tc.want {
			t.Errorf("brim %s: %s; want %s", tc.call, got, tc.want)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) > 2 {
		t.Errorf("%v, %v; want the store alone", entries, err)
	}
	cli(t, cobra.ShellCompNoDescRequestCmd, "state", "--store", "none.db", "").want(t, exitOK, none+"\n", "NoFileComp")
}

// TestBashCompletion completes in a bash without the package bash-completion.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	brim, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Link(brim, filepath.Join(dir, "brim")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"tenant:1", "tenant:22", "other"} {
		cli(t, "fillup", key, "1", "--limit", "5/24h", "--store", filepath.Join(dir, "brim.db")).want(t, exitOK, "filled", "")
	}
	const script = `source <(brim completion bash)
words() { COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); __start_brim; echo "$COMP_LINE: ${COMPREPLY[@]}"; }
words "brim state ten" brim state ten
words "brim state tenant:" brim state tenant :
words "brim state tenant:2" brim state tenant : 2
words "brim list --by=r" brim list --by = r
words "brim  list --by " brim list --by ""
words "brim unbl" brim unbl
words "brim state other " brim state other ""
`
	cmd := exec.CommandContext(t.Context(), bash, "--norc", "--noprofile", "-c", script)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	const want = `brim state ten: tenant:1 tenant:22
brim state tenant:: 1 22
brim state tenant:2: 22
brim list --by=r: ratio refused
brim  list --by : key level ratio refused
brim unbl: unblock
brim state other : 
`
	for line := range strings.Lines(stderr.String()) {
		if !strings.Contains(line, "compopt") { // which works only below a prompt
			t.Errorf("bash: %s", line)
		}
	}
	if err != nil || string(out) != want {
		t.Errorf("%v:\n%swant\n%s", err, out, want)
	}
}
