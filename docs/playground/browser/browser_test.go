package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// contrasts is a script that returns each piece of visible text whose contrast against its ground is
// below 4.5, or that is smaller than 10 pixels, and the number of pieces that it has seen.
const contrasts = `(() => {
	const rgb = (c) => c.match(/[\d.]+/g).map(Number);
	const light = ([r, g, b]) => {
		const f = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
		return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
	};
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const svg = e.closest("svg");
			if (svg && e === svg) return rgb(getComputedStyle(svg.querySelector(".ground")).color);
			const c = rgb(getComputedStyle(e).backgroundColor);
			if (!svg && c.length === 3) return c;
		}
		return [255, 255, 255];
	};
	const bad = [];
	let seen = 0;
	const look = (e, text) => {
		const box = e.getBoundingClientRect();
		if (!text.trim() || !box.width || getComputedStyle(e).visibility !== "visible") return;
		seen++;
		const a = light(rgb(getComputedStyle(e).color)), b = light(ground(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		const scale = e.ownerSVGElement ? e.getScreenCTM().a : 1;
		const size = parseFloat(getComputedStyle(e).fontSize) * scale;
		if (ratio < 4.5) bad.push(text.trim() + ": contrast " + ratio.toFixed(2));
		if (size < 10) bad.push(text.trim() + ": " + size.toFixed(1) + " pixels high");
	};
	for (const e of document.querySelectorAll("body *")) {
		if (e.matches("script, style, title, desc, option, noscript, noscript *")) continue;
		if (e.matches("input[type=number], select")) look(e, e.value);
		for (const n of e.childNodes) if (n.nodeType === 3) look(e, n.data);
	}
	return { seen, bad };
})()`

