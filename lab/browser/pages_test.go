package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/brimgo/brim"
)

// pages lists the paths of pages, each with the name of its picture.
var pages = []struct{ name, path string }{
	{"overview", ""},
	{"levels", "levels?prefix=tenant"},
	{"nothing", "levels?prefix=none"},
	{"bucket", "bucket?key=tenant%3A2"},
	{"blocked", "bucket?key=login%3Aalice"},
	{"long", "bucket?key=" + strings.Repeat("k", 512)},
	{"missing", "bucket?key=missing"},
	{"spends", "spends"},
	{"account", "account?budget=cards&account=card:7"},
	{"explain", "explain?budget=cards&id=pay-39"},
	{"change", "change?act=block&key=tenant%3A2"},
	{"failed", "change?act=explode&key=tenant%3A2"},
}

var looks = func() (all []look) {
	for _, width := range []int64{360, 768, 1280} {
		all = append(all, look{width: width}, look{width: width, dark: true})
	}
	return all
}()

// TestPages looks at each page at three widths in both colour schemes. BRIM_SCREENSHOTS keeps the
// pictures in a directory.
func TestPages(t *testing.T) {
	p := newProgram(t)
	p.populate(t)
	for _, l := range looks {
		t.Run(fmt.Sprintf("%d-%v", l.width, l.dark), func(t *testing.T) {
			b := newTab(t, l)
			for _, page := range pages {
				b.open(p.page(page.path))
				b.see(page.name)
			}
			b.open(p.page("change?act=reset&key=" + url.QueryEscape(hostile[0])))
			b.write("reason", "a load test has filled it")
			b.click("main form button")
			b.wants("Do not")
			b.see("confirm")
			b.open(p.page("backtest?budget=cards&account=card:7"))
			evaluate[any](b, fmt.Sprintf("document.getElementById('since').value = '1000d'; document.getElementById('rules').value = %q", tighter))
			b.click("main form button")
			b.wants("What would have been decided")
			b.see("backtest")
			p.store.down.Store(true)
			b.open(p.page("bucket?key=tenant%3A2"))
			b.see("away")
			p.store.down.Store(false)
			b.quiet("status of 404", "status of 503")
		})
	}
}

// TestFirstScreen looks at the first page of a program that works, and in three outages.
func TestFirstScreen(t *testing.T) {
	p := newProgram(t)
	p.work(t)
	see := func(t *testing.T, name, class string) {
		for _, l := range looks {
			b := newTab(t, l)
			b.open(p.page(""))
			b.eventually(name, func() bool { return evaluate[answers](b, asked).Class == "health "+class })
			b.see(name)
			b.quiet()
		}
	}
	see(t, "healthy", "good")
	for name, on := range map[string]*atomic.Bool{"fails": &p.store.down, "hangs": &p.store.hangs, "ledger": &p.ledger.down} {
		t.Run(name, func(t *testing.T) {
			on.Store(true)
			ctx, cancel := context.WithCancel(t.Context())
			var call sync.WaitGroup
			defer call.Wait()
			defer cancel()
			defer on.Store(false)
			call.Go(func() { // fails, or waits for the end of the fault
				_, _ = p.lim.TryFillup(ctx, brim.Limit{Capacity: 1000, LeakRate: 5}.For("tenant:1"), 1)
				_, _ = p.cards.Remaining(ctx, "card:7")
			})
			see(t, name, "bad")
		})
	}
}

