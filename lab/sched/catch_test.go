package sched

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/harness"
)

// planted is a defect of a subject, as a change of one place in a file. The function planted of
// the file's package tells whether it is on.
type planted struct {
	subject   *subject
	name, why string
	file      string
	old, new  string
}

// defects are the planted defects. The harness must find each of them.
var defects = []planted{
	{
		combineSubject, "lost update", "two flushes decide one key at once",
		"internal/combine/lane.go",
		"if c.busy[r.slot] == 0 {\n\t\t\tc.queue.remove(r)",
		"if c.busy[r.slot] == 0 || planted(\"lost update\") {\n\t\t\tc.queue.remove(r)",
	},
	{
		combineSubject, "answered twice", "the next caller takes the answer for its own",
		"internal/combine/combine.go",
		"r.done <- struct{}{} // the caller may use r for something else from here on",
		`r.done <- struct{}{}
			if planted("answered twice") {
				select {
				case r.done <- struct{}{}:
				default:
				}
			}`,
	},
	{
		combineSubject, "never answered", "a caller of a batch waits for ever",
		"internal/combine/combine.go",
		"if r != nil {\n",
		"if r != nil && !(i > 0 && planted(\"never answered\")) {\n",
	},
	{
		combineSubject, "leave takes another along", "the request behind the one that left is gone, too",
		"internal/combine/combine.go",
		"c.queue.remove(r)\n\t\tc.mu.Unlock()\n",
		"if r.next != nil && planted(\"leave takes another along\") {\n\t\t\tc.queue.remove(r.next)\n\t\t}\n" +
			"\t\tc.queue.remove(r)\n\t\tc.mu.Unlock()\n",
	},
	{
		combineSubject, "another flush is cut", "the flush of a caller whose context has ended has ended, too",
		"internal/combine/combine.go",
		"if !done {\n",
		"if !done || planted(\"another flush is cut\") {\n",
	},
	{
		leaseSubject, "more than it took", "an allotment serves units that the store did not grant",
		"local/account.go",
		"\ta.allotment.Store(&allotment{\n",
		"\tif planted(\"more than it took\") {\n\t\tleft += a.size\n\t}\n\ta.allotment.Store(&allotment{\n",
	},
	{
		leaseSubject, "served twice", "two callers get the same units of an allotment",
		"local/allotment.go",
		"\t\tif l.spent.CompareAndSwap(bits, math.Float64bits(before+n)) {\n",
		"\t\tif planted(\"served twice\") {\n\t\t\tyield()\n\t\t\tl.spent.Store(math.Float64bits(before + n))\n\t\t\treturn true\n\t\t}\n" +
			"\t\tif l.spent.CompareAndSwap(bits, math.Float64bits(before+n)) {\n",
	},
	{
		refusalsSubject, "remembered beyond its time", "a refusal counts longer than Remember",
		"local/snapshot.go",
		"case elapsed >= remember || e.changes(op, clock):",
		"case elapsed >= remember && !planted(\"remembered beyond its time\") || e.changes(op, clock):",
	},
	{
		refusalsSubject, "an old answer is learned", "the answer is older than the call that made room",
		"local/cache.go",
		"if cs.generation.Load() != generation || old != nil",
		"if cs.generation.Load() != generation && !planted(\"an old answer is learned\") || old != nil",
	},
	{
		refusalsSubject, "granted from memory", "only the store may grant",
		"local/refusals.go",
		"\t\t\treturn st, nil\n\t\t}\n\t}\n\tif op.Mode == store.Ask {",
		"\t\t\tst.Accepted = planted(\"granted from memory\")\n\t\t\treturn st, nil\n\t\t}\n\t}\n\tif op.Mode == store.Ask {",
	},
	{
		refusalsSubject, "the level stands still", "memory shows units that have leaked",
		"local/snapshot.go",
		"st.RetryAfter = e.rec.LevelAt(clock), e.rec.Held, wait\n",
		"st.RetryAfter = e.rec.LevelAt(clock), e.rec.Held, wait\n\tif planted(\"the level stands still\") {\n\t\tst.Level = e.rec.Level\n\t}\n",
	},
	{
		refusalsSubject, "the wait stands still", "the caller waits longer than for the room",
		"local/snapshot.go",
		"\tcase wait < store.Never:\n\t\twait -= ",
		"\tcase wait < store.Never && !planted(\"the wait stands still\"):\n\t\twait -= ",
	},
	{
		refusalsSubject, "another amount is sent", "the store decides about other units than the caller's",
		"local/refusals.go",
		"\tsent := r.now()\n\tst, err = r.Store.Fill(ctx, *op)\n",
		"\tsent := r.now()\n\tif planted(\"another amount is sent\") && op.Amount > 39 {\n\t\top.Amount--\n\t}\n" +
			"\tst, err = r.Store.Fill(ctx, *op)\n",
	},
	{
		shaperSubject, "slot lost", "a caller whose context ends keeps its turn",
		"shaper.go",
		"giveBack(ctx context.Context) error {\n",
		"giveBack(ctx context.Context) error {\n\tif planted(\"slot lost\") {\n\t\treturn nil\n\t}\n",
	},
	{
		shaperSubject, "taken back twice", "two Cancels take the same units out",
		"shaper.go",
		"r.done = st.Accepted || errors.Is(err, ErrUnknownOutcome)\n",
		"r.done = (st.Accepted || errors.Is(err, ErrUnknownOutcome)) && !planted(\"taken back twice\")\n",
	},
	{
		syncSubject, "no sync at intervals", "only Sync and Close make decisions durable",
		"internal/kv/checkpoint.go",
		"\t\t_ = d.Sync(context.Background()) // after an error, the file refuses all work\n",
		"\t\tif !planted(\"no sync at intervals\") {\n\t\t\t_ = d.Sync(context.Background())\n\t\t}\n",
	},
	{
		syncSubject, "a frame too much", "a frame that is written during a sync counts as synced",
		"internal/kv/log.go",
		"w.synced.Store(below)\n",
		"w.synced.Store(below)\n\t\tif planted(\"a frame too much\") {\n\t\t\tw.synced.Add(1)\n\t\t}\n",
	},
	{
		syncSubject, "on after a failure", "decisions are accepted after a sync that failed",
		"internal/kv/checkpoint.go",
		"\t\td.file.Refuse(msg)\n",
		"\t\tif !planted(\"on after a failure\") {\n\t\t\td.file.Refuse(msg)\n\t\t}\n",
	},
}

