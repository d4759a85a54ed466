package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// site builds the playground once and serves it.
var site = sync.OnceValues(func() (*httptest.Server, error) {
	dir, err := os.MkdirTemp("", "playground")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(dir, os.DirFS("..")); err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "playground.wasm"), "./docs/playground")
	build.Dir = filepath.Join("..", "..", "..")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, &buildError{err, string(out)}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	glue, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "wasm_exec.js"), glue, 0o600); err != nil {
		return nil, err
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	done = append(done, server.Close, func() { os.RemoveAll(dir) })
	return server, nil
})

type buildError struct {
	error
	out string
}

func (e *buildError) Error() string { return e.error.Error() + "\n" + e.out }

// done are the functions that end the servers and the browser.
var done []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range done {
		end()
	}
	os.Exit(code)
}

// browserOf starts the browser once.
var browserOf = sync.OnceValues(func() (context.Context, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, exec.ErrNotFound
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	done = append(done, end, endAllocator)
	return ctx, chromedp.Do(ctx)
})

// view is a way to look at the page.
type view struct {
	width  int64
	scheme string
}

// open opens the page in a tab of its own, and waits for its first result. The test fails if the
// browser's console shows an error.
func open(t *testing.T, v view) context.Context {
	t.Helper()
	browser, err := browserOf()
	if err != nil {
		t.Fatalf("there is no Chromium to look at the page (%v): on Debian, install chromium", err)
	}
	server, err := site()
	if err != nil {
		t.Fatal(err)
	}
	tab, endTab := chromedp.NewContext(browser)
	t.Cleanup(endTab)
	ctx, end := context.WithTimeout(tab, time.Minute)
	t.Cleanup(end)
	err = chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page throws %s", e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			t.Errorf("the console shows %s: %s", e.Entry.Level, e.Entry.Text)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	scheme := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.scheme}},
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, scheme); err != nil {
		t.Fatal(err)
	}
	do(t, ctx, chromedp.EmulateViewport(v.width, 900), chromedp.Navigate(server.URL),
		chromedp.WaitVisible(chromedp.CSS("#numbers tr")))
	return ctx
}

func do(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// evaluate returns the value of an expression of JavaScript.
func evaluate[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
