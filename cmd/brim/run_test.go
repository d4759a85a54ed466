package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const nasa = "testdata/nasa-1995-08-01.log.gz"

// result is the exit status and the output of one run of the command.
type result struct {
	code           int
	stdout, stderr string
}

func cliIn(t testing.TB, ctx context.Context, stdin string, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	code := run(ctx, args, strings.NewReader(stdin), &out, &err)
	return result{code, out.String(), err.String()}
}

// cli runs the command in this process.
func cli(t testing.TB, args ...string) result {
	t.Helper()
	return cliIn(t, t.Context(), "", args...)
}

// want checks the exit status, and that stdout and stderr contain the texts. "" stands for no
// output at all.
func (r result) want(t testing.TB, code int, stdout, stderr string) {
	t.Helper()
	says := func(name, got, want string) {
		if (want == "" && got != "") || !strings.Contains(got, want) {
			t.Errorf("%s is %q; want %q in it", name, got, want)
		}
	}
	if r.code != code {
		t.Errorf("exit status %d; want %d (stderr: %s)", r.code, code, r.stderr)
	}
	says("stdout", r.stdout, stdout)
	says("stderr", r.stderr, stderr)
}

// decode reads one JSON object. A member that v does not have is an error.
func (r result) decode(t testing.TB, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%v in %q (stderr: %s)", err, r.stdout, r.stderr)
	}
}

func storeIn(t testing.TB) string { return filepath.Join(t.TempDir(), "limits.db") }

