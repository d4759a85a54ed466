package llmlimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/brimgo/brim/spend"
)

const (
	defaultHidden = 2048
	maxChoices    = 1024
)

// bound is the most that a call can cost.
type bound struct {
	cost   spend.Money
	output int64  // tokens
	tier   string // that the request asks for; "" if it asks for none
	extra  bool   // the usage may not tell all of the bill
}

// bound returns the most that a call of m can cost.
func (q *request) bound(m *Model) (b bound, err error) {
	if v := q.fields["background"]; v != nil && v != false {
		return b, errors.New("nobody learns the cost of a background answer; send background false")
	}
	if b.output, err = q.mostOutput(m); err != nil {
		return b, err
	}
	if b.tier, err = q.tier(m); err != nil {
		return b, err
	}
	s := q.shape()
	in, err := q.mostInput(m, s)
	if err != nil {
		return b, err
	}
	if name := join(b.tier, "long"); m.Long > 0 && in > m.Long {
		if _, ok := m.Tiers[name]; !ok {
			return b, fmt.Errorf("the model has no price for %.40q, and the input may be that long", name)
		}
	}
	if b.cost, err = m.bound(in, b.output); err != nil {
		return b, &priceError{err}
	}
	if s.extra == "" {
		return b, nil
	}
	if m.Extra == (spend.Money{}) {
		return b, fmt.Errorf("nobody knows the most that %s can cost with this model", s.extra)
	}
	extra, err := m.Extra.In(b.cost.Currency)
	if err == nil && extra.Minor < 0 {
		err = fmt.Errorf("Extra: %w: %v; it must not be negative", spend.ErrAmount, extra)
	}
	if err == nil {
		b.cost, err = b.cost.Add(extra)
	}
	if err != nil {
		return b, &priceError{err}
	}
	// Anthropic tells its searches, and the pages that it fetches are input.
	b.extra = q.dialect != messages || !s.searches
	return b, nil
}

// priceError is a mistake in the prices of a model, and not in a request.
type priceError struct{ error }

// limits are the fields that limit the output of each dialect. Another dialect's would limit
// nothing.
var limits = map[dialect][]string{
	chat:      {"max_tokens", "max_completion_tokens"},
	legacy:    {"max_tokens"},
	responses: {"max_output_tokens"},
	messages:  {"max_tokens"},
}

// mostOutput returns the most output tokens of all answers.
func (q *request) mostOutput(m *Model) (int64, error) {
	if q.dialect == embeddings {
		return 0, nil
	}
	asked, limited, err := number(q.generation(), "maxOutputTokens", "max_output_tokens")
	if q.dialect != gemini {
		asked, limited, err = 0, false, nil
		for _, name := range limits[q.dialect] {
			n, ok, wrong := number(q.fields, name)
			asked, limited, err = max(asked, n), limited || ok, errors.Join(err, wrong)
		}
	}
	choices, wrong := q.choices()
	if err := errors.Join(err, wrong); err != nil {
		return 0, err
	}
	switch {
	case !limited && m.MaxOutput <= 0:
		return 0, errors.New("neither the request nor the model limits the output; send a maximum of output tokens")
	case !limited:
		asked = m.MaxOutput
	case m.MaxOutput > 0:
		asked = min(asked, m.MaxOutput)
	}
	if q.fields["prediction"] != nil { // the rejected parts are billed as output
		asked += q.size
	}
	if asked > most/maxChoices {
		return 0, fmt.Errorf("the output is limited to %d tokens, which is out of range", asked)
	}
	return asked * choices, nil
}

// choices returns the number of answers.
func (q *request) choices() (int64, error) {
	n, _, err := number(q.fields, "n")
	best, _, err2 := number(q.fields, "best_of")
	if q.dialect == gemini {
		n, _, err = number(q.generation(), "candidateCount", "candidate_count")
	}
	if err := errors.Join(err, err2); err != nil {
		return 0, err
	}
	n = max(n, best, 1)
	if n <= maxChoices && q.dialect == legacy {
		n *= max(1, prompts(q.fields["prompt"]))
	}
	if n > maxChoices {
		return 0, fmt.Errorf("the request asks for more than %d answers", maxChoices)
	}
	return n, nil
}

