package llm

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// The prices of a token in millionths of a cent. The bill of a fake is a sum of them, so it is
// exact without the arithmetic of package llmlimit.
const (
	priceIn    = 300
	priceRead  = 30
	priceWrite = 375
	priceLong  = 600
	priceOut   = 1500
)

// fault is a way in which a call goes wrong at the provider.
type fault uint8

const (
	none       fault = iota
	overloaded       // 529 in the provider's words: nothing is billed
	limited          // 429 with a wait of a millisecond: nothing is billed
	proxied          // billed, and a proxy answers 502
	silent           // billed, and the answer tells no usage
	cutEarly         // billed, and the answer breaks off after its first event
	cutLate          // billed, and the answer breaks off before its usage
	dead             // billed, and no answer comes
	dearer           // billed at more than the highest output that was asked for
	faults
)

func (f fault) String() string {
	return [...]string{
		"no fault", "overloaded", "limited", "502 of a proxy", "no usage told", "cut off early", "cut off late", "no answer", "dearer than asked",
	}[f]
}

// above reports whether nobody can know the bill of a call with that fault.
func (f fault) above() bool {
	switch f {
	case proxied, silent, cutEarly, cutLate, dead:
		return true
	}
	return false
}

// fake is the API of both providers.
type fake struct {
	next   func(call int64) fault // nil: none
	slow   time.Duration          // before each event
	calls  atomic.Int64
	billed atomic.Int64 // in millionths of a cent

	mu      sync.Mutex
	refused []string // mistakes in requests
}

// start serves the fake.
func (f *fake) start(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewUnstartedServer(f)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		if n := len(f.refused); n > 0 {
			t.Errorf("the API refuses %d requests, the first for %s", n, f.refused[0])
		}
	})
	return s.URL
}

// fields are the names of a request's fields.
func fields(v any) map[string]bool {
	names := map[string]bool{"stream": true}
	t := reflect.TypeOf(v)
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			names[name] = true
		}
	}
	return names
}

var known = map[string]map[string]bool{
	"/v1/chat/completions": fields(openai.ChatCompletionNewParams{}),
	"/v1/responses":        fields(responses.ResponseNewParams{}),
	"/v1/messages":         fields(anthropic.MessageNewParams{}),
}

// check returns a mistake in a request, as the APIs refuse it.
func check(r *http.Request, body []byte) (req map[string]json.RawMessage, mistake string) {
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err.Error()
	}
	names, ok := known[r.URL.Path]
	if !ok {
		return nil, "path " + r.URL.Path
	}
	for name := range req {
		if !names[name] {
			return nil, name + ": extra inputs are not permitted"
		}
	}
	switch {
	case r.URL.Path != "/v1/messages" && r.Header.Get("Authorization") != "Bearer secret":
		return nil, "another Authorization"
	case r.URL.Path == "/v1/messages" && r.Header.Get("Anthropic-Version") == "":
		return nil, "no Anthropic-Version"
	case r.URL.Path == "/v1/messages" && anthropicKey(r.Header) != "secret":
		return nil, "another X-Api-Key or Authorization"
	}
	return req, ""
}

// anthropicKey returns the key of a request, as the SDK sends it or as the gateway does. One beside
// another is none.
func anthropicKey(h http.Header) string {
	bearer, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if key := h.Get("X-Api-Key"); !ok {
		return key
	} else if key != "" {
		return ""
	}
	return bearer
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	req, mistake := check(r, body)
	if mistake != "" {
		f.mu.Lock()
		f.refused = append(f.refused, mistake)
		f.mu.Unlock()
		answer(w, http.StatusBadRequest, mistake)
		return
	}
	fault := none
	if n := f.calls.Add(1); f.next != nil {
		fault = f.next(n)
	}
	switch fault {
	case overloaded:
		answer(w, 529, "later")
		return
	case limited:
		w.Header().Set("Retry-After-Ms", "1")
		answer(w, http.StatusTooManyRequests, "later")
		return
	}
	a := &call{left: r.Context().Done(), f: f, w: w, fault: fault, stream: string(req["stream"]) == "true", in: 20, out: 30}
	if fault == dearer {
		a.out = 5000
	}
	cost := int64(a.in*priceIn + 8*priceRead + a.out*priceOut)
	if r.URL.Path == "/v1/messages" {
		cost += 92*priceRead + 3*priceWrite + 7*priceLong
	}
	f.billed.Add(cost)
	switch fault {
	case proxied:
		http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway)
		return
	case dead:
		panic(http.ErrAbortHandler)
	}
	switch r.URL.Path {
	case "/v1/chat/completions":
		var o struct {
			Usage bool `json:"include_usage"`
		}
		_ = json.Unmarshal(req["stream_options"], &o)
		a.chat(o.Usage)
	case "/v1/responses":
		a.responses()
	case "/v1/messages":
		a.messages()
	}
}

