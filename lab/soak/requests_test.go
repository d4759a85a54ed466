package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
)

// site is the duty of httplimit: requests over connections that stay open.
type site struct {
	*work
	lim             *brim.Limiter
	server          *httptest.Server
	client          *http.Client
	in              atomic.Int64 // requests of the scarce client that were served
	served, refused atomic.Int64
}

const clientHeader = "X-Client"

// served runs a server whose handler httplimit guards, over a store in memory.
func served(t *testing.T, w *work) *subject {
	s := inMemory(t, w)
	lim := brim.New(s.store, nil)
	perClient := httplimit.ByHeader("site", clientHeader, w.scarce)
	guard, err := httplimit.New(lim, perClient, &httplimit.Options{Fields: httplimit.DraftFields})
	if err != nil {
		t.Fatal(err)
	}
	d := &site{work: w, lim: lim, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}}
	d.server = httptest.NewServer(guard(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusNoContent)
	})))
	s.duty = d
	return s
}

func (s *site) call(ctx context.Context, c *caller, round int) error {
	key := scarceKey
	if c.r.IntN(2) == 0 {
		key = c.bucket(s.work, round).Key
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set(clientHeader, key)
	answer, err := s.client.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	switch {
	case answer.StatusCode == http.StatusNoContent:
		s.served.Add(1)
		if key == scarceKey {
			s.in.Add(1)
		}
		return nil
	case answer.StatusCode == http.StatusTooManyRequests && key == scarceKey:
		s.refused.Add(1)
		if after, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && after > 0 {
			return nil
		}
	}
	return fmt.Errorf("status %s, Retry-After %q", answer.Status, answer.Header.Get("Retry-After"))
}

func (s *site) prune(ctx context.Context) (int64, error) { return s.lim.Prune(ctx) }

func (s *site) check(t *testing.T) {
	t.Helper()
	if share := float64(s.in.Load()) / s.most(s.scarce); share > 1 || share < 0.5 {
		t.Errorf("%.3f of the most requests of the scarce client were served; want 0.5 to 1", share)
	}
	if s.refused.Load() == 0 {
		t.Error("no request was refused")
	}
}

func (s *site) story() string {
	return fmt.Sprintf("%d requests were served, %d refused", s.served.Load(), s.refused.Load())
}

func (s *site) close() error {
	s.client.CloseIdleConnections()
	s.server.Close()
	return s.subject.store.Close()
}
