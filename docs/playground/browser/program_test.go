package browser

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// budget is the largest size of the compressed program in bytes.
const budget = 1_200_000

// TestProgram builds the program as "make playground" does, and compares its answers in Node.js with
// those of "brim simulate".
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	wasm, cli := filepath.Join(dir, "playground.wasm"), filepath.Join(dir, "brim")
	build(t, []string{"GOOS=js", "GOARCH=wasm"}, "-trimpath", "-ldflags=-s -w", "-o", wasm, "./docs/playground")
	program, err := os.ReadFile(wasm)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if packed.Len() > budget {
		t.Errorf("the program has %d bytes, compressed; want at most %d", packed.Len(), budget)
	}

	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("%v: on Debian, install nodejs", err)
	}
	build(t, nil, "-o", cli, "./cmd/brim")
	var inputs []map[string]any
	r := rand.New(rand.NewPCG(16, 4))
	for range 100 {
		inputs = append(inputs, randomInput(r))
	}
	accepted, refused := int64(0), int64(0)
	for i, got := range runInNode(t, node, wasm, inputs) {
		want := simulated(t, cli, filepath.Join(dir, "level.svg"), inputs[i])
		lines := linesOf(got.Level)
		got.Level = ""
		if got != want.answer || !slices.Equal(lines, want.lines) {
			t.Errorf("%v:\nthe playground answers %+v\nbrim simulate answers %+v; the pictures are equal: %v", inputs[i], got,
				want.answer, slices.Equal(lines, want.lines))
		}
		accepted, refused = accepted+got.Accepted, refused+got.Refused
	}
	if accepted < 1000 || refused < 1000 {
		t.Errorf("all inputs together accept %d and refuse %d attempts; want many of both", accepted, refused)
	}
}

func build(t *testing.T, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Dir = "../../.." // of the root module
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// randomInput returns inputs of every kind that the page offers.
func randomInput(r *rand.Rand) map[string]any {
	in := map[string]any{
		"capacity": float64(1+r.IntN(400)) / float64(1+r.IntN(8)), "leakRate": float64(1+r.IntN(300)) / float64(1+r.IntN(9)),
		"pattern": []string{"constant", "poisson", "bursts"}[r.IntN(3)], "use": []string{"meter", "queue"}[r.IntN(2)],
		"rate": float64(1+r.IntN(200)) / float64(1+r.IntN(4)), "duration": 1 + r.IntN(5000),
		"attempts": 1, "retryEvery": 0, "jitter": 0.0, "maxWait": 0, "burst": 0,
	}
	if in["pattern"] == "bursts" {
		in["burst"] = 1 + r.IntN(100)
	}
	if in["use"] == "queue" && r.IntN(2) == 0 {
		in["maxWait"] = 1 + r.IntN(3000)
	}
	if r.IntN(2) == 0 {
		in["attempts"], in["jitter"] = 2+r.IntN(5), float64(r.IntN(5))/4
		in["retryEvery"] = r.IntN(2) * (1 + r.IntN(2000))
	}
	return in
}

// answer is the part of an answer that both programs give.
type answer struct {
	Error       string  `json:"error"`
	Callers     int64   `json:"callers"`
	Attempts    int64   `json:"attempts"`
	Accepted    int64   `json:"accepted"`
	Refused     int64   `json:"refused"`
	Share       float64 `json:"share"`
	Served      int64   `json:"served"`
	GaveUp      int64   `json:"gaveUp"`
	Busiest     int64   `json:"busiest"`
	MeanWait    float64 `json:"meanWait"`
	LongestWait float64 `json:"longestWait"`
	Level       string  `json:"level"`
}

// nodeScript runs the program on the inputs of stdin.
const nodeScript = `
require(process.argv[3]);
const fs = require("fs"), go = new Go();
WebAssembly.instantiate(fs.readFileSync(process.argv[2]), go.importObject).then(({ instance }) => {
	go.run(instance);
	const inputs = JSON.parse(fs.readFileSync(0));
	fs.writeSync(1, JSON.stringify(inputs.map((i) => brimSimulate(i))));
	process.exit(0);
});`

func runInNode(t *testing.T, node, wasm string, inputs []map[string]any) []answer {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := json.Marshal(inputs)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "run.js")
	if err := os.WriteFile(script, []byte(nodeScript), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, script, wasm, filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var all []answer
	if err := json.Unmarshal(out, &all); err != nil || len(all) != len(inputs) {
		t.Fatalf("%v; %d answers to %d inputs", err, len(all), len(inputs))
	}
	return all
}

// simulation is the answer of "brim simulate", and the lines of its picture.
type simulation struct {
	answer
	lines []string
}

func simulated(t *testing.T, cli, svg string, in map[string]any) simulation {
	t.Helper()
	args := []string{"simulate", "--json", "--plot", svg, "--seed", "1"}
	flag := func(name, format string, value any) {
		args = append(args, "--"+name, fmt.Sprintf(format, value))
	}
	for name, key := range map[string]string{
		"capacity": "capacity", "leak-rate": "leakRate", "pattern": "pattern", "rate": "rate", "attempts": "attempts",
		"jitter": "jitter", "burst": "burst",
	} {
		flag(name, "%v", in[key])
	}
	for name, key := range map[string]string{"duration": "duration", "retry-every": "retryEvery", "max-wait": "maxWait"} {
		if in[key] != 0 {
			flag(name, "%dms", in[key])
		}
	}
	if in["use"] == "queue" {
		args = append(args, "--queue")
	}
	out, err := exec.Command(cli, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return simulation{answer: answer{Error: strings.TrimSpace(strings.TrimPrefix(string(exit.Stderr), "brim: "))}}
	} else if err != nil {
		t.Fatalf("brim %s: %v", strings.Join(args, " "), err)
	}
	var result struct {
		Limits []struct {
			Callers, Attempts, Accepted, Refused, Served int64
			Share                                        float64 `json:"refused_share"`
			GaveUp                                       int64   `json:"gave_up"`
			Busiest                                      int64   `json:"busiest_second"`
			MeanWait                                     float64 `json:"mean_wait"`
			LongestWait                                  float64 `json:"longest_wait"`
		}
	}
	if err := json.Unmarshal(out, &result); err != nil || len(result.Limits) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	picture, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	l := result.Limits[0]
	return simulation{answer{
		Callers: l.Callers, Attempts: l.Attempts, Accepted: l.Accepted, Refused: l.Refused, Share: l.Share,
		Served: l.Served, GaveUp: l.GaveUp, Busiest: l.Busiest, MeanWait: l.MeanWait, LongestWait: l.LongestWait,
	}, linesOf(string(picture))}
}

// linesOf returns the lines of a picture: axes and curves.
func linesOf(svg string) []string {
	return regexp.MustCompile(` points="[^"]*"`).FindAllString(svg, -1)
}
