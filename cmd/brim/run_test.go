package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
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

// Each wrong call has an exit status of its own, and one line that begins with the command. After a
// wrong usage the line ends with the command's help.
func TestWrongCalls(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("BRIM_STORE", "")
	for name, content := range map[string]string{
		"text.db": strings.Repeat("not a database\n", 1000), "empty.db": "", "lost.db.journal": "left behind",
		"cards.yaml":  "budget: cards\ncurrency: EUR\nrules:\n  - {name: month, rolling: 1000.00, window: 30d}\n",
		"rules2.yaml": "budget: others\ncurrency: EUR\nrules: [{name: e, lifetime: 1}]\n",
		"drains.yaml": "budget: b\ncurrency: EUR\nrules: [{name: e, leaky: 1, drains_in: 0s}]\n",
		"two.yaml":    "budget: b\ncurrency: EUR\nrules: [{name: e, lifetime: 1}]\n---\nbudget: c\n",
		"field.yaml":  "budget: x\ncolour: red\n", "rules.yaml": "budget: a/b\ncurrency: EUR\nrules: [{name: e, lifetime: 1}]\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cli(t, "spend", "rules", "set", "cards.yaml", "--store", "cards.db").want(t, exitOK, "set: cards revision 1, held", "")
	before, _ := os.ReadDir(".")
	for _, tc := range []struct {
		call string // '' is an empty argument, and LONG a key that is too long
		code int
		says string
	}{
		{"fil", 64, `brim: there is no command "fil"; did you mean "fillup"?`},
		{"xyzzy", 64, `brim: there is no command "xyzzy"`},
		{"try k 1 --colour", 64, "brim try: unknown flag: --colour"},
		{"try", 64, "brim try: KEY is missing"},
		{"try k", 64, "brim try: AMOUNT is missing"},
		{"try k 1 2", 64, "brim try: 1 argument too many"},
		{"try k 1 --leak-rate 1", 64, "brim try: a limit needs --capacity, and one of --leak-rate and --over; or --limit"},
		{"try k 1 --capacity 1", 64, "brim try: a limit needs one of --leak-rate and --over beside --capacity"},
		{"try k 1 --capacity 1 --leak-rate 1 --over 1s", 64, "brim try: give one of --leak-rate and --over, not both"},
		{"state k --capacity 1", 64, "brim state: a limit needs one of --leak-rate and --over beside --capacity"},
		{"try k 1 --capacity 0 --leak-rate 0", 64, "brim try: --leak-rate: invalid limit: the limit is not set; to let nobody in, use --limit nobody"},
		{"try k 1 --capacity -1 --leak-rate 1", 64, "brim try: --capacity: invalid limit: capacity is -1; it must be from 0 to 2^53"},
		{"try k 1 --capacity 1 --limit nobody", 64, "brim try: --limit is a whole limit; it stands without --capacity, --leak-rate and --over"},
		{"try k 1 --limit everybody", 64, `brim try: --limit: invalid limit: "everybody": it has neither a period nor a leak rate; write 100/1h, 100@0.5 (leaks 0.5 per second), 100/day@UTC, nobody or unlimited`},
		{"replay - --limit nobody", 64, "brim replay: replay runs calls through a bucket, so it needs a capacity and a leak rate"},
		{"try k 1 --capacity NaN --leak-rate 1", 64, "brim try: --capacity: invalid limit: capacity is NaN; it must be from 0 to 2^53"},
		{"try k 1 --capacity ten --leak-rate 1", 64, `brim try: --capacity: "ten" is not a number`},
		{"try k 1 --capacity 9007199254740993 --leak-rate 1", 64, `brim try: --capacity: "9007199254740993" is more than 2^53, beyond which brim cannot count units exactly`},
		{"try k 1 --capacity 1 --leak-rate -1", 64, "brim try: --leak-rate: invalid limit: leak rate is -1 per second; it must be 0, or from 1e-12 to 2^53"},
		{"try k 1 --capacity 1 --leak-rate 1e-999", 64, `brim try: --leak-rate: "1e-999" is too small: it would count as 0`},
		{"try k 1 --capacity 1 --over 0s", 64, "brim try: --over is the time in which a full bucket drains; it must be positive"},
		{"try k 1 --capacity 1 --over 90", 64, `brim try: --over: "90" is not a duration: a unit is missing after a number, like 90s, 15m, 24h or 30d`},
		{"try k NaN --capacity 1 --leak-rate 1", 64, "brim try: invalid amount: the amount is NaN; it must be a number from 0 to 2^53"},
		{"try --capacity 1 --leak-rate 1 -- k -1", 64, "brim try: AMOUNT is -1; it must be positive"},
		{"fillup k x --capacity 1 --leak-rate 1", 64, "brim fillup: AMOUNT, which comes after KEY, is not a number"},
		{"try 1 LONG --capacity 1 --leak-rate 1", 64, "brim try: AMOUNT, which comes after KEY, is not a number"},
		{"try k 1e-300 --capacity 1 --leak-rate 1", 64, "brim try: invalid amount: the amount 1e-300 is lost in the rounding of capacity 1; count in larger units"},
		{"able '' 1 --capacity 1 --leak-rate 1", 64, "brim able: invalid key: the key is empty; a key has 1 to 512 bytes"},
		{"drain LONG 1 --capacity 1 --leak-rate 1", 64, "brim drain: invalid key: the key has 513 bytes; a key has 1 to 512 bytes"},
		{"state ''", 64, "brim state: invalid key: the key is empty; a key has 1 to 512 bytes"},
		{"block k 0s", 64, `brim block: DURATION is "0s"; it must be a positive time like 90s, 15m, 24h or 30d, or until-empty`},
		{"block k today", 64, `brim block: DURATION is "today"; it must be a positive time like 90s, 15m, 24h or 30d, or until-empty`},
		{"block '' 1h", 64, "brim block: invalid key: the key is empty; a key has 1 to 512 bytes"},
		{"block k", 64, "brim block: DURATION is missing"},
		{"unblock ''", 64, "brim unblock: invalid key: the key is empty; a key has 1 to 512 bytes"},
		{"reset", 64, "brim reset: KEY is missing"},
		{"reset a ''", 64, "brim reset: invalid key: the key is empty; a key has 1 to 512 bytes"},
		{"list --by size", 64, `brim list: --by is "size"; it must be level, ratio, key or refused`},
		{"list --by refused", 64, `brim list: --by refused needs the page of a program, https://..., as --store: a store keeps no refusals`},
		{"list --rows -1", 64, "brim list: --rows is -1; it must be positive, or 0 for all"},
		{"list --store ''", 64, "brim list: --store: not the name of a store: it is empty; give a file, sqlite:PATH, memory:, postgres://..., redis://..., redis+cluster://..., redis+sentinel://... or redis+unix://..."},
		{"list --store mysql://h", 64, "brim list: --store: not the name of a store: it looks like the address of a server, but its beginning is unknown; give a file, sqlite:PATH, memory:, postgres://..., redis://..., redis+cluster://..., redis+sentinel://... or redis+unix://.... A file of that name is file:NAME"},
		{"try k 1 --capacity 1 --leak-rate 1 --store postgres:/user:pw@host", 64, "brim try: --store: not the name of a store: two slashes must follow the colon, as in postgres://user:password@host:port/database"},
		{"fillup k 1 --capacity 1 --leak-rate 1 --store user:pw@host", 64, "brim fillup: --store: not the name of a store: it looks like the address of a server, but its beginning is unknown; give a file, sqlite:PATH, memory:, postgres://..., redis://..., redis+cluster://..., redis+sentinel://... or redis+unix://.... A file of that name is file:NAME"},
		{"migrate up --store redis://h", 64, "brim migrate up: migrations are for PostgreSQL and SQLite; give --store postgres://... or sqlite:PATH"},
		{"migrate sql --store postgres:/user:pw@host", 64, "brim migrate sql: --store: not the name of a store: two slashes must follow the colon, as in postgres://user:password@host:port/database"},
		{"verify --store redis://h", 64, "brim verify: verify reads a bbolt file; give its path with --store"},
		{"compact --store memory:", 64, "brim compact: compact shrinks a bbolt file; give its path with --store"},
		{"replay --capacity 1 --leak-rate 1", 64, "brim replay: LOG is missing"},
		{"replay -", 64, "brim replay: a limit needs --capacity, and one of --leak-rate and --over; or --limit"},
		{"replay - --capacity 1 --leak-rate 1 --top -1", 64, "brim replay: --top is -1; it must be 0 or more"},
		{"replay - --capacity 1 --leak-rate 1 --cost 0", 64, `brim replay: --cost: a cost is "bytes" or a number above 0 and at most 2^53; not "0"`},
		{"replay - --capacity 1 --leak-rate 1 --keep", 64, "brim replay: --keep needs --store; without --store, replay decides in memory"},
		{"replay - --capacity 1 --leak-rate 1 --max-keys 0", 64, "brim replay: --max-keys is 0; it must be 1 or more"},
		{"replay - --capacity 1 --leak-rate 1 --plot none/x.svg", 64, "brim replay: --plot: none/x.svg cannot be written: none is no directory"},
		{"replay - --capacity 1 --leak-rate 1 --plot .", 64, "brim replay: --plot: . is a directory; give the name of an SVG file"},
		{"size", 64, "brim size: LOG is missing; without LOG, size needs --leak-rate and --timeout"},
		{"size --timeout 3s", 64, "brim size: LOG is missing; without LOG, size needs --leak-rate and --timeout"},
		{"size --leak-rate 0 --timeout 3s", 64, "brim size: --leak-rate times --timeout: invalid limit: the limit is not set; to let nobody in, use --limit nobody"},
		{"size - --refuse 2", 64, `brim size: --refuse: "2" is not a share from 0 to 1, or from 0% to 100%`},
		{"size - --leak-rate 1 --over 1m", 64, "brim size: give one of --leak-rate and --over, not both"},
		{"size - --over 0s", 64, "brim size: --over is 0s; it must be positive"},
		{"size - --timeout 0s", 64, "brim size: --timeout is 0s; it must be positive"},
		{"size - --timeout 3s", 64, "brim size: --timeout is 3s, and every limit on the list drains in --over 1m0s; choose --over 3s or less"},
		{"size - --from 0", 64, "brim size: --from is 0 and --to is 0; --from must be positive and at most --to"},
		{"size - --from 5 --to 4", 64, "brim size: --from is 5 and --to is 4; --from must be positive and at most --to"},
		{"size - --from 31 --to 49", 64, "brim size: --from and --to: there is no round capacity from 31 to 49; choose bounds further apart"},
		{"size - --from 1e-9 --to 1e30", 64, "brim size: --from and --to: the list from 1e-09 to 1e+30 has 235 limits; choose bounds with at most 200"},
		{"size - --leak-rate 1 --timeout 1s --from 5", 64, "brim size: --from is 5, and a queue that drains within --timeout holds 1; choose a smaller --from"},
		{"size a b", 64, "brim size: 1 argument too many"},
		{"simulate --capacity 1 --leak-rate 1", 64, "brim simulate: --rate is missing: the number of arrivals per second; or list them with --at"},
		{"simulate --rate 1", 64, "brim simulate: a limit needs --capacity, and one of --leak-rate and --over; or --limit"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --pattern x", 64, `brim simulate: --pattern is "x"; it must be constant, poisson or bursts`},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --pattern bursts", 64, "brim simulate: --burst is 0; it must be from 1 to 100000000 in the pattern bursts, and 0 in others"},
		{"simulate --rate NaN --capacity 1 --leak-rate 1", 64, "brim simulate: --rate is NaN; it must be above 0 and at most 1e6 per second"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --keys 0", 64, "brim simulate: --keys is 0; it must be 1 or more"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --duration 0s", 64, "brim simulate: --duration is 0s; it must be positive"},
		{"simulate --rate 1e6 --capacity 1 --leak-rate 1 --duration 1h", 64, "brim simulate: --rate times duration is 3600000000 arrivals; it must be at most 100000000"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --keys 10000001", 64, "brim simulate: --keys is 10000001; it must be from 1 to 10000000"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --cost 1e300", 64, "brim simulate: --cost is 1e+300; it must be above 0 and at most 2^53"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --attempts 1001", 64, "brim simulate: --attempts is 1001; it must be from 1 to 1000"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --attempts 2 --retry-every 25h", 64, "brim simulate: --retry-every is 25h0m0s; it must be from 0 to 24h0m0s"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --attempts 2 --jitter 11", 64, "brim simulate: --jitter is 11; it must be from 0 to 10"},
		{"simulate --at 25h --capacity 1 --leak-rate 1", 64, "brim simulate: --at: an arrival is at 25h0m0s; it must be within 24h0m0s"},
		{"simulate --at 0@1s --capacity 1 --leak-rate 1", 64, "brim simulate: --at: the cost is 0; it must be above 0 and at most 2^53"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --attempts 0", 64, "brim simulate: --attempts is 0; it must be 1 or more"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --cost 0", 64, "brim simulate: --cost is 0; it must be above 0"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --cost 1e-300", 64, "brim simulate: --cost: invalid amount: the amount 1e-300 is lost in the rounding of capacity 1; count in larger units"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --compare --each", 64, "brim simulate: --compare prints a table of its own; leave out --plot, --each and --timeout"},
		{"simulate --rate 1 --capacity 1 --leak-rate 0 --compare", 64, "brim simulate: --compare needs a limit that leaks: without it there is no window"},
		{"simulate --rate 1e4 --capacity 1 --leak-rate 1 --compare", 64, "brim simulate: 600000 attempts are too many to compare; choose a shorter --duration with at most 100000"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --compare --attempts 2", 64, "brim simulate: --compare with --attempts needs --retry-every, because not every algorithm names a time"},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --jitter 1", 64, "brim simulate: --retry-every and --jitter need --attempts of 2 or more: with 1, nobody comes back"},
		{"simulate --rate 1e5 --capacity 1 --leak-rate 1 --plot x.svg", 64, "brim simulate: the first key may see 6000000 attempts, too many for a picture; choose a shorter --duration"},
		{"bench --callers 0", 64, "brim bench: --callers is 0; it must be from 1 to 100000"},
		{"bench --keys many", 64, `brim bench: --keys: "many" is not a whole number`},
		{"bench --keys 99999999999999999999", 64, `brim bench: --keys: "99999999999999999999" is out of range`},
		{"list --json=perhaps", 64, `brim list: --json: "perhaps" is not a choice: write true or false, or nothing`},
		{"reset k --all", 64, "brim reset: --all needs no KEY; leave out one of the two"},
		{"reset k --yes", 64, "brim reset: --yes and --prefix need --all"},
		{"bench --keys -1", 64, "brim bench: --keys is -1; it must be from 1 to 10000000"},
		{"bench --duration 0s", 64, "brim bench: --duration is 0s; it must be 10ms or more"},
		{"bench --refused 1.5", 64, `brim bench: --refused: "1.5" is not a share from 0 to 1, or from 0% to 100%`},
		{"bench --refused NaN", 64, `brim bench: --refused: "NaN" is not a share from 0 to 1, or from 0% to 100%`},
		{"bench --reference --store memory:", 64, "brim bench: memory: has no bare reference to compare it with; leave out --reference"},
		{"try k -1 --capacity 5 --leak-rate 1", 64, "brim try: AMOUNT is -1; it must be positive"},
		{"try -- k -1 --capacity 5 --leak-rate 1", 64, "brim try: 4 arguments too many"},
		{"try k 9 --capacity 5 --leak-rate 1 --store nodir/x.db", 69, "brim try: nodir/x.db: no such file or directory; create the directory first"},
		{"try k 1 --capacity 5 --leak-rate 1 --store .", 69, "brim try: .: it is a directory; give the path of a file"},
		{"try k 1 --capacity 5 --leak-rate 1 --store text.db", 65, `brim try: text.db: it is not a bbolt file, or its meta page is damaged; move the file and its journal away and restore the last backup; see "brim help backup"`},
		{"try k 1 --capacity 5 --leak-rate 1 --store empty.db", 65, `brim try: empty.db: it is empty, as no store leaves a file; if it was made by hand, remove it; move the file and its journal away and restore the last backup; see "brim help backup"`},
		{"state k --store lost.db", 69, "brim state: lost.db: the file is missing, but its journal lost.db.journal is there; put the file back beside it, or move the journal away to begin with no buckets"},
		{"list --store host:6379", 64, "brim list: --store: not the name of a store: it looks like the address of a server, but its beginning is unknown; give a file, sqlite:PATH, memory:, postgres://..., redis://..., redis+cluster://..., redis+sentinel://... or redis+unix://.... A file of that name is file:NAME"},
		{"list --store k=v.db", 64, "brim list: --store: not the name of a store: it looks like the address of a server, but its beginning is unknown; give a file, sqlite:PATH, memory:, postgres://..., redis://..., redis+cluster://..., redis+sentinel://... or redis+unix://.... A file of that name is file:NAME"},
		{"list --store postgres://nobody:secret@127.0.0.1:1/x", 69, "brim list: postgres: store unavailable: failed to connect to `user=nobody database=x`: 127.0.0.1:1 (127.0.0.1): dial error: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"list --store redis://127.0.0.1:1", 69, "brim list: redisstore: store unavailable: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"list --store http://127.0.0.1:1/", 69, "brim list: http://127.0.0.1:1/: store unavailable: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"try k 1 --capacity 5 --leak-rate 1 --store http://127.0.0.1:1/", 64, "brim try: --store is the address of a page, which only list, state, doctor, reset, block and unblock look into: brim has no server protocol, and decides and explains only in the program that has the store open; its page explains declined spends; to decide from many programs, share the buckets through PostgreSQL or Redis"},
		{"replay none.log --capacity 5 --leak-rate 1", 65, "brim replay: open none.log: no such file or directory"},
		{"replay . --capacity 5 --leak-rate 1", 65, "brim replay: . is a directory; give a file"},
		{"replay text.db --capacity 5 --leak-rate 1", 65, "brim replay: text.db: no request in its 1000 lines; tried access logs in NCSA common or combined format (Apache, nginx); CSV whose first line names time and key; JSON lines; --time and --key name other columns or members; line 1: it does not begin with host, identity, user and [time]"},
		{"size none.log", 65, "brim size: open none.log: no such file or directory"},
		{"backup nodir/x.db --store text.db", 65, `brim backup: text.db: it is not a bbolt file, or its meta page is damaged; move the file and its journal away and restore the last backup; see "brim help backup"`},
		{"exec k 1 --capacity 5 --leak-rate 1 -- nosuchcmd", 127, "brim exec: nosuchcmd: executable file not found in $PATH"},
		{"exec k 1 --capacity 5 --leak-rate 1", 64, "brim exec: CMD goes behind --"},
		{"unblock", 64, "brim unblock: KEY is missing"},
		{"migrate upp", 64, `brim migrate: there is no command "upp"; did you mean "up"?`},
		{"migrate status", 64, "brim migrate status: migrations are for PostgreSQL and SQLite; give --store postgres://... or sqlite:PATH"},
		{"migrate status --store postgres://nobody:secret@127.0.0.1:1/x", 69, "brim migrate status: postgres: store unavailable: failed to connect to `user=nobody database=x`: 127.0.0.1:1 (127.0.0.1): dial error: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"migrate status --store postgres://u:secret@[/db", 64, "brim migrate status: --store: not the name of a store: it is no URL like postgres://user:password@host:port/database; within the password, write %40 for @, %2F for /, %3F for ?, %23 for # and %25 for %"},
		{"migrate sql --store postgres:///db?brim_schema=pg_x", 64, `brim migrate sql: --store: not the name of a store: schema name "pg_x" starts with pg_, which PostgreSQL keeps for itself`},
		{"migrate partitions --every hour", 64, "brim migrate partitions: --every is day, week or month, and --ahead is 0 or more"},
		{"help nothing", 64, `brim help: there is no command "nothing"`},
		{"completion bsh", 64, `brim completion: there is no command "bsh"; did you mean "bash"?`},
		{"man nodir", 70, "brim man: open nodir/brim-able.1: no such file or directory"},
		{"spend sped", 64, `brim spend: there is no command "sped"`},
		{"spend charge card 1", 64, `brim spend charge: --budget is missing: the name of a budget in the store; "brim spend rules set FILE" stores one`},
		{"spend rules show --store cards.db", 64, `brim spend rules show: --budget is missing: the name of a budget in the store; "brim spend rules set FILE" stores one`},
		{"spend rules set nowhere.yaml", 65, "brim spend rules set: open nowhere.yaml: no such file or directory"},
		{"spend rules set field.yaml", 65, `brim spend rules set: field.yaml: not a budget file: line 2: colour: unknown field`},
		{"spend rules set rules.yaml", 65, "brim spend rules set: rules.yaml: not a budget file: line 1: budget: a budget's name must be 1 to 64 bytes of UTF-8 without control characters and without /"},
		{"spend rules set cards.yaml --budget cards", 64, "brim spend rules set: the file has the names of its budgets; leave out --budget"},
		{"spend rules set", 64, "brim spend rules set: FILE is missing"},
		{"spend rules histry", 64, `brim spend rules: there is no command "histry"; did you mean "history"?`},
		{"spend rules show --revision 7 --budget cards --store cards.db", 65, `brim spend rules show: budget "cards" has no revision 7`},
		{"spend rules diff rules2.yaml --store cards.db", 64, `brim spend rules diff: invalid request: "brim spend rules set FILE" stores a budget, and the ledger has none that is called "others"`},
		{"spend backtest --store cards.db", 64, "brim spend backtest: --rules is missing: the budget file with the other rules"},
		{"spend backtest --rules cards.yaml --since 0s --store cards.db", 64, "brim spend backtest: --since is 0s; it must be positive"},
		{"spend backtest --rules cards.yaml --top -1 --store cards.db", 64, "brim spend backtest: --top is -1; it must be 0 or more"},
		{"spend backtest --rules rules2.yaml --store cards.db", 64, `brim spend backtest: invalid request: "brim spend rules set FILE" stores a budget, and the ledger has none that is called "others"`},
		{"spend charge card --budget cards", 64, "brim spend charge: AMOUNT is missing"},
		{"spend charge card -1.00 --budget cards", 64, "brim spend charge: AMOUNT is -1.00; it must be positive"},
		{"spend charge card 1 --budget others --store cards.db", 64, `brim spend charge: invalid request: "brim spend rules set FILE" stores a budget, and the ledger has none that is called "others"`},
		{"spend charge card 1.234 --budget cards --store cards.db", 64, `brim spend charge: invalid amount: "1.234" has too many decimal places; the currency has 2`},
		{"spend charge card 0 --budget cards --store cards.db", 64, "brim spend charge: invalid amount: 0.00 EUR; it must be positive"},
		{"spend charge card 5x --budget cards --store cards.db", 64, `brim spend charge: invalid amount: "5x" is not a decimal number; write it like 12.34`},
		{"spend charge card 1 --tag travel --budget cards --store cards.db", 64, "brim spend charge: --tag is written like category=travel"},
		{"spend charge card 1 --tag a=1 --tag a=2 --budget cards --store cards.db", 64, "brim spend charge: --tag a is given twice"},
		{"spend charge card 1 --also team --budget cards --store cards.db", 64, "brim spend charge: --also is written BUDGET/ACCOUNT"},
		{"spend charge card 1 --also no/one --budget cards --store cards.db", 64, `brim spend charge: invalid request: "brim spend rules set FILE" stores a budget, and the ledger has none that is called "no"`},
		{"spend charge card 1 --budget cards --store redis://x", 64, "brim spend charge: spend keeps no ledger in Redis, because a fail-over there can lose what was acknowledged; give a file, sqlite:PATH or postgres://..."},
		{"spend capture pay 1 --budget cards --store cards.db", 65, "brim spend capture: no such spend: its ID is unknown, is older than --keep-ids, or began no spend, as that of a capture"},
		{"spend get pay --budget cards --store cards.db", 65, "brim spend get: no such spend: its ID is unknown, or is older than --keep-ids"},
		{"spend history card --rows -1 --budget cards", 64, "brim spend history: --rows is -1; it must be positive, or 0 for all"},
		{"fil k 1 --limit 5/1h", 64, `brim: there is no command "fil"; did you mean "fillup"?`},
		{"spend chrage card 1 --id pay", 64, `brim spend: there is no command "chrage"; did you mean "charge"?`},
		{"migrate upp --unlogged", 64, `brim migrate: there is no command "upp"; did you mean "up"?`},
		{"size - --refuse 1", 64, `brim size: --refuse: "1" may mean 1% or 100%; write the percent sign`},
		{"bench --refused 1.0", 64, `brim bench: --refused: "1.0" may mean 1% or 100%; write the percent sign`},
		{"size - --refuse 101%", 64, `brim size: --refuse: "101%" is not a share from 0 to 1, or from 0% to 100%`},
		{"simulate --rate 1 --capacity 1 --leak-rate 1 --plot x.png", 64, "brim simulate: --plot: x.png: a picture is in SVG; give a name that ends with .svg"},
		{"size - --plot picture", 64, "brim size: --plot: picture: a picture is in SVG; give a name that ends with .svg"},
		{"spend backtest --rules cards.yaml --plot flips.pdf --store cards.db", 64, "brim spend backtest: --plot: flips.pdf: a picture is in SVG; give a name that ends with .svg"},
		{"try k 0 --limit 5/1h", 64, "brim try: AMOUNT is 0; it must be positive"},
		{"fillup k 0 --limit 5/1h", 64, "brim fillup: AMOUNT is 0; it must be positive"},
		{"able k 0 --limit 5/1h", 64, "brim able: AMOUNT is 0; it must be positive"},
		{"drain k 0.0 --limit 5/1h", 64, "brim drain: AMOUNT is 0; it must be positive"},
		{"exec k 0 --limit 5/1h -- true", 64, "brim exec: AMOUNT is 0; it must be positive"},
		{"state k --capacity 1 --leak-rate 1 --over 1s", 64, "brim state: give one of --leak-rate and --over, not both"},
		{"compact --store postgres://127.0.0.1:1/x", 64, "brim compact: compact shrinks a bbolt file; give its path with --store"},
		{"backup x.db --store postgres://127.0.0.1:1/x", 64, "brim backup: backup copies a bbolt file or a SQLite database; give its name with --store"},
		{"spend rules check drains.yaml", 65, `brim spend rules check: drains.yaml: not a budget file: line 3: rules[0].drains_in: leaky rule "e": its drains_in is 0s; it must be from a microsecond to 100 years`},
		{"spend rules set two.yaml --store cards.db", 65, "brim spend rules set: two.yaml: not a budget file: a second document follows the first; a file has one budget"},
		{"list --limit 5", 64, "brim list: unknown flag: --limit"},
		{"spend rules set cards.yaml --by ops", 64, "brim spend rules set: unknown flag: --by"},
		{"reset --rows 3", 64, "brim reset: unknown flag: --rows"},
	} {
		if prefix, _, _ := strings.Cut(tc.says, ": "); !strings.HasPrefix(prefix, "brim") {
			t.Errorf("%q does not begin with the command", tc.says)
		}
		for line := range strings.SplitSeq((screen{width: columns}).fold(tc.says), "\n") {
			if n := utf8.RuneCountInString(line); n > columns && strings.Contains(strings.TrimLeft(line, " "), " ") {
				t.Errorf("brim %s: a terminal of %d columns gets a line of %d: %s", tc.call, columns, n, line)
			}
		}
		args := strings.Fields(tc.call)
		for i, arg := range args {
			switch arg {
			case "''":
				args[i] = ""
			case "LONG":
				args[i] = strings.Repeat("k", 513)
			}
		}
		want := tc.says
		if tc.code == exitUsage {
			command, _, _ := strings.Cut(want, ": ")
			want += fmt.Sprintf("; see %q", command+" --help")
		}
		if r := cli(t, args...); r.code != tc.code || r.stdout != "" || r.stderr != want+"\n" {
			t.Errorf("brim %s: exit status %d, stdout %q and\n%swant %d and\n%s", tc.call, r.code, r.stdout, r.stderr, tc.code, want)
		}
	}
	if after, _ := os.ReadDir("."); len(after) != len(before) {
		t.Errorf("wrong calls left %v behind", after)
	}
}

// inNoStore are calls that neither create a store nor answer for one that is not there. FILE stands
// for the file of a budget.
var inNoStore = []string{
	"state k --capacity 5 --leak-rate 1", "state k", "able k 5 --capacity 5 --leak-rate 1", "drain k 5 --capacity 5 --leak-rate 1",
	"list", "block k 1h", "unblock k", "reset k", "reset --all", "prune", "compact", "verify", "doctor", "backup new.db", "ui",
	"spend remaining card --budget cards", "spend history card --budget cards", "spend limits card --budget cards",
	"spend capture pay 1 --budget cards", "spend charge card 1 --budget cards", "spend rules show --budget cards",
	"spend rules diff FILE", "spend backtest --rules FILE",
}

// A command that reads from a mistyped path must neither create a file nor answer for it.
//
// Where a journal stands without its file, the file was lost. No command takes it for an empty
// store, and none makes a new file in its place.
func TestNoSuchStore(t *testing.T) {
	sound, _ := filled(t)
	s, lost := crash(t, sound)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(filepath.Dir(lost), "missing.db")
	budget := budgetIn(t, cardsBudget)
	on := func(call, path string) result {
		return cli(t, append(strings.Fields(strings.ReplaceAll(call, "FILE", budget)), "--store", path)...)
	}
	const orphan = "the file is missing, but its journal crashed.db.journal is there; put the file back beside it"
	for _, call := range inNoStore {
		on(call, missing).want(t, exitAbsent, "", missing+": no such file")
		on(call, lost).want(t, exitUnavailable, "", orphan)
	}
	for _, call := range []string{"try k 1 --capacity 5 --leak-rate 1", "spend rules set FILE"} {
		on(call, lost).want(t, exitUnavailable, "", orphan)
	}
	if entries, err := os.ReadDir(filepath.Dir(lost)); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v; want the journal alone", entries, err)
	}
	on("try k 1 --capacity 5 --leak-rate 1", missing).want(t, exitOK, "accepted", "")
	on("list", missing).want(t, exitOK, "k", "")
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
	fits(t, "brim --help", cli(t, "--help").stdout)
	fits(t, "brim help exit", cli(t, "help", "exit").stdout)
	for _, shell := range []string{"", "bash", "fish", "powershell", "zsh"} {
		fits(t, "brim completion", cli(t, "completion", shell, "--help").stdout)
	}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Name() == "help" || sub.Name() == "completion" || !sub.Runnable() && !sub.HasSubCommands() {
				continue // written by cobra, or no command but a topic of the help
			}
			path := strings.Fields(sub.CommandPath())[1:]
			r := cli(t, append(path, "--help")...)
			fits(t, sub.CommandPath()+" --help", r.stdout)
			r.want(t, exitOK, "Examples:\n  ", "")
			if sub.Short == "" || sub.Long == "" || !strings.Contains(sub.Example, sub.CommandPath()) {
				t.Errorf("%s lacks a description or an example of itself", sub.CommandPath())
			}
			for _, call := range calls(sub.Example) {
				cli(t, append(call, "-h")...).want(t, exitOK, "Usage:", "")
				if slices.Contains(call, "--capacity") {
					t.Errorf("brim %s: examples name a limit by --limit", strings.Join(call, " "))
				}
			}
			check(sub)
		}
	}
	check((&app{}).root())
}

// fits checks that no line of a text is wider than 80 columns.
func fits(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%s: a line of %d columns: %s", name, n, line)
		}
	}
}

// calls returns the arguments of the calls of brim in an example, without those of other programs.
func calls(example string) (all [][]string) {
	for _, part := range regexp.MustCompile(`\n| (?:\||\|\||&&|>|<|--) `).Split(example, -1) {
		if _, call, found := strings.Cut(" "+part, " brim "); found {
			all = append(all, strings.Fields(call))
		}
	}
	return all
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