func TestWrongCalls(t *testing.T) {
	t.Chdir(t.TempDir())
	long := strings.Repeat("k", 513)
	for _, tc := range []struct {
		name string
		args []string
		says string
	}{
		{"command", []string{"fil"}, `did you mean "fillup"`},
		{"no such command", []string{"xyzzy"}, `unknown command "xyzzy"`},
		{"flag", []string{"try", "k", "1", "--colour"}, "--colour"},
		{"no arguments", []string{"try"}, "KEY is missing"},
		{"no amount", []string{"try", "k"}, "AMOUNT is missing"},
		{"too many", []string{"try", "k", "1", "2"}, "1 arguments too many"},
		{"no capacity", []string{"try", "k", "1", "--leak-rate", "1"}, "--capacity"},
		{"no rate", []string{"try", "k", "1", "--capacity", "1"}, "one of --leak-rate and --over"},
		{"two rates", []string{"try", "k", "1", "--capacity", "1", "--leak-rate", "1", "--over", "1s"}, "one of --leak-rate and --over"},
		{"half a limit", []string{"state", "k", "--capacity", "1"}, "one of --leak-rate and --over"},
		{"no limit", []string{"try", "k", "1", "--capacity", "0", "--leak-rate", "0"}, "--leak-rate: invalid limit: the limit is not set"},
		{"capacity below 0", []string{"try", "k", "1", "--capacity", "-1", "--leak-rate", "1"}, "--capacity: invalid limit: capacity is -1"},
		{"two limits", []string{"try", "k", "1", "--capacity", "1", "--limit", "nobody"}, "--limit is a whole limit"},
		{"limit a word", []string{"try", "k", "1", "--limit", "everybody"}, "write 100/1h"},
		{"replay for nobody", []string{"replay", "-", "--limit", "nobody"}, "needs a capacity"},
		{"capacity NaN", []string{"try", "k", "1", "--capacity", "NaN", "--leak-rate", "1"}, "--capacity: invalid limit: capacity is NaN"},
		{"capacity a word", []string{"try", "k", "1", "--capacity", "ten", "--leak-rate", "1"}, `--capacity: "ten" is not a number`},
		{"capacity too large", []string{"try", "k", "1", "--capacity", "9007199254740993", "--leak-rate", "1"}, "more than 2^53"},
		{"rate negative", []string{"try", "k", "1", "--capacity", "1", "--leak-rate", "-1"}, "--leak-rate: invalid limit: leak rate is -1"},
		{"rate lost", []string{"try", "k", "1", "--capacity", "1", "--leak-rate", "1e-999"}, "too small"},
		{"over 0", []string{"try", "k", "1", "--capacity", "1", "--over", "0s"}, "must be positive"},
		{"over without a unit", []string{"try", "k", "1", "--capacity", "1", "--over", "90"}, `--over: "90" is not a duration: a unit is missing`},
		{"amount NaN", []string{"try", "k", "NaN", "--capacity", "1", "--leak-rate", "1"}, "invalid amount"},
		{"amount negative", []string{"try", "--capacity", "1", "--leak-rate", "1", "--", "k", "-1"}, "invalid amount"},
		{"amount a word", []string{"fillup", "k", "x", "--capacity", "1", "--leak-rate", "1"}, "AMOUNT, which comes after KEY, is not a number"},
		{"swapped", []string{"try", "1", long, "--capacity", "1", "--leak-rate", "1"}, "AMOUNT, which comes after KEY"},
		{"amount lost", []string{"try", "k", "1e-300", "--capacity", "1", "--leak-rate", "1"}, "lost in the rounding"},
		{"no key", []string{"able", "", "1", "--capacity", "1", "--leak-rate", "1"}, "invalid key"},
		{"long key", []string{"drain", long, "1", "--capacity", "1", "--leak-rate", "1"}, "513 bytes"},
		{"state of no key", []string{"state", ""}, "invalid key"},
		{"block for no time", []string{"block", "k", "0s"}, "a positive time like 90s"},
		{"block for a word", []string{"block", "k", "today"}, "until-empty"},
		{"block by half a limit", []string{"block", "k", "1h", "--capacity", "1"}, "one of --leak-rate and --over"},
		{"block of no key", []string{"block", "", "1h"}, "invalid key"},
		{"block without a time", []string{"block", "k"}, "DURATION is missing"},
		{"unblock no key", []string{"unblock", ""}, "invalid key"},
		{"reset nothing", []string{"reset"}, "KEY is missing"},
		{"reset no key", []string{"reset", "a", ""}, "invalid key"},
		{"by", []string{"list", "--by", "size"}, "level, ratio or key"},
		{"limit", []string{"list", "--limit", "-1"}, "must be positive"},
		{"prune arguments", []string{"prune", "x"}, "too many"},
		{"no store", []string{"list", "--store", ""}, "it is empty"},
		{"kind of store", []string{"list", "--store", "mysql://h"}, "redis+cluster://"},
		{"half a URL", []string{"try", "k", "1", "--capacity", "1", "--leak-rate", "1", "--store", "postgres:/user:pw@host"}, "two slashes"},
		{"no scheme", []string{"fillup", "k", "1", "--capacity", "1", "--leak-rate", "1", "--store", "user:pw@host"}, "file:NAME"},
		{"migrate Redis", []string{"migrate", "up", "--store", "redis://h"}, "migrations are for PostgreSQL"},
		{"migrate by half a URL", []string{"migrate", "sql", "--store", "postgres:/user:pw@host"}, "two slashes"},
		{"verify Redis", []string{"verify", "--store", "redis://h"}, "verify reads a bbolt file"},
		{"compact memory", []string{"compact", "--store", "memory:"}, "no file to compact"},
		{"replay nothing", []string{"replay", "--capacity", "1", "--leak-rate", "1"}, "LOG is missing"},
		{"replay without a limit", []string{"replay", "-"}, "--capacity"},
		{"replay top", []string{"replay", "-", "--capacity", "1", "--leak-rate", "1", "--top", "-1"}, "--top"},
		{"replay cost", []string{"replay", "-", "--capacity", "1", "--leak-rate", "1", "--cost", "0"}, "--cost: a cost is"},
		{"replay keep", []string{"replay", "-", "--capacity", "1", "--leak-rate", "1", "--keep"}, "--keep needs --store"},
		{"replay max keys", []string{"replay", "-", "--capacity", "1", "--leak-rate", "1", "--max-keys", "0"}, "--max-keys"},
		{"replay sweep in a store", []string{"replay", "-", "--capacity", "1", "--leak-rate", "1", "--sweep", "--store", "memory:"}, "--sweep decides in memory"},
		{"replay plot", []string{"replay", "-", "--capacity", "1", "--leak-rate", "1", "--plot", "none/x.svg"}, "--plot"},
		{"replay plot into a directory", []string{"replay", "-", "--capacity", "1", "--leak-rate", "1", "--plot", "."}, "is a directory"},
		{"size nothing", []string{"size"}, "without LOG, size needs --leak-rate and --timeout"},
		{"size of half a queue", []string{"size", "--timeout", "3s"}, "--leak-rate and --timeout"},
		{"size of a queue that stands", []string{"size", "--leak-rate", "0", "--timeout", "3s"}, "the limit is not set"},
		{"size share", []string{"size", "-", "--refuse", "2"}, `--refuse: "2" is not a share`},
		{"size two rates", []string{"size", "-", "--leak-rate", "1", "--over", "1m"}, "one of --over and --leak-rate"},
		{"size over", []string{"size", "-", "--over", "0s"}, "--over is 0s"},
		{"size timeout", []string{"size", "-", "--timeout", "0s"}, "--timeout is 0s"},
		{"size timeout below over", []string{"size", "-", "--timeout", "3s"}, "choose --over 3s or less"},
		{"size from", []string{"size", "-", "--from", "0"}, "--from must be positive"},
		{"size from to", []string{"size", "-", "--from", "5", "--to", "4"}, "at most --to"},
		{"size of no limit", []string{"size", "-", "--from", "31", "--to", "49"}, "--from and --to: there is no round capacity"},
		{"size of many limits", []string{"size", "-", "--from", "1e-9", "--to", "1e30"}, "--from and --to: the list"},
		{"size of a small queue", []string{"size", "-", "--leak-rate", "1", "--timeout", "1s", "--from", "5"}, "smaller --from"},
		{"size two logs", []string{"size", "a", "b"}, "1 arguments too many"},
		{"simulate rate", []string{"simulate", "--capacity", "1", "--leak-rate", "1"}, "--rate is missing"},
		{"simulate limit", []string{"simulate", "--rate", "1"}, "--capacity"},
		{"simulate pattern", []string{"simulate", "--rate", "1", "--capacity", "1", "--leak-rate", "1", "--pattern", "x"}, "constant, poisson or bursts"},
		{"simulate bursts", []string{"simulate", "--rate", "1", "--capacity", "1", "--leak-rate", "1", "--pattern", "bursts"}, "--burst is 0"},
		{"simulate NaN", []string{"simulate", "--rate", "NaN", "--capacity", "1", "--leak-rate", "1"}, "--rate is NaN"},
		{"simulate keys", []string{"simulate", "--rate", "1", "--capacity", "1", "--leak-rate", "1", "--keys", "0"}, "--keys"},
		{"simulate attempts", []string{"simulate", "--rate", "1", "--capacity", "1", "--leak-rate", "1", "--attempts", "0"}, "--attempts"},
		{"simulate cost", []string{"simulate", "--rate", "1", "--capacity", "1", "--leak-rate", "1", "--cost", "0"}, "--cost"},
		{"simulate lost cost", []string{"simulate", "--rate", "1", "--capacity", "1", "--leak-rate", "1", "--cost", "1e-300"}, "lost in the rounding"},
		{"simulate compare and sweep", []string{"simulate", "--rate", "1", "--capacity", "1", "--leak-rate", "1", "--compare", "--sweep"}, "leave out --sweep"},
		{"simulate compare without a leak", []string{"simulate", "--rate", "1", "--capacity", "1", "--leak-rate", "0", "--compare"}, "a limit that leaks"},
		{"simulate compare too many", []string{"simulate", "--rate", "1e4", "--capacity", "1", "--leak-rate", "1", "--compare"}, "too many to compare"},
		{"simulate compare retries", []string{"simulate", "--rate", "1", "--capacity", "1", "--leak-rate", "1", "--compare", "--attempts", "2"}, "--retry-every"},
		{"simulate jitter", []string{"simulate", "--rate", "1", "--capacity", "1", "--leak-rate", "1", "--jitter", "1"}, "nobody comes back"},
		{"simulate a huge picture", []string{"simulate", "--rate", "1e5", "--capacity", "1", "--leak-rate", "1", "--plot", "x.svg"}, "too many for a picture"},
		{"bench callers", []string{"bench", "--callers", "0"}, "--callers"},
		{"bench a word", []string{"bench", "--keys", "many"}, `--keys: "many" is not a whole number`},
		{"bench a huge number", []string{"bench", "--keys", "99999999999999999999"}, `--keys: "99999999999999999999" is out of range`},
		{"json a word", []string{"list", "--json=perhaps"}, `--json: "perhaps" is not a choice`},
		{"reset all and a key", []string{"reset", "k", "--all"}, "leave out one"},
		{"reset yes", []string{"reset", "k", "--yes"}, "need --all"},
		{"bench keys", []string{"bench", "--keys", "-1"}, "--keys"},
		{"bench duration", []string{"bench", "--duration", "0s"}, "--duration"},
		{"bench refused", []string{"bench", "--refused", "1.5"}, "--refused"},
		{"bench refused NaN", []string{"bench", "--refused", "NaN"}, "--refused"},
		{"bench reference", []string{"bench", "--reference", "--store", "memory:"}, "no bare reference"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := cli(t, tc.args...)
			r.want(t, exitUsage, "", tc.says)
			lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
			if len(lines) != 2 && tc.name != "state of no key" {
				t.Errorf("stderr is %q; want one line, and one with a hint", r.stderr)
			}
			if strings.Contains(r.stderr, long) {
				t.Error("the message contains the key, which may be personal data")
			}
		})
	}
	if left, _ := os.ReadDir("."); len(left) != 0 {
		t.Errorf("wrong calls left %v behind", left)
	}
}

func TestStoresThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		name, path string
		code       int
	}{
		{"no directory", filepath.Join(dir, "no", "such", "dir.db"), exitUnavailable},
		{"a directory", dir, exitUnavailable},
		{"a text file", write("text", strings.Repeat("not a database\n", 1000)), exitData},
		{"an empty file", write("empty", ""), exitData},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := cli(t, "try", "secret-key", "1", "--capacity", "1", "--leak-rate", "1", "--store", tc.path)
			r.want(t, tc.code, "", filepath.Base(tc.path))
			if n := strings.Count(r.stderr, "\n"); n != 1 || strings.Contains(r.stderr, "secret-key") {
				t.Errorf("stderr is %q; want one line without the key", r.stderr)
			}
		})
	}
}

// A command that reads from a mistyped path must neither create a file nor answer for it.
func TestNoSuchStore(t *testing.T) {
	path, budget := storeIn(t), budgetIn(t, cardsBudget)
	limit := []string{"--capacity", "5", "--leak-rate", "1"}
	budgetFlag := []string{"--budget", budget}
	for _, c := range []struct {
		command string
		flags   []string
	}{
		{"state k", limit},
		{"state k", nil},
		{"able k 5", limit},
		{"drain k 5", limit},
		{"list", nil},
		{"block k 1h", nil},
		{"unblock k", nil},
		{"reset k", nil},
		{"reset --all", nil},
		{"prune", nil},
		{"compact", nil},
		{"verify", nil},
		{"doctor", nil},
		{"backup " + path + "2", nil},
		{"ui", nil},
		{"spend remaining card", budgetFlag},
		{"spend history card", budgetFlag},
		{"spend limits card", budgetFlag},
		{"spend capture pay 1", budgetFlag},
	} {
		args := append(strings.Fields(c.command), c.flags...)
		cli(t, append(args, "--store", path)...).want(t, exitAbsent, "", "there is no such store: stat "+path)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the command has created a file: %v", err)
	}
	cli(t, append([]string{"try", "k", "1", "--store", path}, limit...)...).want(t, exitOK, "accepted", "")
	cli(t, "list", "--store", path).want(t, exitOK, "k", "")
}

