package llm

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// clients are the SDKs.
type clients struct {
	openai    openai.Client
	anthropic anthropic.Client
}

// newClients returns SDKs that call a server with a key, through an HTTP client. They try again
// after a millisecond, where nobody tells them to wait, instead of the seconds that they would
// sleep.
func newClients(url, key string, c *http.Client) *clients {
	base := c.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	c = &http.Client{Transport: hasty{base}}
	return &clients{
		openai.NewClient(option.WithAPIKey(key), option.WithBaseURL(url+"/v1/"), option.WithHTTPClient(c)),
		anthropic.NewClient(anoption.WithAPIKey(key), anoption.WithBaseURL(url), anoption.WithHTTPClient(c)),
	}
}

type hasty struct{ http.RoundTripper }

func (h hasty) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode >= http.StatusBadRequest && resp.Header.Get("Retry-After")+resp.Header.Get("Retry-After-Ms") == "" {
		resp.Header.Set("Retry-After-Ms", "1")
	}
	return resp, err
}

// prompt has more bytes than the tokens that the fakes bill as input.
var prompt = "Tell me of buckets. " + strings.Repeat("They leak. ", 20)

func chatParams() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "large", MaxCompletionTokens: openai.Int(100), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
	}
}

func responseParams() responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: "large", MaxOutputTokens: openai.Int(100), Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(prompt)},
	}
}

func messageParams() anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: "large", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))},
	}
}

// stop is called after each event of a stream, with its number, and tells whether to leave.
type stop func(event int) bool

// ways are the kinds of calls. Each returns the text of the answer.
var ways = map[string]func(c *clients, ctx context.Context, stop stop) (string, error){
	"chat": func(c *clients, ctx context.Context, _ stop) (string, error) {
		a, err := c.openai.Chat.Completions.New(ctx, chatParams())
		if err != nil {
			return "", err
		}
		return a.Choices[0].Message.Content, nil
	},
	"chat stream": func(c *clients, ctx context.Context, stop stop) (text string, err error) {
		s := c.openai.Chat.Completions.NewStreaming(ctx, chatParams())
		defer s.Close()
		for n := 0; s.Next(); n++ {
			text += s.Current().Choices[0].Delta.Content // panics at an event without choices
			if stop(n) {
				break
			}
		}
		return text, s.Err()
	},
	"responses": func(c *clients, ctx context.Context, _ stop) (string, error) {
		a, err := c.openai.Responses.New(ctx, responseParams())
		if err != nil {
			return "", err
		}
		return string(a.Status), nil
	},
	"responses stream": func(c *clients, ctx context.Context, stop stop) (text string, err error) {
		s := c.openai.Responses.NewStreaming(ctx, responseParams())
		defer s.Close()
		for n := 0; s.Next(); n++ {
			if text += s.Current().Delta; stop(n) {
				break
			}
		}
		return text, s.Err()
	},
	"messages": func(c *clients, ctx context.Context, _ stop) (string, error) {
		a, err := c.anthropic.Messages.New(ctx, messageParams())
		if err != nil {
			return "", err
		}
		return a.Content[0].Text, nil
	},
	"messages stream": func(c *clients, ctx context.Context, stop stop) (text string, err error) {
		s := c.anthropic.Messages.NewStreaming(ctx, messageParams())
		defer s.Close()
		for n := 0; s.Next(); n++ {
			if text += s.Current().Delta.Text; stop(n) {
				break
			}
		}
		return text, s.Err()
	},
}

var wayNames = slices.Sorted(maps.Keys(ways))

// stay reads a stream to its end.
func stay(int) bool { return false }
