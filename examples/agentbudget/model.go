package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/brimgo/brim/llmlimit"
	"github.com/brimgo/brim/spend"
)

// calls returns a client whose calls of a model are charged to the budget. base sends them; nil is
// the network.
func calls(b *spend.Budgets, base http.RoundTripper) *http.Client {
	price := llmlimit.Price{Input: price(3_00), CacheRead: price(30), Output: price(15_00)}
	return llmlimit.New(b, func(string) (llmlimit.Model, bool) {
		return llmlimit.Model{Price: price, Window: 200_000, MaxOutput: 64_000}, true
	}, &llmlimit.Options{Base: base}).Client()
}

// price is a number of cents in the unit of the budget.
func price(cents int64) spend.Money { return spend.Money{Minor: cents * 1_000_000, Currency: unit} }

// question asks the model. An agent that is over its budget gets the model's 429, or 400 if waiting
// does not help, and goes on without an answer. The SDK of a provider takes the same client.
func (a *agent) question(ctx context.Context, s step) error {
	body, err := json.Marshal(map[string]any{
		"model": a.model, "max_completion_tokens": 1000,
		"messages": []any{map[string]string{"role": "user", "content": s.ask}},
	})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(llmlimit.For(ctx, account), http.MethodPost, a.api+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+a.key)
	resp, err := a.calls.Do(r)
	if err != nil {
		return fmt.Errorf("the model did not answer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("the answer of the model cannot be read: %w", err)
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		fmt.Fprintf(a.out, "%s: %s\n", s.name, answer.Error.Message)
	case len(answer.Choices) > 0:
		fmt.Fprintf(a.out, "%s: %s\n", s.name, answer.Choices[0].Message.Content)
	}
	return nil
}

// pretended stands for the API of a model. Each call bills 60 tokens of input and 800 of output:
// 0.01218 dollars.
type pretended struct{}

func (pretended) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	const answer = `{"object":"chat.completion","model":"large","choices":[{"index":0,"finish_reason":"stop",
		"message":{"role":"assistant","content":"three of them"}}],
		"usage":{"prompt_tokens":60,"completion_tokens":800,"total_tokens":860}}`
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(answer)), Request: r,
	}, err
}
