package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/spend"
)

// childEnv, in the environment, makes this test binary the service. Its value is the arguments,
// each on a line.
const childEnv = "BRIM_CARDAUTH_TEST_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(childEnv); args != "" {
		os.Args = append(os.Args[:1], strings.Split(args, "\n")...)
		main()
		return
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	pgtest.Main(m)
}

// TestStatements counts the statements of the program.
func TestStatements(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	statements := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause: // a list of statements, and none itself
			case ast.Stmt:
				statements++
			}
			return true
		})
	}
	if t.Logf("%d statements", statements); statements > 175 || statements < 100 {
		t.Errorf("the program has %d statements; want at most 175", statements)
	}
}

func TestArguments(t *testing.T) {
	dir := t.TempDir()
	wrong, db := filepath.Join(dir, "wrong.json"), filepath.Join(dir, "cards.db")
	if err := os.WriteFile(wrong, []byte(`{"budget":"cards","currency":"EUR","rules":[{"name":"day","rolling":"1.00","windows":"1d"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, says string
		args       []string
	}{
		{"wrong rules", `rules[0]`, []string{"-rules", wrong}},
		{"a store without a ledger", "keeps no ledger", []string{"-store", "memory:"}},
		{"a wrong name of a store", "not the name of a store", []string{"-store", "localhost:5432"}},
		{"an address", "listen", []string{"-store", db, "-listen", "nowhere:x"}},
	} {
		if err := run(t.Context(), tc.args); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v; want %q in it", tc.name, err, tc.says)
		}
	}
	i := start(t, db) // the file is free again
	if err := i.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := i.cmd.Wait(); err != nil {
		t.Errorf("a service that is told to end: %v", err)
	}
}

// instance is a process of the service.
type instance struct {
	url  string
	cmd  *exec.Cmd
	kill func()
}

// start starts a service over the store with 1,000.00 for each card.
func start(t *testing.T, store string) *instance {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(rules, []byte(`{"budget":"cards","currency":"EUR","rules":[{"name":"ever","lifetime":"1000.00"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{"-listen", "127.0.0.1:0", "-store", store, "-rules", rules}, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	i := &instance{cmd: cmd, kill: sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})}
	t.Cleanup(i.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	address, is := strings.CutPrefix(line, "listening on ")
	if err != nil || !is {
		t.Fatalf("the service says %q, %v", line, err)
	}
	i.url = "http://" + strings.TrimSpace(address)
	return i
}

// client opens no more connections than there are callers.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 30 * time.Second}

// send sends a message, and returns the status of the answer.
func (i *instance) send(path, key, body string) (status int, answer spend.Decision, err error) {
	r, err := http.NewRequest(http.MethodPost, i.url+path, strings.NewReader(body))
	if err != nil {
		return 0, answer, err
	}
	r.Header.Set("Idempotency-Key", key)
	resp, err := client.Do(r)
	if err != nil {
		return 0, answer, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, answer, err
	}
	return resp.StatusCode, answer, json.NewDecoder(bytes.NewReader(text)).Decode(&answer)
}

// held returns the money that the card holds, by the service and by its open holds.
func (i *instance) held(t *testing.T) int64 {
	t.Helper()
	resp, err := client.Get(i.url + "/cards/7")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var card struct {
		Rules []spend.Usage
		Holds []spend.Status
	}
	if err := json.NewDecoder(resp.Body).Decode(&card); err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, h := range card.Holds {
		sum += h.Held.Minor
	}
	if card.Rules[0].Held.Minor != sum {
		t.Errorf("the card holds %v, and its holds %d", card.Rules[0].Held, sum)
	}
	return sum
}

// TestInstances has two processes over one PostgreSQL decide the same requests at the same time.
func TestInstances(t *testing.T) {
	schema := pgtest.Schema(t)
	if err := migrations.Up(t.Context(), pgtest.Pool(t), &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	name, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	query := name.Query()
	query.Set("brim_schema", schema)
	name.RawQuery = query.Encode()
	instances := []*instance{start(t, name.String()), start(t, name.String())}
	const requests = 40
	var statuses [2][requests]int
	var replays [2][requests]bool
	var callers sync.WaitGroup
	for i, to := range instances {
		for caller := range 8 {
			callers.Go(func() {
				for n := caller; n < requests; n += 8 {
					status, d, err := to.send("/authorizations", fmt.Sprint("pay-", n), pay("30.00", "food", ""))
					if statuses[i][n], replays[i][n] = status, d.Replayed; err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	callers.Wait()
	approved := int64(0)
	for n := range requests {
		if statuses[0][n] != statuses[1][n] {
			t.Errorf("request %d was answered %d and %d", n, statuses[0][n], statuses[1][n])
		}
		if statuses[0][n] == http.StatusOK {
			if approved++; replays[0][n] == replays[1][n] {
				t.Errorf("request %d: one of its answers must be the first", n)
			}
		}
	}
	if approved != 33 {
		t.Errorf("%d of 40 requests of 30.00 were approved; want 33, because 1,000.00 are there", approved)
	}
	for _, i := range instances {
		if held := i.held(t); held != approved*30_00 {
			t.Errorf("%d are held; want %d", held, approved*30_00)
		}
	}
}

// TestKilled kills services over one file while they decide, and sends again each request without
// an answer, or cancels it. Every request has the effect that its last answer tells.
func TestKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cards.db")
	r := rand.New(rand.NewPCG(1, 2))
	known := make(map[string]int) // the answers, by request
	var mu sync.Mutex
	unanswered, canceled := 0, 0
	for life := range 6 {
		i := start(t, file)
		for id, answered := range known {
			if answered == 0 && r.IntN(2) == 0 {
				answered = http.StatusPaymentRequired
				canceled++
				if status, d, err := i.send("/authorizations/"+id+"/cancel", "", `{"card":"7"}`); err != nil || status != http.StatusOK || !d.Canceled {
					t.Errorf("cancel of %s: %d, %+v, %v", id, status, d, err)
				}
			}
			status, d, err := i.send("/authorizations", id, pay("1.00", "food", ""))
			if err != nil || answered != 0 && status != answered || answered == http.StatusOK && !d.Replayed {
				t.Errorf("%s again: %d, %+v, %v; the first answer was %d", id, status, d, err, answered)
			}
			known[id] = status
		}
		want := int64(0)
		for _, status := range known {
			if status == http.StatusOK {
				want += 1_00
			}
		}
		if held := i.held(t); held != want {
			t.Errorf("in life %d %d are held; want %d", life, held, want)
		}
		time.AfterFunc(time.Duration(r.Int64N(int64(50*time.Millisecond))), i.kill)
		var callers sync.WaitGroup
		for caller := range 8 {
			callers.Go(func() {
				for n := 0; ; n++ {
					id := fmt.Sprintf("pay-%d-%d-%d", life, caller, n)
					status, _, err := i.send("/authorizations", id, pay("1.00", "food", ""))
					mu.Lock()
					if known[id] = status; err != nil {
						known[id] = 0
						unanswered++
						mu.Unlock()
						return
					}
					mu.Unlock()
				}
			})
		}
		callers.Wait()
	}
	if t.Logf("%d requests, %d without an answer, %d canceled", len(known), unanswered, canceled); unanswered == 0 || canceled == 0 {
		t.Error("the test has not tested much")
	}
}
