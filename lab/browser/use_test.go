package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/ui"
)

// level returns the level of a bucket, or -1 if there is none.
func (p *program) level(t *testing.T, key string) float64 {
	t.Helper()
	st, err := p.lim.StateOf(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if st.Capacity == 0 && st.BlockedUntil.IsZero() {
		return -1
	}
	return st.Level
}

// tabTo presses the tab key until an element has the focus whose description contains a text. Each
// element on the way must show its focus.
func (b *tab) tabTo(text string) {
	b.t.Helper()
	var seen []string
	for range 200 {
		b.run(chromedp.KeyEvent(kb.Tab))
		now := b.focused()
		if now != "" {
			b.eventually(now+" shows its focus", func() bool { // the style may still be loading
				outline := evaluate[string](b, "getComputedStyle(document.activeElement).outlineStyle + getComputedStyle(document.activeElement).outlineWidth")
				return strings.HasPrefix(outline, "solid") && outline != "solid0px"
			})
		}
		if strings.Contains(now, text) {
			return
		}
		seen = append(seen, now)
	}
	b.t.Fatalf("the tab key does not reach %q, only %q", text, slices.Compact(seen))
}

// press presses a key and waits for the text of the next page.
func (b *tab) press(key, next string) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(key))
	b.wants(next)
}

// TestByKeyboard searches a bucket, blocks it and resets it by the keyboard alone: on a wide
// screen, on a narrow one, and in a browser without script.
func TestByKeyboard(t *testing.T) {
	for _, l := range []look{{}, {width: 360}, {noScript: true}} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) { byKeyboard(t, l) })
	}
}

func byKeyboard(t *testing.T, l look) {
	p := newProgram(t)
	p.populate(t)
	b := newTab(t, l)
	b.open(p.page(""))
	b.tabTo("Skip to the content")
	b.tabTo("Levels")
	b.press(kb.Enter, "Fullest first")
	b.tabTo("input prefix")
	b.run(chromedp.KeyEvent("login:"))
	b.press(kb.Enter, "with keys that begin with login:")
	b.tabTo("login:alice")
	b.press(kb.Enter, "for 1h, until")
	b.tabTo("Block")
	b.press(kb.Enter, "Why?")
	b.tabTo("input value")
	b.run(chromedp.KeyEvent("until tomorrow"))
	b.tabTo("input reason")
	b.run(chromedp.KeyEvent("somebody guesses passwords"))
	b.press(kb.Enter, "must be positive")
	b.tabTo("input value")
	b.run(chromedp.KeyEvent("24h"))
	b.press(kb.Enter, "Block this bucket?")
	b.wants("somebody guesses passwords", "24h")
	b.tabTo("button")
	b.press(kb.Enter, "The bucket was blocked.")
	b.wants("for 24h, until")
	b.tabTo("Reset")
	b.press(kb.Enter, "Why?")
	b.tabTo("input reason")
	b.run(chromedp.KeyEvent("it was Alice"))
	b.press(kb.Enter, "Reset this bucket?")
	b.tabTo("Do not")
	b.press(kb.Enter, "Now")
	if p.level(t, "login:alice") < 0 {
		t.Fatal("a reset that was called off was made")
	}
	b.tabTo("Reset")
	b.press(kb.Enter, "Why?")
	b.tabTo("input reason")
	b.run(chromedp.KeyEvent("it was Alice"))
	b.press(kb.Enter, "Reset this bucket?")
	b.tabTo("button")
	b.press(kb.Enter, "The bucket was reset.")
	b.wants("There is no such bucket")
	if p.level(t, "login:alice") >= 0 {
		t.Error("the bucket is still there")
	}
	b.quiet("status of 400")
}

// TestHostileKeys drains a bucket of each key, as a person with a mouse does.
func TestHostileKeys(t *testing.T) {
	p := newProgram(t)
	b := newTab(t, look{})
	for i, key := range hostile {
		if _, err := p.lim.TryFillup(t.Context(), brim.Limit{Capacity: 10}.For(key), 5); err != nil {
			t.Fatal(err)
		}
		quoted, err := json.Marshal(key)
		if err != nil {
			t.Fatal(err)
		}
		const find = `[...document.querySelectorAll("tbody a")].find((a) => new URL(a.href).searchParams.get("key") === %s)`
		link := fmt.Sprintf(find, quoted)
		b.eventually("a link to the key", func() bool { // the first listings are a moment old
			b.open(p.page("levels"))
			return evaluate[bool](b, link+" !== undefined")
		})
		evaluate[any](b, link+".click()")
		b.wants("The last ten minutes")
		b.click(`a[href*="act=drain"]`)
		b.wants("Units to take out")
		b.write("value", "2")
		b.write("reason", "a test")
		b.click("main form button")
		b.wants("Do not")
		b.click("main form button")
		b.wants("The units were taken out.")
		if got := p.level(t, key); got != 3 {
			t.Errorf("key %d: the level is %v, want 3", i, got)
		}
		if title := evaluate[string](b, "document.title"); strings.HasPrefix(title, "broken") {
			t.Errorf("key %d became script", i)
		}
	}
	b.quiet()
}

