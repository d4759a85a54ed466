package ui

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// TestListing compares the order and the searches of listings with those of a sorted slice.
func TestListing(t *testing.T) {
	random := rand.New(rand.NewPCG(16, 30))
	for _, tc := range []struct{ buckets, most int }{{0, 5}, {1, 5}, {300, 1000}, {300, 300}, {300, 299}, {3000, 100}, {6_000, 1 << 20}} {
		for _, form := range []func(string) string{nil, observe.HashKey([]byte("secret"))} {
			h := &Handler{maxListed: tc.most, form: form}
			var all []store.Entry
			l := &listing{}
			for i := range tc.buckets {
				e := store.Entry{Key: fmt.Sprintf("%c:%d", 'a'+i%3, i*7919%tc.buckets)}
				e.Level, e.Held, e.Capacity = float64(random.IntN(50)), 3, 1000
				e.At = time.UnixMicro(int64(i))
				if i%10 == 0 {
					e.BlockedUntil = e.At.Add(time.Hour)
				}
				all = append(all, e)
				l.add(&e, h.shown(e.Key))
				if len(l.rows) > 2*tc.most {
					l.sort(tc.most, new(breather))
				}
			}
			l.sort(tc.most, new(breather))
			slices.SortFunc(all, func(a, b store.Entry) int {
				return cmp.Or(cmp.Compare(b.Level, a.Level), strings.Compare(h.shown(a.Key), h.shown(b.Key)))
			})
			all = all[:min(len(all), tc.most)]
			for _, prefix := range []string{"", "a", "b:1", "b:12", "0", "ff", "zzz"} {
				var want, got []string
				for _, e := range all {
					if strings.HasPrefix(h.shown(e.Key), prefix) {
						want = append(want, fmt.Sprint(e.Key, e.State))
					}
				}
				for r := range l.under(prefix) {
					got = append(got, fmt.Sprint(r.key, r.state()))
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%+v, prefix %q: %q, want %q", tc, prefix, got, want)
				}
			}
			if l.Buckets != tc.buckets {
				t.Errorf("%d buckets, want %d", l.Buckets, tc.buckets)
			}
		}
	}
}

// TestOneListing has 8 viewers look at all pages every second for ten minutes at a store whose
// listing takes two seconds.
func TestOneListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mount(t, nil)
		m.store.slow = func() { m.clock.Advance(2 * time.Second) }
		m.fill(t, "a", 5)
		begin := m.clock.Now()
		for m.clock.Now().Sub(begin) < 10*time.Minute {
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					m.get([]string{"", "levels", "levels?prefix=a", "api/list"}[i%4]).want(t, http.StatusOK)
				})
			}
			wg.Wait()
			synctest.Wait() // a listing that began has ended before the clock goes on
			m.clock.Advance(time.Second)
		}
		if n := m.store.visits.Load(); n != 15 { // one in 42 seconds
			t.Errorf("%d listings in ten minutes, want 15", n)
		}
		m.get("levels").want(t, http.StatusOK, "listed at", "in 2s", "next in ")
	})
}

func TestListingIsBounded(t *testing.T) {
	m := mount(t, func(o *Options) { o.MaxListed = 3 })
	for i := range 10 {
		m.fill(t, fmt.Sprint("k", i), float64(i+1))
	}
	p := m.get("levels").want(t, http.StatusOK, "the fullest 3", "bdi>k9<", ">k8<", ">k7<", "<dd>10</dd>")
	if strings.Contains(p.body, ">k6<") {
		t.Error("a bucket is listed that is not one of the three fullest")
	}
	m.get("bucket?key=k0").want(t, http.StatusOK, "Read at")
	m.get("api/list").want(t, http.StatusOK, `"buckets":10,"listed":3`)
}

func TestPagesOfBuckets(t *testing.T) {
	m := mount(t, nil)
	for i := range 120 {
		m.fill(t, fmt.Sprintf("k%03d", i), float64(i)/20)
	}
	first := m.get("levels").want(t, http.StatusOK, "k119", "k070", "from=50", "Next page")
	second := m.get("levels?from=50").want(t, http.StatusOK, "k069", "k020", "from=100", "Previous page")
	third := m.get("levels?from=100").want(t, http.StatusOK, "k019", "k001", "from=50")
	for i, p := range []page{first, second, third} {
		if n := strings.Count(p.body, `scope="row"`); n != []int{50, 50, 19}[i] {
			t.Errorf("page %d has %d rows", i, n)
		}
	}
	if strings.Contains(first.body, "Previous page") || strings.Contains(third.body, "Next page") {
		t.Error("a page leads nowhere")
	}
	m.get("levels?prefix=k11").want(t, http.StatusOK, "k119", "Fullest first, with keys that begin with k11", `value="k11"`)
	m.get("levels?prefix=k00").want(t, http.StatusOK, "k001")
	m.get("levels?prefix=x").want(t, http.StatusOK, "no such buckets")
	for _, from := range []string{"-1", "x", "1e9", strconv.Itoa(math.MaxInt)} {
		m.get("levels?from="+from).want(t, http.StatusBadRequest)
	}
	m.get("levels?from="+strconv.Itoa(1<<30-1)).want(t, http.StatusOK, "Previous page")
}

// hostile are keys that could break a page.
var hostile = []string{
	"</a></td></table><script>alert(1)</script>", `" onmouseover="alert(1)`, "'><img src=x onerror=alert(1)>",
	"{{.}}", "a&amp;b", "a\r\nb\nc\rd\te", "bell\a\x1b[31m", "card\u202e4242", "\u2066isolate", "שלום עולם", "مرحبا",
	"a\u200bb", "e\u0301\u0301\u0301", "../../etc", "?key=x&act=reset#f", "%00%2e", " lead", "trail ", "\u0085\u2028",
	strings.Repeat("k", store.MaxKeyLen), strings.Repeat("<", store.MaxKeyLen), strings.Repeat("\u202e", store.MaxKeyLen/3),
	"javascript:alert(1)", "\ufeffbom", "\U0010ffff", "--help",
}