func TestLooks(t *testing.T) {
	for _, width := range []int64{360, 800, 1400} {
		for _, scheme := range []string{"light", "dark"} {
			for _, state := range []string{"constant", "bursts"} {
				ctx := open(t, view{width, scheme})
				name := fmt.Sprintf("%s-%d-%s", state, width, scheme)
				if state == "bursts" { // every field shows
					set(t, ctx, "pattern", "bursts")
					set(t, ctx, "use", "queue")
					set(t, ctx, "attempts", "3")
				}
				if over := evaluate[int](t, ctx, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
					t.Errorf("%s: the page is %d pixels wider than the window", name, over)
				}
				looked := evaluate[struct {
					Seen int
					Bad  []string
				}](t, ctx, contrasts)
				if len(looked.Bad) > 0 || looked.Seen < 60 {
					t.Errorf("%s: of %d texts: %s", name, looked.Seen, strings.Join(looked.Bad, "; "))
				}
				if cut := evaluate[[]string](t, ctx, `[...document.querySelectorAll(".picture svg text")].filter((e) => {
					const a = e.getBoundingClientRect(), b = e.ownerSVGElement.getBoundingClientRect();
					return a.left < b.left - 1 || a.right > b.right + 1;
				}).map((e) => e.textContent)`); len(cut) > 0 {
					t.Errorf("%s: a picture cuts off %q", name, cut)
				}
				if dir := os.Getenv("BRIM_SCREENSHOTS"); dir != "" {
					png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// TestKeyboard reaches every control with Tab, sees where it is, and moves a slider.
func TestKeyboard(t *testing.T) {
	ctx := open(t, view{800, "light"})
	set(t, ctx, "pattern", "bursts")
	want := evaluate[[]string](t, ctx, `[...document.querySelectorAll("input, select, pre")].filter((e) => e.offsetParent).map((e) => e.id)`)
	evaluate[bool](t, ctx, `document.activeElement.blur() || true`)
	var got []string
	for range want {
		do(t, ctx, chromedp.KeyEvent(kb.Tab))
		at := evaluate[struct {
			ID      string
			Outline string
		}](t, ctx, `({ ID: document.activeElement.id, Outline: getComputedStyle(document.activeElement).outlineStyle })`)
		got = append(got, at.ID)
		if at.Outline == "none" {
			t.Errorf("nothing shows that %s has the focus", at.ID)
		}
	}
	if !slices.Equal(got, want) || len(want) < 12 {
		t.Errorf("Tab reaches %v; want %v", got, want)
	}
	before := evaluate[string](t, ctx, `document.getElementById("level").innerHTML`)
	do(t, ctx, chromedp.Focus(chromedp.CSS("#capacity-slider")), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	if v := evaluate[string](t, ctx, `document.getElementById("capacity").value`); v != "12" {
		t.Errorf("two steps to the right move the capacity from 10 to %s; want 12", v)
	}
	if before == evaluate[string](t, ctx, `document.getElementById("level").innerHTML`) {
		t.Error("the picture does not follow the slider")
	}
}

// TestNames looks at the accessibility tree: every control and picture has a name, and headings are
// in order.
func TestNames(t *testing.T) {
	ctx := open(t, view{800, "light"})
	set(t, ctx, "pattern", "bursts")
	set(t, ctx, "attempts", "2")
	tree, err := chromedp.Call(ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	controls := 0
	level := 0.0
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role, name := text(n.Role), text(n.Name)
		switch role {
		case "slider", "spinbutton", "combobox", "region", "form", "table", "group", "image", "img":
			controls++
			if name == "" {
				t.Errorf("a %s has no name", role)
			}
		case "heading":
			for _, p := range n.Properties {
				if p.Name != "level" {
					continue
				}
				var next float64
				if err := json.Unmarshal(p.Value.Value, &next); err != nil || next > level+1 {
					t.Errorf("the heading %q of level %v follows level %v, %v", name, next, level, err)
				}
				level = next
			}
		}
	}
	if controls < 18 || level == 0 {
		t.Errorf("the tree has %d controls and headings down to level %v; want all of the page", controls, level)
	}
}

// TestCommand runs the command that the page shows, and compares the answers.
func TestCommand(t *testing.T) {
	ctx := open(t, view{800, "dark"})
	cli := filepath.Join(t.TempDir(), "brim")
	build := exec.Command("go", "build", "-o", cli, "./cmd/brim")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, fields := range []map[string]string{
		{},
		{"pattern": "poisson", "rate": "33.5", "leakRate": "7.25"},
		{"pattern": "bursts", "burst": "30", "attempts": "4", "retryEvery": "250", "jitter": "0.5"},
		{"use": "queue", "maxWait": "700", "duration": "1234"},
		{"attempts": "3", "retryEvery": "0", "jitter": "1"},
	} {
		do(t, ctx, chromedp.Reload(), chromedp.WaitVisible(chromedp.CSS("#numbers tr")))
		for _, order := range []string{"pattern", "use", "attempts"} { // these show the other fields
			if v, ok := fields[order]; ok {
				set(t, ctx, order, v)
			}
		}
		for id, v := range fields {
			set(t, ctx, id, v)
		}
		command := evaluate[string](t, ctx, `document.getElementById("command").textContent`)
		args := append(strings.Fields(command)[1:], "--json")
		out, err := exec.Command(cli, args...).Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		var answer struct {
			Limits []struct{ Accepted, Attempts, Served, Callers int64 }
		}
		if err := json.Unmarshal(out, &answer); err != nil || len(answer.Limits) != 1 {
			t.Fatalf("%s: %v", out, err)
		}
		l := answer.Limits[0]
		summary := evaluate[string](t, ctx, `document.getElementById("summary").textContent`)
		if !strings.HasPrefix(summary, fmt.Sprintf("%d of %d attempts are accepted", l.Accepted, l.Attempts)) ||
			!strings.Contains(summary, fmt.Sprintf(" %d of %d callers are served.", l.Served, l.Callers)) {
			t.Errorf("the page says %q, and %s answers %+v", summary, command, l)
		}
	}
	for id, v := range map[string]string{"capacity": "-1", "rate": "", "duration": "99999999"} {
		do(t, ctx, chromedp.Reload(), chromedp.WaitVisible(chromedp.CSS("#numbers tr")))
		set(t, ctx, id, v)
		if summary := evaluate[string](t, ctx, `document.getElementById("summary").textContent`); !strings.HasPrefix(summary, "This cannot be simulated: ") {
			t.Errorf("%s is %q, and the page says %q", id, v, summary)
		}
	}
}

// TestSpeed measures runs of the most attempts. A run has 50 ms of the time of the page's thread, which
// is the time on the clock unless other programs keep the machine busy.
func TestSpeed(t *testing.T) {
	ctx := open(t, view{1400, "light"})
	domain := performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}
	if _, err := chromedp.Call(ctx, performance.Enable, domain); err != nil {
		t.Fatal(err)
	}
	spent := func() float64 {
		r, err := chromedp.Call(ctx, performance.GetMetrics, cdp.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range r.Metrics {
			if m.Name == "TaskDuration" {
				return 1000 * m.Value
			}
		}
		t.Fatal("the browser does not tell the time of tasks")
		return 0
	}
	const runs = 21
	for name, in := range map[string]string{
		"first view":   `{ ...inputs(), width: 700 }`,
		"at random":    `{ pattern: "poisson", rate: 1000, duration: 5000, capacity: 50, leakRate: 300, attempts: 1, width: 700 }`,
		"in a queue":   `{ pattern: "constant", rate: 1000, duration: 5000, capacity: 50, leakRate: 300, use: "queue", width: 700 }`,
		"with retries": `{ pattern: "bursts", burst: 500, rate: 500, duration: 1000, capacity: 20, leakRate: 10, attempts: 5, retryEvery: 100, jitter: 1, width: 700 }`,
	} {
		before := spent()
		times := evaluate[[]float64](t, ctx, fmt.Sprintf(`Array.from({ length: %d }, () => {
			const input = %s, start = performance.now();
			const result = brimSimulate(input);
			return "error" in result ? 1e9 : performance.now() - start;
		})`, runs, in))
		thread := (spent() - before) / runs
		slices.Sort(times)
		t.Logf("%s: %.1f ms of the thread's time; on the clock %.1f ms at the median, %.1f ms at most", name, thread,
			times[runs/2], times[runs-1])
		if thread > 50 || thread < 0.1 || times[runs-1] >= 1e9 {
			t.Errorf("%s takes %.1f ms of the thread's time; want at most 50", name, thread)
		}
	}
}

// text returns a value of the accessibility tree.
func text(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	var s string
	if json.Unmarshal(v.Value, &s) != nil {
		return ""
	}
	return s
}

// set sets a field as a person does.
func set(t *testing.T, ctx context.Context, id, value string) {
	t.Helper()
	evaluate[bool](t, ctx, fmt.Sprintf(`(() => {
		const field = document.getElementById(%q);
		field.value = %q;
		field.dispatchEvent(new Event("input", { bubbles: true }));
		return true;
	})()`, id, value))
}