// defectEnv is the environment variable that names the defect that is on.
const defectEnv = "BRIM_SCHED_DEFECT"

// TestCatches builds the tests with all defects in the subjects, and has them find each.
func TestCatches(t *testing.T) {
	if _, ok := os.LookupEnv(defectEnv); ok {
		for _, d := range defects {
			t.Run(d.subject.name+"/"+d.name, d.caught)
		}
		return
	}
	program := filepath.Join(t.TempDir(), "planted.test")
	build := exec.Command("go", "test", "-c", "-trimpath", "-overlay", overlay(t), "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the tests with defects do not build: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), program, "-test.run=^TestCatches$", "-test.v", "-test.timeout=5m")
	run.Env = append(os.Environ(), defectEnv+"=")
	out, err := run.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("a defect was not caught: %v", err)
	}
}

// caught explores the subject with the defect.
func (d planted) caught(t *testing.T) {
	t.Setenv(defectEnv, d.name)
	begun := time.Now()
	n, p, err := d.subject.explore(t, 1, harness.Budget{Count: math.MaxInt, Time: time.Minute})
	if err == nil {
		t.Fatalf("%d schedules did not catch it: %s", n, d.why)
	}
	t.Logf("caught after %d schedules and %v: %.200v", n+1, time.Since(begun).Round(time.Millisecond), err)
	if d.name == "never answered" { // two calls are enough
		if p, _ = d.subject.shrink(t, p, err); len(p.calls) > 3 {
			t.Errorf("%d calls are left after shrinking:\n%v", len(p.calls), p)
		}
	}
}

// plantedGo is in each package with a defect.
const plantedGo = `

import (
	"os"
	"runtime"
)

func planted(name string) bool { return os.Getenv("` + defectEnv + `") == name }

func yield() { runtime.Gosched() }
`

// overlay writes the files with all defects, and returns the path of a file for the flag -overlay.
func overlay(t *testing.T) string {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, d := range defects {
		if _, ok := texts[d.file]; !ok {
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(d.file)))
			if err != nil {
				t.Fatal(err)
			}
			texts[d.file] = string(text)
		}
		if n := strings.Count(texts[d.file], d.old); n != 1 {
			t.Fatalf("%s has %d times, not once:\n%s", d.file, n, d.old)
		}
		texts[d.file] = strings.Replace(texts[d.file], d.old, d.new, 1)
		name, _, _ := strings.Cut(texts[d.file][strings.Index(texts[d.file], "\npackage ")+1:], "\n")
		texts[path.Join(path.Dir(d.file), "planted.go")] = name + plantedGo
	}
	dir := t.TempDir()
	replace := make(map[string]string)
	for name, text := range texts {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		replace[filepath.Join(root, filepath.FromSlash(name))] = file
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return list
}
