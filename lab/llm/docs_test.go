package llm

import (
	"context"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/brimgo/brim/llmlimit"
	"github.com/brimgo/brim/spend"
)

// The code of docs/llm.md stands here word for word.

func askOpenAI(ctx context.Context, budgets *spend.Budgets, prices map[string]llmlimit.Model, question openai.ChatCompletionNewParams) (*openai.ChatCompletion, error) {
	models := func(name string) (llmlimit.Model, bool) { m, ok := prices[name]; return m, ok }
	calls := llmlimit.New(budgets, models, nil)
	client := openai.NewClient(option.WithHTTPClient(calls.Client()))
	ctx = llmlimit.For(ctx, "key:7", spend.Account{Budget: "teams", Name: "red"})
	answer, err := client.Chat.Completions.New(ctx, question)
	return answer, err
}

func askAnthropic(ctx context.Context, budgets *spend.Budgets, prices map[string]llmlimit.Model, question anthropic.MessageNewParams) (*anthropic.Message, error) {
	models := func(name string) (llmlimit.Model, bool) { m, ok := prices[name]; return m, ok }
	calls := llmlimit.New(budgets, models, nil)
	client := anthropic.NewClient(anoption.WithHTTPClient(calls.Client()))
	ctx = llmlimit.For(ctx, "key:7", spend.Account{Budget: "teams", Name: "red"})
	answer, err := client.Messages.New(ctx, question)
	return answer, err
}

func TestDocs(t *testing.T) {
	f := &fake{}
	p := newProgram(t, f, "5", 0)
	url := f.start(t)
	for name, value := range map[string]string{
		"OPENAI_BASE_URL": url + "/v1/", "OPENAI_API_KEY": "secret", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "secret",
	} {
		t.Setenv(name, value)
	}
	prices := map[string]llmlimit.Model{"large": {
		Price: llmlimit.Price{Input: usd("3"), CacheRead: usd("0.3"), CacheWrite: usd("3.75"), CacheWriteLong: usd("6"), Output: usd("15")},
	}}
	if _, err := askOpenAI(t.Context(), p.sure, prices, chatParams()); err != nil {
		t.Error(err)
	}
	if _, err := askAnthropic(t.Context(), p.sure, prices, messageParams()); err != nil {
		t.Error(err)
	}
	if used, held := p.first(); used != f.billed.Load() || used == 0 || held != 0 {
		t.Errorf("%d are used and %d held for a bill of %d", used, held, f.billed.Load())
	}
}