var bucketLink = regexp.MustCompile(`<a class="key" href="(bucket[^"]*)"`)

// linked returns the keys of the buckets to which a page links, as a browser reads the links.
func (p page) linked(t testing.TB) (keys []string) {
	t.Helper()
	for _, m := range bucketLink.FindAllStringSubmatch(p.body, -1) {
		u, err := url.Parse(html.UnescapeString(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, u.Query().Get("key"))
	}
	return keys
}

// TestHostileKeys follows each key through all pages, as a browser would, to the end of a change.
func TestHostileKeys(t *testing.T) {
	m := mount(t, nil)
	for _, key := range hostile {
		m.fill(t, key, 5)
		m.fill(t, key, 50)
	}
	harmless := func(p page) {
		t.Helper()
		if strings.Count(p.body, "<script") != 1 || strings.Contains(p.body, "<img") || strings.Contains(p.body, " onmouseover=\"") {
			t.Errorf("a key became markup:\n%s", p.body)
		}
		if i := strings.IndexFunc(p.body, func(r rune) bool {
			return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		}); i >= 0 {
			t.Errorf("a key is not escaped: %q", p.body[max(0, i-40):i+20])
		}
	}
	for _, path := range []string{"", "levels"} {
		p := m.get(path).want(t, http.StatusOK)
		harmless(p)
		seen := p.linked(t)
		for _, key := range hostile {
			if path != "" && !slices.Contains(seen, key) {
				t.Errorf("%q has no link to %q", path, key)
			}
		}
		if path == "" && len(seen) != mostRefused {
			t.Errorf("the overview shows %d refused keys, want %d", len(seen), mostRefused)
		}
	}
	for _, key := range hostile {
		found := m.get(link("levels", "prefix", key)).want(t, http.StatusOK)
		harmless(found)
		if !slices.Equal(found.linked(t), []string{key}) {
			t.Errorf("a search for %q finds %q", key, found.linked(t))
		}
		harmless(m.get(link("bucket", "key", key)).want(t, http.StatusOK, "Read at", "<svg", "1 accepted and 1 refused"))
		harmless(m.get(link("change", "act", "drain", "key", key)))
		p := m.post("act", m.forms(t, "drain", key, "2")).want(t, http.StatusSeeOther)
		harmless(m.get(p.header.Get("Location")).want(t, http.StatusOK, "taken out"))
		if got := m.level(t, key); got != 3 {
			t.Errorf("%q: the level is %v, want 3", key, got)
		}
		m.post("act", m.forms(t, "reset", key, "")).want(t, http.StatusSeeOther)
		if got := m.level(t, key); got != -1 {
			t.Errorf("%q: the level is %v after a reset", key, got)
		}
	}
	for _, key := range []string{"", "a%00b", "%ff", strings.Repeat("k", 513)} {
		m.get("bucket?key="+key).want(t, http.StatusBadRequest, "This cannot be")
	}
}

// TestHashedKeys shows hashes, and finds and changes buckets by them. No page, answer or entry of
// the log has the key.
func TestHashedKeys(t *testing.T) {
	hash := observe.HashKey([]byte("secret"))
	m := mount(t, func(o *Options) { o.Key = hash })
	const key = "card:4242424242424242"
	m.fill(t, key, 5)
	m.fill(t, key, 50)
	m.fill(t, "other", 1)
	form := hash(key)
	pages := []page{
		m.get("").want(t, http.StatusOK, form),
		m.get("levels").want(t, http.StatusOK, form, "does not reveal them"),
		m.get("levels?prefix="+form[:4]).want(t, http.StatusOK, form),
		m.get("bucket?key="+form).want(t, http.StatusOK, "<svg", form),
		m.get("api/list").want(t, http.StatusOK, form),
		m.get("api/state?key="+form).want(t, http.StatusOK, `"level":5`),
		m.get("change?act=reset&key="+form).want(t, http.StatusOK, form),
		m.get("bucket?key=card").want(t, http.StatusNotFound),
	}
	pages = append(pages, m.post("act", m.forms(t, "reset", form, "")).want(t, http.StatusSeeOther))
	for _, p := range pages {
		if strings.Contains(p.body+fmt.Sprint(p.header), "4242") {
			t.Errorf("an answer has the key:\n%s", p.body)
		}
	}
	if strings.Contains(m.log.String(), "4242") || !strings.Contains(m.log.String(), form) {
		t.Errorf("logged %s", m.log)
	}
	if m.level(t, key) != -1 || m.level(t, "other") != 1 {
		t.Error("the reset hit another bucket")
	}
	m.get("bucket?key="+key).want(t, http.StatusNotFound)
}

// TestNoForm has an Options.Key without a form for some key: the pages show nothing, and not the
// key.
func TestNoForm(t *testing.T) {
	m := mount(t, func(o *Options) { o.Key = func(string) string { return "" } })
	m.fill(t, "card:4242", 50)
	for _, path := range []string{"", "levels", "api/list", "levels?prefix=card"} {
		if p := m.get(path).want(t, http.StatusOK); strings.Contains(p.body, "4242") {
			t.Errorf("%q shows the key:\n%s", path, p.body)
		}
	}
	m.get("bucket?key=card:4242").want(t, http.StatusNotFound)
}