// TestStoreGoesAway keeps pages open while the store, and then the program, is away.
func TestStoreGoesAway(t *testing.T) {
	p := newProgram(t)
	p.populate(t)
	list, bucket := newTab(t, look{}), newTab(t, look{})
	list.open(p.page("levels?prefix=tenant"))
	bucket.open(p.page("bucket?key=tenant%3A2"))
	list.wants("tenant:2", "Pause")
	bucket.wants("Read at")
	list.tabTo("tenant:4") // the focus must stay where it is

	p.store.down.Store(true)
	list.wants("The store does not answer", "store unavailable", "tenant:2")
	bucket.wants("The store does not answer")
	p.store.down.Store(false)
	for _, b := range []*tab{list, bucket} {
		b.eventually("the end of the problem", func() bool { return !strings.Contains(b.text(), "does not answer") })
	}
	bucket.wants("Read at")

	p.gone.Store(true)
	list.wants("has not answered since", "tenant:2")
	bucket.wants("has not answered since", "Read at")
	p.gone.Store(false)
	for _, b := range []*tab{list, bucket} {
		b.eventually("the end of the problem", func() bool { return !strings.Contains(b.text(), "has not answered") })
	}

	p.access.Store(int32(ui.None)) // the session of the viewer has ended
	bucket.wants("may not look")
	p.access.Store(int32(ui.Look))
	bucket.eventually("the end of the problem", func() bool { return !strings.Contains(bucket.text(), "may not look") })

	if now := list.focused(); !strings.Contains(now, "tenant:4") {
		t.Errorf("after all updates %q has the focus", now)
	}
	if _, err := p.lim.TryFillup(t.Context(), brim.Limit{Capacity: 60, LeakRate: 1}.For("tenant:2"), 7); err != nil {
		t.Fatal(err)
	}
	bucket.wants("12.6") // the level of 5.6 and 7 more
	list.click("#pause")
	before := list.text()
	time.Sleep(6 * time.Second) // longer than the time between two updates
	if list.text() != before || !evaluate[bool](list, `document.getElementById("pause").getAttribute("aria-pressed") === "true"`) {
		t.Error("a page that was paused changes")
	}
}

// TestOtherOrigins posts a reset from the pages of other origins, with a token of a form that the
// attacker has seen.
func TestOtherOrigins(t *testing.T) {
	p := newProgram(t)
	p.populate(t)
	own := newTab(t, look{})
	own.open(p.page("change?act=reset&key=tenant%3A2"))
	own.write("reason", "a test")
	own.click("main form button")
	own.wants("Do not")
	fields := evaluate[string](own, `[...document.querySelectorAll("main form input")].map((e) => e.outerHTML).join("")`)
	target := p.page("act")
	for name, page := range map[string]string{
		"form":        `<form method="post" action="%s">%s</form><script>document.forms[0].submit()</script>`,
		"form, plain": `<form method="post" enctype="text/plain" action="%s">%s</form><script>document.forms[0].submit()</script>`,
		"no referrer": `<meta name="referrer" content="no-referrer"><form method="post" action="%s">%s</form><script>document.forms[0].submit()</script>`,
		"frame":       `<iframe sandbox="allow-forms allow-scripts" srcdoc='<form method="post" action="%s">%s</form><script>document.forms[0].submit()</script>'></iframe>`,
		"fetch": `<form action="%s">%s</form><script>fetch(document.forms[0].action, {method: "POST", mode: "no-cors", credentials: "include",
			body: new URLSearchParams(new FormData(document.forms[0]))}).finally(() => document.body.append("sent"))</script>`,
	} {
		posted := make(chan string, 10)
		handler := p.Config.Handler
		p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler.ServeHTTP(w, r)
			if r.Method == http.MethodPost {
				posted <- r.Header.Get("Origin") + " " + r.Header.Get("Sec-Fetch-Site")
			}
		})
		evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, page, target, fields)
		}))
		b := newTab(t, look{})
		// Another port of the same host is the same site, and another name is another site.
		b.open(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1))
		select {
		case from := <-posted:
			t.Logf("%s: posted from %s", name, from)
		case <-time.After(10 * time.Second):
			t.Errorf("%s: nothing was posted", name)
		}
		b.open(evil.URL)
		select {
		case from := <-posted:
			t.Logf("%s: posted from %s", name, from)
		case <-time.After(10 * time.Second):
			t.Errorf("%s: nothing was posted by the sister site", name)
		}
		if p.level(t, "tenant:2") < 0 {
			t.Fatalf("%s: a page of another origin has reset the bucket", name)
		}
		p.Config.Handler = handler
		evil.Close()
	}
	own.click("main form button") // the token itself is good
	own.wants("The bucket was reset.")
}
