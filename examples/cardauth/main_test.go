package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestService(t *testing.T) {
	pool, schema := pgtest.Pool(t), pgtest.Schema(t)
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	handler, end, err := newHandler(pool, schema)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer func() {
		server.Close()
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	send := func(method, path, key, body string, status int, says string) http.Header {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != status || !strings.Contains(string(text), says) || !json.Valid(text) {
			t.Errorf("%s %s: %d %s; want %d and %q", method, path, resp.StatusCode, text, status, says)
		}
		return resp.Header
	}
	eur := func(amount string) string {
		return `{"card":"7","amount":{"amount":"` + amount + `","currency":"EUR"},"category":"travel"}`
	}
	send("POST", "/authorizations", "a", eur("300.00"), http.StatusCreated, `"id":"a"`)
	send("POST", "/authorizations", "a", eur("300.00"), http.StatusCreated, `"replayed":true`)
	send("POST", "/authorizations", "a", eur("301.00"), http.StatusUnprocessableEntity, "ID was used")
	declined := send("POST", "/authorizations", "b", eur("200.00"), http.StatusPaymentRequired, `"rule":"travel"`)
	if declined.Get("Content-Type") != "application/problem+json" || declined.Get("Retry-After") == "" {
		t.Errorf("a decline has the headers %v", declined)
	}
	never := send("POST", "/authorizations", "c", eur("501.00"), http.StatusPaymentRequired, `"rule":"single"`)
	if wait := never.Get("Retry-After"); wait != "" {
		t.Errorf("a decline that no wait helps has Retry-After %s", wait)
	}
	send("POST", "/authorizations", "", eur("1.00"), http.StatusBadRequest, "ID")
	send("POST", "/authorizations", "d", eur("1.001"), http.StatusBadRequest, "decimal")
	send("POST", "/authorizations", "d", `{"cart":1}`, http.StatusBadRequest, "cart")
	send("POST", "/authorizations/a/captures", "e",
		`{"amount":{"amount":"280.00","currency":"EUR"},"final":true}`, http.StatusOK, `"approved":true`)
	send("POST", "/authorizations/a/void", "f", ``, http.StatusConflict, "ended")
	send("POST", "/authorizations/x/void", "f", ``, http.StatusNotFound, "no such")
	send("GET", "/cards/7", "", "", http.StatusOK, `"remaining":{"amount":"720.00","currency":"EUR"}`)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	send("POST", "/authorizations", "g", eur("1.00"), http.StatusInternalServerError, "closed")
}

// TestDay compares the scripted day with testdata/day.txt.
func TestDay(t *testing.T) {
	want, err := os.ReadFile("testdata/day.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := day(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	wanted := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(wanted) || line != wanted[i] {
			t.Fatalf("line %d of the day is\n%s\nand testdata/day.txt is\n%s", i+1, &got, want)
		}
	}
}
