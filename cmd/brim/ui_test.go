package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/ui"
)

// served is a "brim ui" that runs in this process.
type served struct {
	link   string
	stderr *lockedText
	end    func() int
}

// lockedText is a text that two goroutines write and read.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serveUI runs "brim ui" until the test or end ends it.
func serveUI(t *testing.T, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	out, in := io.Pipe()
	s := &served{stderr: new(lockedText)}
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"ui"}, args...), strings.NewReader(""), in, s.stderr)
		_ = in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no link: %v, %s", err, s.stderr)
	}
	s.link = strings.TrimSpace(line)
	s.end = sync.OnceValue(func() int {
		http.DefaultClient.CloseIdleConnections()
		cancel(signalError{syscall.SIGINT})
		return <-code
	})
	t.Cleanup(func() { s.end() })
	return s
}

// fetch returns the status and the body of a page, and its address after redirects.
func fetch(t *testing.T, address string) (status int, body, at string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(content), answer.Request.URL.String()
}

func TestUI(t *testing.T) {
	file := storeIn(t)
	cli(t, "try", "tenant:42", "7", "--capacity", "10", "--leak-rate", "0", "--store", file).want(t, exitOK, "accepted", "")
	s := serveUI(t, "--store", file)
	status, body, inside := fetch(t, s.link)
	if status != http.StatusOK || !strings.Contains(body, "tenant:42") || !strings.Contains(body, file) {
		t.Errorf("status %d: %s", status, body)
	}
	if status, body, _ := fetch(t, s.link); status != http.StatusForbidden || !strings.Contains(body, "opens the page once") {
		t.Errorf("the link opened again: %d, %s", status, body)
	}
	if status, body, _ = fetch(t, inside+"bucket?key=tenant:42"); status != http.StatusOK || strings.Contains(body, "Reset") {
		t.Errorf("without --act: %d, %s", status, body)
	}
	base := s.link[:strings.Index(s.link, "/open/")]
	for _, path := range []string{"/", "/api/list", "/style.css", "/" + strings.Repeat("A", 26) + "/", "/open/", "/open/x", "/%2e%2e/"} {
		if status, body, _ := fetch(t, base+path); status != http.StatusForbidden || strings.Contains(body, file) {
			t.Errorf("%s: status %d: %s", path, status, body)
		}
	}
	if code := s.end(); code != exitSignal+2 {
		t.Errorf("exit status %d; want that of an interrupt; %s", code, s.stderr)
	}
	cli(t, "state", "tenant:42", "--store", file).want(t, exitOK, "7", "") // the file is free again
}

func TestUIFails(t *testing.T) {
	t.Chdir(t.TempDir())
	file := "limits.db"
	cli(t, "try", "k", "1", "--capacity", "10", "--leak-rate", "0", "--store", file).want(t, exitOK, "accepted", "")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	held, err := bolt.Open("held.db", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"--store limits.db --listen " + taken.Addr().String(), exitUnavailable, "is in use by another program"},
		{"--store limits.db --listen 127.0.0.1:99999", exitUnavailable, "cannot serve on 127.0.0.1:99999"},
		{"--store limits.db --listen 8080", exitUsage, "it should look like 127.0.0.1:8080"},
		{"--store limits.db --listen :8080", exitUsage, "serves only this machine"},
		{"--store limits.db --listen 0.0.0.0:8080", exitUsage, "serves only this machine"},
		{"--store limits.db --listen ops.example:8080", exitUsage, "serves only this machine"},
		{"--store missing.db", exitAbsent, "missing.db: no such file"},
		{"--store memory:", exitUsage, "memory: is empty"},
		{"--store limits.db --budget cards", exitUsage, `the ledger has none that is called "cards"`},
		{"--store redis://127.0.0.1:1 --budget cards", exitUsage, "keeps no ledger in Redis"},
		{"--store http://127.0.0.1:1/", exitUsage, "only list, state, doctor, reset, block and unblock"},
		{"--store limits.db x", exitUsage, "too many"},
		{"--store held.db", exitUnavailable, "locked"},
	} {
		cli(t, append([]string{"ui"}, strings.Fields(tc.args)...)...).want(t, tc.code, "", tc.says)
	}
	if _, err := os.Stat("missing.db"); err == nil {
		t.Error("ui has made a file")
	}
}

