package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/ui"
)

func (a *app) uiCommand() *cobra.Command {
	var listen string
	var act bool
	var budgets []string
	cmd := newCommand("ui")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.ui(cmd.Context(), listen, act, budgets) }
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to serve on; port 0 chooses a free one")
	cmd.Flags().BoolVar(&act, "act", false, "let the page change buckets, and run backtests")
	cmd.Flags().StringSliceVar(&budgets, "budget", nil, "budgets of the store whose accounts the page shows")
	return cmd
}

// ui serves the page until ctx ends.
func (a *app) ui(ctx context.Context, listen string, act bool, budgets []string) error {
	p, err := a.place()
	if err != nil {
		return err
	}
	if p.Kind() == place.Memory {
		return usagef("memory: is empty and ends with the command; name a store that lasts, or mount package ui in the program")
	}
	if p.Kind() == place.Redis && len(budgets) > 0 {
		return notInRedis()
	}
	if err := onThisMachine(listen); err != nil {
		return err
	}
	token := os.Getenv("BRIM_TOKEN")
	if n := len(token); n > 0 && n < uiapi.MinToken {
		return usagef("BRIM_TOKEN has %s, and can be guessed; it must have at least %d: "+
			"make one with \"openssl rand -hex 16\", or unset it", count(n, "character"), uiapi.MinToken)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return openError{cannotListen(listen, err)}
	}
	defer func() { _ = listener.Close() }() // a second Close, after the server's
	return a.with(ctx, opening{}, func(s *opened, _ *brim.Limiter) error {
		access := ui.Look
		if act {
			access = ui.Act
		}
		spends, ledger, err := openBudgets(ctx, s, budgets)
		if err != nil {
			return err
		}
		defer func() { _ = ledger.Close() }() // the page writes nothing to it
		d := newDoor(access, token)
		page, err := ui.New(s.Store, d.allow, &ui.Options{
			Title: s.name, Spends: spends, Logger: slog.New(slog.NewTextHandler(a.stderr, nil)),
			Check: func(ctx context.Context) ([]store.Finding, error) {
				switch {
				case s.file != nil:
					return s.file.Check(ctx)
				case s.SQLite != nil:
					return s.SQLite.Check(ctx)
				}
				return check(ctx, p)
			},
		})
		if err != nil {
			return err
		}
		defer page.Close()
		link := fmt.Sprintf("http://%s%s", listener.Addr(), d.link())
		if err := a.print(map[string]string{"link": link}, link); err != nil {
			return err
		}
		fmt.Fprintln(a.stderr, "brim: the link opens the page once, in one browser of this machine; an interrupt ends the page")
		return serve(ctx, listener, d.guard(page))
	})
}

// openBudgets opens the budgets of those names in the ledger of the store. It opens no ledger if
// there are none, because that would create one in a file.
func openBudgets(ctx context.Context, s *opened, names []string) (all []*spend.Budgets, shut io.Closer, err error) {
	if len(names) == 0 {
		return nil, io.NopCloser(nil), nil
	}
	l, err := ledgerIn(ctx, s.Store)
	if err != nil {
		return nil, nil, openError{inFile(s.place, err)}
	}
	for _, name := range names {
		b, err := spend.Open(ctx, l, name, nil)
		if err != nil {
			return nil, nil, errors.Join(spendError(err), l.Close())
		}
		all = append(all, b)
	}
	return all, l, nil
}

// onThisMachine returns an error if an address to listen on can be reached from other machines.
func onThisMachine(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("--listen is %q; it should look like 127.0.0.1:8080, or 127.0.0.1:0 for a free port", address)
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	return usagef("--listen is %q; brim ui serves only this machine, at 127.0.0.1, [::1] or localhost; "+
		"to serve others, mount package ui in a program that knows who they are", address)
}

// cannotListen explains why an address cannot be listened on.
func cannotListen(address string, err error) error {
	const inUseOnWindows = syscall.Errno(10048) // WSAEADDRINUSE
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, inUseOnWindows) {
		return fmt.Errorf("%s is in use by another program; choose another port with --listen, or 0 for a free one", address)
	}
	return fmt.Errorf("cannot serve on %s; choose another address with --listen: %w", address, err)
}

// serve serves until ctx ends. Then it waits for requests in flight, for up to a second.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(limited); err != nil {
		_ = server.Close() // only readers are cut off
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

// door lets one browser in, by a link that opens once. The browser then uses addresses below a path
// that nobody can guess, so the door needs no cookie.
type door struct {
	access ui.Access
	bearer func(*http.Request) ui.Access // nil without a token
	inside string                        // the path of the page, with a slash at its end

	mu   sync.Mutex
	once string // the path of the link; empty after its use
}

// entered marks the context of a request that came by the path of the page.
type entered struct{}

func newDoor(access ui.Access, token string) *door {
	return &door{
		access: access, bearer: ui.Bearer(token, access), inside: "/" + rand.Text() + "/", once: "/open/" + rand.Text(),
	}
}

// link returns the path of the link.
func (d *door) link() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.once
}

// allow tells the page the access of a request.
func (d *door) allow(r *http.Request) ui.Access {
	switch {
	case r.Context().Value(entered{}) != nil:
		return d.access
	case d.bearer != nil:
		return d.bearer(r)
	}
	return ui.None
}

// opens reports whether a path is that of the link, for the first time.
func (d *door) opens(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.once == "" || subtle.ConstantTimeCompare([]byte(path), []byte(d.once)) != 1 {
		return false
	}
	d.once = ""
	return true
}

// guard returns the page behind the door. Requests with the token of a program reach the page at /.
func (d *door) guard(page http.Handler) http.Handler {
	inside := http.StripPrefix(strings.TrimSuffix(d.inside, "/"), page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := min(len(r.URL.Path), len(d.inside))
		switch {
		case subtle.ConstantTimeCompare([]byte(r.URL.Path[:n]), []byte(d.inside)) == 1:
			inside.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), entered{}, true)))
		case !strings.HasPrefix(r.URL.Path, "/open/"):
			page.ServeHTTP(w, r)
		case r.Method == http.MethodGet && d.opens(r.URL.Path):
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Referrer-Policy", "no-referrer")
			http.Redirect(w, r, d.inside, http.StatusSeeOther)
		default:
			http.Error(w, "This link was used. Each link opens the page once, in one browser. Start brim ui again.", http.StatusForbidden)
		}
	})
}
