package httplimit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
)

// TestInFlight: the slots of requests are held until their bodies are written to slow clients, and
// come back also after a panic, and after the client has left.
func TestInFlight(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open opener) {
		lim, _ := open(t)
		const most, size = 3, 16 << 20 // more than the buffers of a connection hold
		begun := make(chan struct{}, most)
		server := httptest.NewServer(inFlight(lim, most, &httplimit.Clients{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panics" {
				panic(http.ErrAbortHandler)
			}
			begun <- struct{}{}
			_, _ = w.Write(make([]byte, size))
		})))
		defer server.Close()
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		// free takes a slot, which a request that has ended gives back in a moment.
		free := func(why string) *brim.Slot {
			for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
				slot, err := lim.Acquire(t.Context(), "requests:127.0.0.1", most, 30*time.Second)
				if err == nil {
					return slot
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: %v", why, err)
				}
			}
		}
		var bodies []io.ReadCloser
		for range most {
			resp, err := client.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			bodies = append(bodies, resp.Body)
			<-begun
		}
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
			t.Errorf("a request beside %d others: %d, Retry-After %q", most, resp.StatusCode, resp.Header.Get("Retry-After"))
		}
		if n, err := io.Copy(io.Discard, bodies[0]); err != nil || n != size {
			t.Errorf("%d bytes, %v", n, err)
		}
		free("a client has read its body")
		bodies[1].Close()
		slot := free("a client has left")
		if err := slot.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if resp, err := client.Get(server.URL + "/panics"); err == nil {
			resp.Body.Close()
			t.Error("a handler that panics has answered")
		}
		free("a handler has panicked")
	})
}

// flushed is an answer that is written when it is flushed.
type flushed struct {
	*httptest.ResponseRecorder
	flush func()
}

func (f flushed) Flush() { f.flush() }

// TestInFlightFlush: the slot is held while the end of a body leaves the server's buffer.
func TestInFlightFlush(t *testing.T) {
	lim, _ := inMemory(t)
	acquire := func() error {
		_, err := lim.Acquire(t.Context(), "requests:192.0.2.1", 1, time.Minute)
		return err
	}
	err := errors.New("the body stays in the buffer")
	w := flushed{httptest.NewRecorder(), func() { err = acquire() }}
	h := inFlight(lim, 1, &httplimit.Clients{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "end") }))
	h(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if !errors.Is(err, brim.ErrOverLimit) {
		t.Errorf("while the body is written: %v", err)
	}
	if err := acquire(); err != nil {
		t.Errorf("after that: %v", err)
	}
}