// see checks the page as it stands: it fits the width, and can be read and heard. BRIM_SCREENSHOTS
// keeps a picture.
func (b *tab) see(name string) {
	b.t.Helper()
	b.eventually("the style", func() bool { return evaluate[bool](b, `document.readyState === "complete"`) })
	b.accessible(name)
	b.contrast(name)
	if wide := evaluate[int64](b, "document.documentElement.scrollWidth"); wide > b.look.width {
		b.t.Errorf("%s: the page is %d pixels wide", name, wide)
	}
	if title := evaluate[string](b, "document.title"); title == "broken" {
		b.t.Errorf("%s: a key was executed as a script", name)
	}
	pictures := os.Getenv("BRIM_SCREENSHOTS")
	if pictures == "" {
		return
	}
	picture := get(b, chromedp.FullScreenshot(100))
	scheme := map[bool]string{false: "light", true: "dark"}[b.look.dark]
	file := filepath.Join(pictures, fmt.Sprintf("%s-%d-%s.png", name, b.look.width, scheme))
	if err := os.WriteFile(file, picture, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// controls are the roles that a person can operate.
var controls = []string{
	"button", "link", "textbox", "searchbox", "combobox", "menuitem", "checkbox", "radio", "slider", "listbox", "spinbutton", "tab",
}

// accessible checks the accessibility tree: each control has a name, headings are in order, and the
// page has one main part.
func (b *tab) accessible(name string) {
	b.t.Helper()
	mains, named := 0, 0
	level := 0
	for _, n := range b.tree() {
		role := valueOf(n.Role)
		switch {
		case role == "main":
			mains++
		case role == "heading":
			for _, property := range n.Properties {
				if property.Name != "level" {
					continue
				}
				next := int(property.Value.Value[0] - '0')
				if next > level+1 || next == 1 && level > 0 {
					b.t.Errorf("%s: a heading of level %d comes after one of %d", name, next, level)
				}
				level = next
			}
			if valueOf(n.Name) == "" {
				b.t.Errorf("%s: a heading is empty", name)
			}
		case slices.Contains(controls, role), role == "img", role == "region", role == "form", role == "search", role == "navigation":
			named++
			if valueOf(n.Name) == "" {
				b.t.Errorf("%s: a %s has no name", name, role)
			}
		}
	}
	if mains != 1 || level == 0 || named < 2 {
		b.t.Errorf("%s: %d main parts, headings to level %d, %d named parts", name, mains, level, named)
	}
	if language := evaluate[string](b, "document.documentElement.lang"); language != "en" {
		b.t.Errorf("%s: the language is %q", name, language)
	}
}

// contrasts returns the number of texts and fields on the page, and then those with a contrast
// below 4.5. It computes the contrast as WCAG 2 defines it.
const contrasts = `(() => {
	const parse = (c) => { const m = c.match(/rgba?\(([^)]*)\)/)[1].split(/[ ,/]+/).map(Number); return m.length < 4 ? [...m, 1] : m };
	const linear = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			if (e instanceof SVGElement && e.querySelector(":scope > .ground")) return parse(getComputedStyle(e.querySelector(".ground")).fill);
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c[3] === 1) return c;
		}
		return [255, 255, 255, 1];
	};
	const bad = [];
	let all = 0;
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.textContent.trim() || !e.checkVisibility() || e.closest("style, script, title, desc, option")) continue;
		const style = getComputedStyle(e);
		const ink = parse(e instanceof SVGElement ? style.fill : style.color);
		const [x, y] = [luminance(ink), luminance(ground(e))];
		const contrast = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
		all++;
		if (contrast < 4.5) bad.push(contrast.toFixed(2) + ": " + walk.currentNode.textContent.trim().slice(0, 40));
	}
	for (const e of document.querySelectorAll("input:not([type=hidden]), select")) {
		const style = getComputedStyle(e);
		const [x, y] = [luminance(parse(style.color)), luminance(parse(style.backgroundColor))];
		all++;
		if ((Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05) < 4.5) bad.push("field " + e.id);
	}
	return [String(all), ...bad];
})()`

func (b *tab) contrast(name string) {
	b.t.Helper()
	found := evaluate[[]string](b, contrasts)
	if len(found[0]) == 1 && found[0] < "4" {
		b.t.Errorf("%s: only %s texts were measured", name, found[0])
	}
	for _, text := range found[1:] {
		b.t.Errorf("%s: a contrast of %s", name, text)
	}
}