// prompts returns the number of prompts in a list. A list of numbers is one prompt, of tokens.
func prompts(v any) (n int64) {
	list, _ := v.([]any)
	for _, prompt := range list {
		if _, token := prompt.(json.Number); !token {
			n++
		}
	}
	return n
}

// tier returns the modifiers of the price for which the request asks.
func (q *request) tier(m *Model) (string, error) {
	var names []string
	for _, field := range []string{"service_tier", "serviceTier", "speed", "inference_geo"} {
		switch v := q.fields[field].(type) {
		case nil:
		case string:
			names = append(names, v)
		default:
			return "", fmt.Errorf("%s must be a text", field)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	name := tier(names...)
	if _, ok := m.Tiers[name]; !ok && name != standard {
		return "", fmt.Errorf("the model has no price for %.40q", name)
	}
	return name, nil
}

// mostInput returns the most input tokens. A token of text has at least a byte, and each message
// has more bytes of JSON than the provider adds tokens.
func (q *request) mostInput(m *Model, s *shape) (int64, error) {
	in := q.size - s.data
	if s.tools {
		hidden := m.Hidden
		if hidden <= 0 {
			hidden = defaultHidden
		}
		in += hidden
	}
	whole := s.other
	switch {
	case s.images == 0:
	case m.Image <= 0 || s.images > math.MaxInt32 || m.Image > math.MaxInt32:
		whole = true
	default:
		in += s.images * m.Image
	}
	switch {
	case whole && m.Window <= 0:
		return 0, errors.New("the request has content whose tokens nobody can count, and the model has no Window")
	case whole:
		return m.Window, nil
	case m.Window > 0:
		return min(in, m.Window), nil
	}
	return in, nil
}

// shape is the content of a request.
type shape struct {
	images   int64
	data     int64  // bytes of images
	tools    bool   // the provider adds tokens
	other    bool   // content whose tokens nobody can count
	extra    string // content that is billed beside tokens, or more than once
	searches bool   // extra is nothing but the searches of Anthropic
}

func (q *request) shape() *shape {
	s := &shape{}
	for name, v := range q.fields {
		if v == nil {
			continue
		}
		switch name {
		case "tools", "functions":
			s.list(v)
		case "response_format", "text", "output_config":
			s.tools = true
		case "previous_response_id", "conversation", "cachedContent", "cached_content":
			s.other = true
		case "prompt":
			_, stored := v.(map[string]any)
			s.other = s.other || stored
		case "web_search_options", "mcp_servers", "fallbacks", "models", "context_management", "container", "audio", "image",
			"search_parameters", "plugins": // of xAI and OpenRouter
			s.more(name)
		case "modalities":
			s.modes(v)
		case "messages", "input", "contents", "system", "systemInstruction", "system_instruction", "instructions":
			s.walk(v)
		}
	}
	for _, name := range []string{"responseSchema", "response_schema", "responseJsonSchema", "response_json_schema"} {
		s.tools = s.tools || q.generation()[name] != nil
	}
	s.modes(first(q.generation(), "responseModalities", "response_modalities"))
	return s
}

// more notes content that is billed beside tokens.
func (s *shape) more(what string) { s.extra, s.searches = what, false }

// modes reads the forms of the answer.
func (s *shape) modes(v any) {
	list, ok := v.([]any)
	if v != nil && !ok {
		s.more("the form of the answer")
	}
	for _, mode := range list {
		if name, _ := mode.(string); !strings.EqualFold(name, "text") {
			s.more("an answer that is no text")
		}
	}
}

// clientTools are the types of tools that the caller runs. A name that ends in "_" is followed by a
// date.
var clientTools = []string{"function", "custom", "local_shell", "apply_patch", "bash_", "text_editor_", "memory_", "computer_"}

// list reads the tools. All of them that are not known to be the caller's are the provider's.
func (s *shape) list(v any) {
	s.tools = true
	tools, _ := v.([]any)
	if len(tools) == 0 {
		if _, ok := v.([]any); !ok {
			s.more("tools that are no list")
		}
		return
	}
	for _, v := range tools {
		tool, _ := v.(map[string]any)
		kind, _ := tool["type"].(string)
		switch {
		case clientTool(kind, tool):
		case strings.HasPrefix(kind, "web_search_2") || strings.HasPrefix(kind, "web_fetch_2"):
			if s.extra == "" {
				s.extra, s.searches = "a search of the provider", true
			}
		default:
			s.more("a tool of the provider")
		}
	}
}

// clientTool reports whether the caller runs a tool.
func clientTool(kind string, tool map[string]any) bool {
	if kind == "" {
		for name := range tool {
			switch name {
			case "functionDeclarations", "function_declarations": // of Gemini, where a tool has one field
				if len(tool) == 1 {
					return true
				}
			}
		}
		_, named := tool["name"].(string) // of Anthropic
		return named
	}
	for _, name := range clientTools {
		rest, ok := strings.CutPrefix(kind, name)
		if ok && (rest == "" || strings.HasSuffix(name, "_") && strings.Trim(rest, "0123456789") == "") {
			return true
		}
	}
	return false
}

// texts are the types of content whose tokens are no more than their bytes.
var texts = map[string]bool{
	"": true, "text": true, "input_text": true, "output_text": true, "message": true, "refusal": true,
	"tool_use": true, "tool_result": true, "function": true, "custom": true,
	"function_call": true, "function_call_output": true, "custom_tool_call": true, "custom_tool_call_output": true,
	"thinking": true, "redacted_thinking": true, "reasoning": true, "reasoning_text": true, "summary_text": true,
}

// walk reads messages and their parts.
func (s *shape) walk(v any) {
	switch v := v.(type) {
	case []any:
		for _, part := range v {
			s.walk(part)
		}
	case map[string]any:
		kind, ok := v["type"].(string)
		image := kind == "image_url" || kind == "input_image" || kind == "image"
		switch {
		case image:
			s.image(v)
		case !texts[kind] || v["type"] != nil && !ok:
			s.other = true
			if strings.Contains(kind, "audio") || strings.Contains(kind, "video") {
				s.more(kind)
			}
		}
		for name, part := range v {
			switch name {
			case "input", "arguments", "args", "response", "cache_control":
				// JSON or text of the caller, which no provider looks into
			case "inlineData", "inline_data", "fileData", "file_data":
				s.inline(part)
			case "file_id", "audio", "source":
				s.other = s.other || part != nil && !image
			case "image_url": // of an image
			default:
				s.walk(part)
			}
		}
	}
}

// image reads a part with an image. The bytes of the image are no text.
func (s *shape) image(v map[string]any) {
	s.images++
	link := v["image_url"]
	if object, ok := link.(map[string]any); ok {
		link = object["url"]
	}
	if url, _ := link.(string); strings.HasPrefix(url, "data:image/") {
		s.data += int64(len(url))
	}
	source, _ := v["source"].(map[string]any)
	if data, _ := source["data"].(string); source["type"] == "base64" {
		s.data += int64(len(data))
	}
}

// inline reads a file or an image of Gemini.
func (s *shape) inline(v any) {
	if v == nil {
		return
	}
	object, _ := v.(map[string]any)
	kind, _ := first(object, "mimeType", "mime_type").(string)
	switch data, _ := object["data"].(string); {
	case strings.HasPrefix(kind, "image/"):
		s.images++
		s.data += int64(len(data))
	case strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "video/"):
		s.more("audio or video")
		s.other = true
	default:
		s.other = true
	}
}
