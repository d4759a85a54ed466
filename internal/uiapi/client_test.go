package uiapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/brimgo/brim/store"
)

// TestLostAnswer loses the answer to a change, which the page may have made.
func TestLostAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, cancel func())
		want   error
	}{
		"cut off":             {func(w http.ResponseWriter, _ func()) { _, _ = io.WriteString(w, `{"key":`) }, store.ErrUnknownOutcome},
		"a proxy gives up":    {func(w http.ResponseWriter, _ func()) { w.WriteHeader(http.StatusGatewayTimeout) }, store.ErrUnknownOutcome},
		"the caller gives up": {func(_ http.ResponseWriter, cancel func()) { cancel() }, store.ErrUnknownOutcome},
		"no such page":        {func(w http.ResponseWriter, _ func()) { w.WriteHeader(http.StatusNotFound) }, store.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					_, _ = io.WriteString(w, `{"token":"t"}`)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not see that the caller leaves
				if c.answer(w, cancel); ctx.Err() != nil {
					<-r.Context().Done()
				}
			}))
			defer page.Close()
			client, err := NewClient(page.URL, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Change(ctx, Change{Act: Reset, Key: "k"}); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
