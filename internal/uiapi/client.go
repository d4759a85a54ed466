package uiapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/brimgo/brim/store"
)

// Client sends requests to the page at an address. It may be used by any number of goroutines at
// once.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// IsAddress reports whether the name of a store is the address of a page.
func IsAddress(name string) bool {
	scheme, _, found := strings.Cut(name, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// NewClient returns a Client for the page at that address. Each request carries the token, unless
// it is empty, in the field "Authorization: Bearer". NewClient sends no request. No error contains
// a password.
func NewClient(address, token string) (*Client, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("the address of the page should look like https://host:port/limits/")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the address of the page has a ? or #; it should look like https://host:port/limits/")
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("BRIM_TOKEN contains a character that a token cannot have, such as a space or a line break")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return &Client{base: u, token: token, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token must not reach another address
		},
	}}, nil
}

// String returns the address without user and password.
func (c *Client) String() string {
	shown := *c.base
	shown.User = nil
	return shown.String()
}

// List returns the listing, and its buckets whose keys begin with prefix, the fullest first. The
// sequence ends after an error. The caller must iterate over it once, to its end or to a break:
// that closes the body of the answer.
func (c *Client) List(ctx context.Context, prefix string) (Listing, iter.Seq2[Entry, error], error) {
	var l Listing
	body, err := c.ask(ctx, http.MethodGet, ListPath, url.Values{"prefix": {prefix}}, nil, "")
	if err != nil {
		return l, nil, err
	}
	lines := json.NewDecoder(bufio.NewReader(body))
	if err := lines.Decode(&l); err != nil {
		return l, nil, errors.Join(c.notPage(store.ErrUnavailable, err), body.Close())
	}
	return l, func(yield func(Entry, error) bool) {
		defer func() { _ = body.Close() }() // only read from
		for {
			var e Entry
			err := lines.Decode(&e)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(e, c.notPage(store.ErrUnavailable, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}, nil
}

// Refused returns the buckets with refusals whose keys begin with prefix, those refused most in the
// last minute first.
func (c *Client) Refused(ctx context.Context, prefix string) (list []Refused, err error) {
	err = c.get(ctx, RefusedPath, url.Values{"prefix": {prefix}}, &list)
	return list, err
}

// State returns the state of a bucket now, by the limit last written to it unless limit is given.
func (c *Client) State(ctx context.Context, key string, limit store.Limit) (store.State, error) {
	query := url.Values{"key": {key}}
	if limit != (store.Limit{}) && !limit.Calendar() {
		query.Set("capacity", strconv.FormatFloat(limit.Capacity, 'g', -1, 64))
		query.Set("leak_rate", strconv.FormatFloat(limit.LeakRate, 'g', -1, 64))
	}
	var e Entry
	err := c.get(ctx, StatePath, query, &e)
	st := e.State()
	if err == nil && limit.Calendar() { // the period is that of the bucket's time
		op := store.Op{Bucket: limit.For(key)}
		if err = op.SetPeriod(st.At); st.Level == 0 {
			st.SetLimit(op.Limit)
		}
		st.Capacity = limit.Capacity // units leave by the limit last written
	}
	return st, err
}

// Findings returns the findings of the program's own check of its store.
func (c *Client) Findings(ctx context.Context) (findings []store.Finding, err error) {
	err = c.get(ctx, FindingsPath, nil, &findings)
	return findings, err
}

// Change makes a change, and returns the state of the bucket after it.
func (c *Client) Change(ctx context.Context, change Change) (store.State, error) {
	var token Token
	if err := c.get(ctx, TokenPath, url.Values{"act": {change.Act}, "key": {change.Key}}, &token); err != nil {
		return store.State{}, err
	}
	content, err := json.Marshal(change)
	if err != nil {
		return store.State{}, err
	}
	body, err := c.ask(ctx, http.MethodPost, ChangePath, nil, content, token.Token)
	if err != nil {
		return store.State{}, err
	}
	defer func() { _ = body.Close() }() // only read from
	var e Entry
	if err := json.NewDecoder(body).Decode(&e); err != nil {
		return store.State{}, c.notPage(store.ErrUnknownOutcome, err)
	}
	return e.State(), nil
}

// get reads one value.
func (c *Client) get(ctx context.Context, path string, query url.Values, value any) error {
	body, err := c.ask(ctx, http.MethodGet, path, query, nil, "")
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // only read from
	if err := json.NewDecoder(body).Decode(value); err != nil {
		return c.notPage(store.ErrUnavailable, err)
	}
	return nil
}

// ask sends a request and returns the body of an answer with status 200.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, content []byte, token string) (io.ReadCloser, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(content))
	if err != nil {
		return nil, errors.New("the address of the page cannot be used")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if token != "" {
		r.Header.Set(TokenField, token)
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreached(ctx, method, err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer func() { _ = answer.Body.Close() }() // only read from
	return nil, c.refused(method, answer)
}

// unreached returns the error of a request that got no answer. The error of a change that was sent
// says that its outcome is unknown.
func (c *Client) unreached(ctx context.Context, method string, err error) error {
	if ctx.Err() != nil && method != http.MethodPost {
		return ctx.Err()
	}
	var u *url.Error
	if errors.As(err, &u) { // its text has the whole address, with the key
		err = u.Err
	}
	kind := store.ErrUnavailable
	if method == http.MethodPost {
		kind = store.ErrUnknownOutcome
	}
	return fmt.Errorf("%s: %w: %w", c, kind, err)
}

// refused returns the error of an answer with another status than 200. The outcome of a change is
// unknown if a proxy in front of the page answered, for instance with status 504: the page may have
// made the change.
func (c *Client) refused(method string, answer *http.Response) error {
	var p Problem
	err := json.NewDecoder(io.LimitReader(answer.Body, 1<<16)).Decode(&p)
	if err != nil || p.Status != answer.StatusCode || p.Detail == "" {
		kind := store.ErrUnavailable
		if method == http.MethodPost && answer.StatusCode >= http.StatusInternalServerError {
			kind = store.ErrUnknownOutcome
		}
		return c.notPage(kind, fmt.Errorf("status %s", answer.Status))
	}
	detail := strings.Map(func(r rune) rune { // the text goes to a terminal
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, p.Detail)
	if kind := errorOf(p.Kind); kind != nil {
		return fmt.Errorf("%s: %w: %s", c, kind, detail)
	}
	if p.Status == http.StatusForbidden || p.Status == http.StatusTooManyRequests {
		return fmt.Errorf("%s: %w: %s Set BRIM_TOKEN to the token that the program asks for", c, ErrForbidden, detail)
	}
	return fmt.Errorf("%s: %w: %s", c, store.ErrUnavailable, detail)
}

// ErrForbidden reports a request that the program does not allow.
var ErrForbidden = errors.New("not allowed")

// ErrOnlyLook is the ErrForbidden of somebody who may look and wants to change a bucket.
var ErrOnlyLook = fmt.Errorf("%w", ErrForbidden)

// notPage returns the error of an answer that does not come from a page.
func (c *Client) notPage(kind, err error) error {
	return fmt.Errorf("%s: %w: the answer does not come from a page of package ui: %w", c, kind, err)
}