func TestDefaultStore(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("BRIM_STORE", "")
	cli(t, "try", "k", "1", "--capacity", "1", "--leak-rate", "0").want(t, exitOK, "accepted", "")
	if _, err := os.Stat("brim.db"); err != nil {
		t.Errorf("without --store and BRIM_STORE the store is brim.db: %v", err)
	}
	t.Setenv("BRIM_STORE", "other.db")
	cli(t, "try", "k", "1", "--capacity", "1", "--leak-rate", "0").want(t, exitOK, "accepted", "")
	cli(t, "try", "k", "1", "--capacity", "1", "--leak-rate", "0", "--store", "brim.db").want(t, exitNever,
		"refused", "")
	t.Setenv("BRIM_STORE", "postgres://user:secret@h/db")
	if help := cli(t, "--help"); strings.Contains(help.stdout, "secret") {
		t.Error("the help shows the password in BRIM_STORE")
	}
}

// Every command has a description, and an example that it accepts.
func TestHelp(t *testing.T) {
	cli(t).want(t, exitOK, "Exit status", "")
	known := map[string]bool{}
	root := (&app{}).root()
	var learn func(cmd *cobra.Command)
	learn = func(cmd *cobra.Command) {
		for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		}
		for _, sub := range cmd.Commands() {
			learn(sub)
		}
	}
	learn(root)
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Name() == "help" || sub.Name() == "completion" || !sub.Runnable() && !sub.HasSubCommands() {
				continue // written by cobra, or no command but a topic of the help
			}
			path := strings.Fields(sub.CommandPath())[1:]
			r := cli(t, append(path, "--help")...)
			r.want(t, exitOK, "Examples:\n  ", "")
			if sub.Short == "" || sub.Long == "" || !strings.Contains(sub.Example, sub.CommandPath()) {
				t.Errorf("%s lacks a description or an example of itself", sub.CommandPath())
			}
			for word := range strings.FieldsSeq(sub.Example) {
				name, isFlag := strings.CutPrefix(word, "--")
				if isFlag && name != "" && !known[name] {
					t.Errorf("the example of %s uses --%s, which no command has", sub.CommandPath(), name)
				}
			}
			check(sub)
		}
	}
	check(root)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A command whose answer cannot be written must not succeed.
func TestStdoutThatCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{
		{"try", "k", "1", "--capacity", "5", "--leak-rate", "1", "--store", "memory:"},
		{"try", "k", "9", "--capacity", "5", "--leak-rate", "1", "--store", "memory:", "--json"},
		{"version"},
		{"--help"},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), full{}, &stderr); code != exitInternal ||
			!strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%v: exit status %d, %q; want %d", args, code, stderr.String(), exitInternal)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, word := range []string{"version", "--version"} {
		cli(t, word).want(t, exitOK, "brim ", "")
		var v version
		cli(t, word, "--json").decode(t, &v)
		if v.Version == "" || !strings.HasPrefix(v.Go, "go") {
			t.Errorf("%s: got %+v", word, v)
		}
	}
}
