package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/memory"
)

const rightToken = "0123456789abcdef"

func TestShortToken(t *testing.T) {
	for _, token := range []string{"", "secret", rightToken[1:]} {
		if page, err := New(memory.New(nil), Bearer(token, Act), nil); page != nil || err == nil || !strings.Contains(err.Error(), "at least 16 characters") {
			t.Errorf("a token of %d characters: %v; want an error that says how many it needs", len(token), err)
		}
	}
	if Bearer(rightToken, Act) == nil {
		t.Error("a token of 16 characters is refused")
	}
}

// guess asks for the first page from an address.
func (m *mounted) guess(address, authorization string) page {
	r := httptest.NewRequest(http.MethodGet, "http://ops.example/limits/", nil)
	r.RemoteAddr = address
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return m.do(r)
}

func TestGuesses(t *testing.T) {
	m := mount(t, nil)
	m.handler.allow = Bearer(rightToken, Look)
	for i, step := range []struct {
		why           string
		address       string
		authorization string
		times         int
		code          int
		retryAfter    string
	}{
		{"ten guesses a minute are answered", "192.0.2.1:1000", "Bearer wrong", 10, 403, ""},
		{"and no more", "192.0.2.1:1000", "Bearer wrong", 3, 429, "6"},
		{"whatever the port", "192.0.2.1:2000", "Bearer " + rightToken[1:], 1, 429, "6"},
		{"and the scheme", "192.0.2.1:2000", "Basic b3BzOm9wcw==", 1, 429, "6"},
		{"the right token is never refused", "192.0.2.1:1000", "Bearer " + rightToken, 20, 200, ""},
		{"a request without a token guesses nothing", "192.0.2.1:1000", "", 20, 403, ""},
		{"other addresses have their own limit", "192.0.2.2:1000", "Bearer wrong", 10, 403, ""},
		{"a network of IPv6 is one client", "[2001:db8::1]:1000", "Bearer wrong", 10, 403, ""},
		{"whatever the rest of the address", "[2001:db8::2]:1000", "Bearer wrong", 1, 429, "6"},
	} {
		for range step.times {
			p := m.guess(step.address, step.authorization)
			if got := p.header.Get("Retry-After"); p.code != step.code || got != step.retryAfter {
				t.Fatalf("%d: status %d, Retry-After %q; want %d, %q\nwhy: %s", i, p.code, got, step.code, step.retryAfter, step.why)
			}
		}
	}
	m.clock.Advance(6 * time.Second)
	m.guess("192.0.2.1:1000", "Bearer wrong").want(t, http.StatusForbidden)
	m.guess("192.0.2.1:1000", "Bearer wrong").want(t, http.StatusTooManyRequests, "right token is answered all the same")
}

// TestGuessesOfAll: many addresses share the limit of all, and none of them stays in memory.
func TestGuessesOfAll(t *testing.T) {
	m := mount(t, nil)
	m.handler.allow = Bearer(rightToken, Look)
	next := 0
	answered := func() (n int) {
		for range 1000 {
			next++
			if m.guess(fmt.Sprintf("192.0.%d.%d:1000", next>>8, next&255), "Bearer wrong").code == http.StatusForbidden {
				n++
			}
		}
		return n
	}
	for minute, want := range []int{100, 100, 100, 100} {
		if got := answered(); got != want {
			t.Errorf("minute %d: %d guesses were answered with 403; want %d", minute, got, want)
		}
		m.guess("192.0.2.1:1000", "Bearer "+rightToken).want(t, http.StatusOK)
		if n := len(m.handler.guesses.by); n > 200 {
			t.Errorf("minute %d: %d addresses are kept; want 200 at most", minute, n)
		}
		m.clock.Advance(time.Minute)
	}
}

// TestGuessesOfPrograms: the command line learns that its token is wrong.
func TestGuessesOfPrograms(t *testing.T) {
	m := mount(t, nil)
	c := m.client(t, "wrong")
	for i := range 12 {
		_, err := c.Refused(t.Context(), "")
		if many := strings.Contains(fmt.Sprint(err), "Too many requests"); !errors.Is(err, uiapi.ErrForbidden) || many != (i >= 10) {
			t.Errorf("guess %d: %v; want ErrForbidden, with the reason", i, err)
		}
	}
}
