package httplimit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/internal/doortest"
)

var outcomes = map[int]doortest.Outcome{
	http.StatusOK: doortest.Served, http.StatusUnauthorized: doortest.Failed, http.StatusInternalServerError: doortest.Panicked,
	http.StatusTooManyRequests: doortest.Refused,
}

func TestDoor(t *testing.T) {
	doortest.Run(t, doortest.Door{
		Policy: reflect.TypeFor[httplimit.Policy](), Own: []string{"Unit"},
		Handle: func(t *testing.T, lim *brim.Limiter, nested [][]doortest.Policy) func(func() doortest.Outcome) doortest.Outcome {
			return func(handler func() doortest.Outcome) (out doortest.Outcome) {
				var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					switch handler() {
					case doortest.Panicked:
						panic(http.ErrAbortHandler)
					case doortest.Failed:
						w.WriteHeader(http.StatusUnauthorized)
					}
				})
				for i := range nested {
					wrap, err := httplimit.New(lim, always(ours(nested[len(nested)-1-i])...), &httplimit.Options{Shared: true})
					if err != nil {
						t.Fatal(err)
					}
					h = wrap(h)
				}
				defer func() {
					if recover() != nil {
						out = doortest.Panicked
					}
				}()
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				return outcomes[w.Code]
			}
		},
	})
}

func ours(list []doortest.Policy) (all []httplimit.Policy) {
	for _, p := range list {
		own := httplimit.Policy{Name: p.Name, Key: p.Key, Limit: p.Limit, Strict: p.Strict}
		if p.Cost != 0 {
			own.Cost = func(*http.Request) float64 { return p.Cost }
		}
		if p.CountIf != nil {
			own.CountIf = func(status int) bool { return p.CountIf(outcomes[status]) }
		}
		all = append(all, own)
	}
	return all
}

// short is a connection that takes two bytes of a write.
type short struct{ *httptest.ResponseRecorder }

var errShort = errors.New("the client has left")

func (s short) Write(b []byte) (int, error) {
	n, _ := s.ResponseRecorder.Write(b[:2])
	return n, errShort
}

// TestShortWrite: a handler is told how many bytes have left, and why no more did, behind any
// number of middlewares, whether a CountIf or a Refuse answers.
func TestShortWrite(t *testing.T) {
	lim, _ := inMemory(t)
	write := func(w http.ResponseWriter) {
		if n, err := io.WriteString(w, "served"); n != 2 || !errors.Is(err, errShort) {
			t.Errorf("%d bytes were written, %v; want 2 and the error of the connection", n, err)
		}
	}
	counts := func(int) bool { return true }
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { write(w) })
	for _, name := range []string{"inner", "outer"} {
		wrap, err := httplimit.New(lim, always(httplimit.Policy{Name: name, Key: "k", Limit: brim.Limit{Capacity: 1}, CountIf: counts}),
			&httplimit.Options{Refuse: func(w http.ResponseWriter, _ *http.Request, _ httplimit.Refusal) { write(w) }})
		if err != nil {
			t.Fatal(err)
		}
		h = wrap(h)
	}
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := short{httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != status || w.Body.String() != "se" {
			t.Errorf("%d, %q; want %d", w.Code, w.Body, status)
		}
	}
}

// TestHijack: a handler that takes the connection has answered with status 101, behind any number
// of middlewares, and one that cannot has not.
func TestHijack(t *testing.T) {
	for name, nested := range map[string][]string{"one": {"a"}, "nested": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			lim, _ := inMemory(t)
			seen := make(chan int, len(nested))
			var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					http.Error(w, err.Error(), http.StatusNotImplemented)
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, "HTTP/1.1 418 I'm a teapot\r\nConnection: close\r\n\r\n")
			})
			for _, name := range nested {
				wrap, err := httplimit.New(lim, always(httplimit.Policy{
					Name: name, Key: "k", Limit: tens, CountIf: func(status int) bool { seen <- status; return true },
				}), nil)
				if err != nil {
					t.Fatal(err)
				}
				h = wrap(h)
			}
			server := httptest.NewServer(h)
			defer server.Close()
			resp, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			for range nested {
				if status := <-seen; resp.StatusCode != http.StatusTeapot || status != http.StatusSwitchingProtocols {
					t.Errorf("the client got %d, and CountIf %d; want 418 and 101", resp.StatusCode, status)
				}
			}
			w := httptest.NewRecorder() // nobody can take its connection
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			for range nested {
				if status := <-seen; w.Code != http.StatusNotImplemented || status != http.StatusNotImplemented {
					t.Errorf("without a connection: the client got %d, and CountIf %d; want 501", w.Code, status)
				}
			}
		})
	}
}