// answer refuses a call in words that both SDKs understand.
func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"error","error":{"type":"overloaded_error","message":%q}}`, text)
}

// call is an answer that is billed.
type call struct {
	left    <-chan struct{} // closed when the client has left
	f       *fake
	w       http.ResponseWriter
	fault   fault
	stream  bool
	in, out int
}

// whole writes a whole answer.
func (a *call) whole(v any) {
	a.w.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	if a.fault == cutEarly || a.fault == cutLate {
		a.w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		text = text[:len(text)/2]
	}
	_, _ = a.w.Write(text)
}

// event writes an event of a stream.
func (a *call) event(name string, v any) {
	a.w.Header().Set("Content-Type", "text/event-stream")
	text, raw := v.(string)
	if !raw {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		text = string(b)
	}
	if name != "" {
		fmt.Fprintf(a.w, "event: %s\n", name)
	}
	fmt.Fprintf(a.w, "data: %s\n\n", text)
	_ = http.NewResponseController(a.w).Flush()
	if a.f.slow > 0 {
		select {
		case <-time.After(a.f.slow):
		case <-a.left:
			panic(http.ErrAbortHandler)
		}
	}
}

// ends breaks the answer off, if its fault is that one.
func (a *call) ends(f fault) {
	if a.fault == f {
		panic(http.ErrAbortHandler)
	}
}

func (a *call) usage(v any) any {
	if a.fault == silent {
		return nil
	}
	return v
}

type object = map[string]any

func (a *call) chat(asked bool) {
	var u openai.CompletionUsage
	u.PromptTokens, u.CompletionTokens, u.TotalTokens = int64(a.in+8), int64(a.out), int64(a.in+8+a.out)
	u.PromptTokensDetails.CachedTokens, u.CompletionTokensDetails.ReasoningTokens = 8, 5
	usage := a.usage(object{
		"prompt_tokens": u.PromptTokens, "completion_tokens": u.CompletionTokens, "total_tokens": u.TotalTokens,
		"prompt_tokens_details": u.PromptTokensDetails, "completion_tokens_details": u.CompletionTokensDetails,
	})
	if !a.stream {
		message := object{"role": "assistant", "content": "hello"}
		a.whole(object{
			"id": "c", "object": "chat.completion", "created": 1, "model": "large", "service_tier": "default", "usage": usage,
			"choices": []any{object{"index": 0, "finish_reason": "stop", "message": message}},
		})
		return
	}
	for i := range 5 {
		chunk := object{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "large", "choices": []any{
			object{"index": 0, "delta": object{"content": fmt.Sprintf(`"usage": %d `, i)}, "finish_reason": nil},
		}}
		if asked {
			chunk["usage"] = nil
		}
		if a.event("", chunk); i == 0 {
			a.ends(cutEarly)
		}
	}
	a.ends(cutLate)
	if asked && usage != nil {
		a.event("", object{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "large", "choices": []any{}, "usage": usage})
	}
	a.event("", "[DONE]")
}

func (a *call) responses() {
	var u responses.ResponseUsage
	u.InputTokens, u.OutputTokens, u.TotalTokens = int64(a.in+8), int64(a.out), int64(a.in+8+a.out)
	u.InputTokensDetails.CachedTokens, u.OutputTokensDetails.ReasoningTokens = 8, 5
	response := func(status responses.ResponseStatus, usage any) object {
		return object{
			"id": "r", "object": "response", "created_at": 1, "status": status, "model": "large", "error": nil, "output": []any{},
			"usage": usage, "tools": []any{}, "service_tier": responses.ResponseServiceTierDefault,
		}
	}
	usage := a.usage(u)
	if !a.stream {
		a.whole(response(responses.ResponseStatusCompleted, usage))
		return
	}
	a.event("response.created", object{"type": "response.created", "sequence_number": 0, "response": response(responses.ResponseStatusInProgress, nil)})
	a.ends(cutEarly)
	for i := range 5 {
		a.event("response.output_text.delta", object{
			"type": "response.output_text.delta", "sequence_number": i + 1, "item_id": "m", "output_index": 0, "content_index": 0,
			"delta": `"usage": {"input_tokens": 9} `, "logprobs": []any{},
		})
	}
	a.ends(cutLate)
	a.event("response.completed", object{"type": "response.completed", "sequence_number": 9, "response": response(responses.ResponseStatusCompleted, usage)})
}

func (a *call) messages() {
	usage := func(out int) any {
		u := anthropic.Usage{InputTokens: int64(a.in), CacheReadInputTokens: 100, CacheCreationInputTokens: 10, OutputTokens: int64(out)}
		u.CacheCreation.Ephemeral5mInputTokens, u.CacheCreation.Ephemeral1hInputTokens = 3, 7
		return a.usage(object{
			"input_tokens": u.InputTokens, "cache_read_input_tokens": u.CacheReadInputTokens, "output_tokens": u.OutputTokens,
			"cache_creation_input_tokens": u.CacheCreationInputTokens, "server_tool_use": nil,
			"cache_creation": object{"ephemeral_5m_input_tokens": u.CacheCreation.Ephemeral5mInputTokens, "ephemeral_1h_input_tokens": u.CacheCreation.Ephemeral1hInputTokens},
			"service_tier":   anthropic.UsageServiceTierStandard, "speed": anthropic.UsageSpeedStandard, "inference_geo": "global",
		})
	}
	message := object{
		"id": "m", "type": "message", "role": "assistant", "model": "large", "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": usage(1),
	}
	if !a.stream {
		message["content"], message["stop_reason"], message["usage"] = []any{object{"type": "text", "text": "hello"}}, "end_turn", usage(a.out)
		a.whole(message)
		return
	}
	a.event("message_start", object{"type": "message_start", "message": message})
	a.ends(cutEarly)
	a.event("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""}})
	a.event("ping", object{"type": "ping"})
	for range 5 {
		a.event("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": `"usage":{"output_tokens": 4} `}})
	}
	a.event("content_block_stop", object{"type": "content_block_stop", "index": 0})
	a.ends(cutLate)
	end := object{"type": "message_delta", "delta": object{"stop_reason": "end_turn", "stop_sequence": nil}}
	if a.fault != silent {
		end["usage"] = object{"output_tokens": a.out}
	}
	a.event("message_delta", end)
	a.event("message_stop", object{"type": "message_stop"})
}