// TestUISpends shows the accounts of a budget.
func TestUISpends(t *testing.T) {
	file := storeIn(t)
	on := spendOn(t, cardsBudget, file)
	on("charge", "a", "100", "--id", "a1").want(t, exitOK, "charged", "")
	on("charge", "a", "950", "--id", "a2").want(t, exitRefused, "declined", "")
	s := serveUI(t, "--store", file, "--budget", "cards,team", "--act")
	_, body, inside := fetch(t, s.link)
	if !strings.Contains(body, `href="spends"`) {
		t.Errorf("no tab for spends: %s", body)
	}
	for path, want := range map[string]string{
		"account?budget=cards&account=a": "id=a2", "explain?budget=cards&id=a2": "month: refused",
		"backtest?budget=cards&account=a": "Decide anew", "account?budget=team&account=ops": "no entry of this account",
	} {
		if status, body, _ := fetch(t, inside+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d: %s", path, status, body)
		}
	}
	if code := s.end(); code != exitSignal+2 {
		t.Errorf("exit status %d; want that of an interrupt; %s", code, s.stderr)
	}
}

// TestUIToken gives "brim ui" a token that the commands for pages send.
func TestUIToken(t *testing.T) {
	file := storeIn(t)
	cli(t, "try", "tenant:42", "7", "--capacity", "10", "--leak-rate", "0", "--store", file).want(t, exitOK, "accepted", "")
	for _, token := range []string{"a", "fifteen-letters"} {
		t.Setenv("BRIM_TOKEN", token)
		cli(t, "ui", "--store", file).want(t, exitUsage, "", "openssl rand -hex 16")
	}
	t.Setenv("BRIM_TOKEN", "sixteen-letters!")
	s := serveUI(t, "--store", file)
	base := s.link[:strings.Index(s.link, "/open/")]
	t.Setenv("BRIM_TOKEN", "a")
	for range 12 {
		cli(t, "state", "tenant:42", "--store", base).want(t, exitUnavailable, "", "not allowed")
	}
	cli(t, "state", "tenant:42", "--store", base).want(t, exitUnavailable, "", "Too many requests had a wrong token")
	t.Setenv("BRIM_TOKEN", "sixteen-letters!")
	cli(t, "state", "tenant:42", "--store", base).want(t, exitOK, "7", "")
}

// program serves a page as a program does, below /limits/.
func program(t *testing.T, page http.Handler) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/limits/", http.StripPrefix("/limits", page))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return server
}

