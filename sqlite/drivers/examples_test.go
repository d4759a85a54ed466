package drivers

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// build builds an example with the import of a driver, as a user of SQLite has it.
func build(t *testing.T, d Driver, name string) (program string) {
	t.Helper()
	dir := t.TempDir()
	source, err := filepath.Abs(filepath.Join("..", "..", "examples", name, "driver.go"))
	must(t, err)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	imports := file("driver.go", fmt.Sprintf("package main\n\nimport _ %q\n", d.Import))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: imports}})
	must(t, err)
	program = filepath.Join(dir, "program")
	out, err := exec.Command("go", "build", "-ldflags=-w", "-overlay", file("overlay.json", string(overlay)),
		"-o", program, "github.com/brimgo/brim/examples/"+name).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// ingest has three processes write rows of one tenant at once. No window of the rows' own times has
// more rows than the limit admits in it, and no row is missing.
func ingest(t *testing.T, d Driver) {
	const capacity, rate, rows = 200, 1000.0, 300
	program := build(t, d, "ingest")
	for _, way := range []string{"refuse", "part", "wait"} {
		path := filepath.Join(t.TempDir(), "app.db")
		var wg sync.WaitGroup
		for _, batch := range []int{50, 100, capacity} {
			wg.Go(func() {
				out, err := exec.CommandContext(t.Context(), program, "-store", "sqlite:"+path, "-limit", fmt.Sprintf("%d@%v", capacity, rate),
					"-rows", fmt.Sprint(rows), "-batch", fmt.Sprint(batch), "-way", way).CombinedOutput()
				if t.Logf("%s, batches of %d: %s", way, batch, out); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		times := charged(t, harness{Driver: d}.database(t, path))
		earlier := math.Inf(1) // the least of the rows before less those that had leaked
		for n, at := range times {
			leaked := rate * float64(at-times[0]) / 1e6
			earlier = min(earlier, float64(n)-leaked)
			if over := float64(n+1) - leaked - earlier; over > capacity+rate/1e6+1e-6 {
				t.Fatalf("%s: the window that ends %d us after the first row has %v rows more than leak in it", way, at-times[0], over)
			}
		}
		if len(times) != 3*rows {
			t.Errorf("%s: %d rows are in the table, want %d", way, len(times), 3*rows)
		}
	}
}

// charged returns the times at which rows were charged, in microseconds.
func charged(t *testing.T, db *sql.DB) (times []int64) {
	t.Helper()
	found, err := db.Query(`SELECT charged FROM events ORDER BY charged`)
	must(t, err)
	defer func() { must(t, found.Close()) }()
	for found.Next() {
		var at int64
		must(t, found.Scan(&at))
		times = append(times, at)
	}
	must(t, found.Err())
	return times
}

// cardauth has two processes over one database decide the same requests at the same time. One of
// them is killed, and a third one knows all their answers.
func cardauth(t *testing.T, d Driver) {
	program, path := build(t, d, "cardauth"), filepath.Join(t.TempDir(), "cards.db")
	rules := filepath.Join(t.TempDir(), "rules.json")
	must(t, os.WriteFile(rules, []byte(`{"budget":"cards","currency":"EUR","rules":[{"name":"ever","lifetime":"1000.00"}]}`), 0o600))
	start := func() (address string, kill func()) {
		cmd := exec.Command(program, "-listen", "127.0.0.1:0", "-store", "sqlite:"+path, "-rules", rules)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		kill = sync.OnceFunc(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		t.Cleanup(kill)
		line, err := bufio.NewReader(out).ReadString('\n')
		address, is := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
		if err != nil || !is {
			t.Fatalf("the service says %q, %v", line, err)
		}
		return "http://" + address, kill
	}
	const requests = 40
	var mu sync.Mutex
	statuses := make([][]int, requests) // of each request
	send := func(to string, n int) {
		const pay = `{"card":"7","amount":{"amount":"30.00","currency":"EUR"},"tags":{"category":"food"}}`
		r, err := http.NewRequest(http.MethodPost, to+"/authorizations", strings.NewReader(pay))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Idempotency-Key", fmt.Sprint("pay-", n))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
		mu.Lock()
		defer mu.Unlock()
		statuses[n] = append(statuses[n], resp.StatusCode)
	}
	var callers sync.WaitGroup
	all := func(to string) {
		for caller := range 4 {
			callers.Go(func() {
				for n := caller; n < requests; n += 4 {
					send(to, n)
				}
			})
		}
	}
	one, kill := start()
	other, _ := start()
	all(one)
	all(other)
	callers.Wait()
	kill()
	third, _ := start()
	all(third)
	callers.Wait()
	approved := 0
	for n, got := range statuses {
		if len(got) != 3 || got[0] != got[1] || got[1] != got[2] {
			t.Errorf("request %d was answered %v", n, got)
		} else if got[0] == http.StatusOK {
			approved++
		}
	}
	if approved != 33 {
		t.Errorf("%d of 40 requests of 30.00 were approved; want 33, because 1,000.00 are there", approved)
	}
}