// TestPageAsStore looks into a store that a program has open, with the commands that may.
func TestPageAsStore(t *testing.T) {
	db, err := bolt.Open(storeIn(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lim := brim.New(db, nil)
	for i, key := range []string{"a", "b", "c\n"} {
		if _, err := lim.TryFillup(t.Context(), brim.Limit{Capacity: 10}.For(key), float64(5-i)); err != nil {
			t.Fatal(err)
		}
	}
	allow := ui.Bearer("a-long-enough-secret", ui.Act)
	page, err := ui.New(db, func(r *http.Request) ui.Access { return allow(r) }, &ui.Options{Check: db.Check, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	server := program(t, page)
	address := server.URL + "/limits/"
	on := func(args ...string) result { return cli(t, append(args, "--store", address)...) }

	on("list").want(t, exitUnavailable, "", "BRIM_TOKEN")
	t.Setenv("BRIM_TOKEN", "wrong")
	on("list").want(t, exitUnavailable, "", "not allowed")
	t.Setenv("BRIM_TOKEN", "a-long-enough-secret")
	for _, args := range [][]string{
		{"list"},
		{"list", "--json"},
		{"list", "--by", "ratio", "--rows", "2"},
		{"list", "--prefix", "b", "--json"},
		{"state", "a"},
		{"state", "a", "--json"},
		{"state", "none"},
		{"state", "a", "--capacity", "7", "--leak-rate", "0"},
	} {
		got := on(args...)
		want := cli(t, append(args, "--store", copyOf(t, db))...)
		if got.code != exitOK || at.ReplaceAllString(got.stdout, "") != at.ReplaceAllString(want.stdout, "") {
			t.Errorf("%q: %d\n%s%s\nthe file itself:\n%s", args, got.code, got.stdout, got.stderr, want.stdout)
		}
	}
	on("list").want(t, exitOK, "a", "the listing is")
	if r := on("doctor", "--json"); r.code == exitUsage || r.code == exitUnavailable || strings.Contains(r.stdout, "another process") {
		t.Errorf("doctor: %+v", r) // the directory for tests may have findings
	}
	on("block", "a", "1h").want(t, exitOK, "blocked until", "")
	on("block", "new", "1h").want(t, exitOK, "blocked until", "")
	on("unblock", "a").want(t, exitOK, "not blocked: level 5 of 10", "")
	on("reset", "a", "c\n").want(t, exitOK, "reset: 2", "")
	if st, err := lim.StateOf(t.Context(), "a"); err != nil || st.Capacity != 0 {
		t.Errorf("%+v, %v after a reset", st, err)
	}
	allow = ui.Bearer("a-long-enough-secret", ui.Look)
	on("state", "b").want(t, exitOK, "4", "")
	on("reset", "b").want(t, exitUnavailable, "", "not allowed: You may look, and neither change anything nor run a backtest. A program allows both by ui.Act for the request, and brim ui by --act.\n")
	if st, err := lim.StateOf(t.Context(), "b"); err != nil || st.Level != 4 {
		t.Errorf("%+v, %v after a reset that was not allowed", st, err)
	}
	server.Close()
	on("state", "b").want(t, exitUnavailable, "", "store unavailable")
	address = "http://user:hunter2@[::1"
	if r := on("state", "b"); r.code != exitUsage || strings.Contains(r.stderr, "hunter2") {
		t.Errorf("%d, %s", r.code, r.stderr)
	}
}

// TestPageIsNoStore gives the address of a page to every other command.
func TestPageIsNoStore(t *testing.T) {
	t.Chdir(t.TempDir())
	limit := []string{"--capacity", "1", "--leak-rate", "1"}
	allowed := 0
	a := &app{}
	for _, cmd := range a.root().Commands() {
		if cmd.Annotations[pageStore] != "" {
			allowed++
		}
	}
	if allowed != 6 {
		t.Errorf("%d commands take a page", allowed)
	}
	for _, args := range [][]string{
		append([]string{"try", "k", "1"}, limit...), append([]string{"fillup", "k", "1"}, limit...),
		append([]string{"able", "k", "1"}, limit...), append([]string{"drain", "k", "1"}, limit...),
		append([]string{"exec", "k", "1", "--"}, "true"),
		{"prune"},
		{"compact"},
		{"backup", "x.db"},
		{"verify"},
		{"bench"},
		{"version"},
		append([]string{"replay", "-"}, limit...),
		{"size", "-"},
		append([]string{"simulate", "--rate", "1"}, limit...),
		{"migrate", "up"},
		{"migrate", "sql"},
		{"spend", "get", "pay-1"},
		{"ui"},
	} {
		r := cli(t, append([]string{args[0], "--store", "https://app.example/limits/"}, args[1:]...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, "brim has no server protocol") {
			t.Errorf("%q: %d, %s", args, r.code, r.stderr)
		}
	}
	t.Setenv("BRIM_STORE", "https://app.example/limits/")
	cli(t, append([]string{"try", "k", "1"}, limit...)...).want(t, exitUsage, "", "brim has no server protocol")
	cli(t, "version").want(t, exitOK, "brim", "")
}

// copyOf returns the name of a copy of an open store.
func copyOf(t *testing.T, db *bolt.Store) string {
	t.Helper()
	f, err := os.Create(storeIn(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err = db.Backup(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// at is the member at of a state, which differs between two readings.
var at = regexp.MustCompile(`,"at":"[^"]*"`)

// TestListRefused asks the page of a program that refuses.
func TestListRefused(t *testing.T) {
	s := memory.New(nil)
	defer s.Close()
	recorder, err := ui.NewRecorder(nil)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := recorder.Wrap(s)
	if err != nil {
		t.Fatal(err)
	}
	page, err := ui.New(recorded, ui.Bearer("a-long-enough-secret", ui.Look), &ui.Options{Recorder: recorder})
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	server := program(t, page)
	t.Setenv("BRIM_TOKEN", "a-long-enough-secret")
	list := func(args ...string) result {
		return cli(t, append([]string{"list", "--by", "refused", "--store", server.URL + "/limits/"}, args...)...)
	}
	list().want(t, exitOK, "nothing was refused in the last ten minutes", "")
	lim := brim.New(recorded, nil)
	for key, n := range map[string]int{"card:1": 2, "card:2": 7} {
		for range n {
			if _, err := lim.TryFillup(t.Context(), brim.Limit{Capacity: 1}.For(key), 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	list().want(t, exitOK, "BLOCKED UNTIL\ncard:2 ", "")
	list("--prefix", "card:1").want(t, exitOK, "card:1 ", "")
	list("--rows", "1", "--json").want(t, exitOK, `{"key":"card:2",`, "")
}
