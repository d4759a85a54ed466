package llmlimit

import "encoding/json"

// Usage is the bill of a call in tokens. The four kinds of input exclude each other: a token counts
// in one of them.
type Usage struct {
	Input          int64 // tokens that no cache served or stored
	CacheRead      int64
	CacheWrite     int64 // stored for a short time: 5 minutes at Anthropic, 30 at OpenAI
	CacheWriteLong int64 // stored for longer: an hour at Anthropic, 12 at OpenAI
	Output         int64 // with the tokens of reasoning
	Searches       int64 // of the provider's own tools, which it bills beside tokens

	Model string // as the answer names it
	// Tier has the modifiers of the price that the answer tells, joined by "+": the service tier,
	// "fast", the region of the inference, and "long" for an input above [Model.Long]. It is
	// "standard" if the answer tells that there are none, and "" if it tells nothing.
	Tier string
	// Final reports that the provider has told input and output, and says no more about this call.
	Final bool
	// Odd reports that the answer bills something that the other fields cannot tell, such as audio,
	// or that its figures contradict each other.
	Odd bool
}

// most is above any number of tokens that a call can use.
const most = 1e12

// valid reports whether the figures can be those of a call.
func (u *Usage) valid() bool {
	for _, n := range []int64{u.Input, u.CacheRead, u.CacheWrite, u.CacheWriteLong, u.Output, u.Searches} {
		if n < 0 || n > most {
			return false
		}
	}
	return true
}

// in returns the tokens of input.
func (u *Usage) in() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.CacheWriteLong }

// wireAnswer has the fields of an answer, or of an event of one, in all dialects.
type wireAnswer struct {
	Type     string      `json:"type"`
	Status   string      `json:"status"`
	Model    string      `json:"model"`
	Tier     string      `json:"service_tier"`
	Choices  *[]struct{} `json:"choices"`
	Usage    *wireUsage  `json:"usage"`
	Tools    *wireTools  `json:"tool_usage"`
	Response *wireAnswer `json:"response"` // of a stream of Responses
	Message  *wireAnswer `json:"message"`  // of a stream of Anthropic
	Error    *wireError  `json:"error"`

	Gemini     *wireGemini `json:"usageMetadata"`
	Version    string      `json:"modelVersion"`
	Candidates []struct {
		Finish string `json:"finishReason"`
	} `json:"candidates"`
	Feedback *struct{} `json:"promptFeedback"` // the prompt was refused
}

// UnmarshalJSON ignores all that is no object: an error has a text where an event has its message.
func (a *wireAnswer) UnmarshalJSON(b []byte) error {
	type plain wireAnswer
	if len(b) == 0 || b[0] != '{' {
		return nil
	}
	return json.Unmarshal(b, (*plain)(a))
}

// wireUsage has the usage of Chat Completions, embeddings, Responses and Anthropic.
type wireUsage struct {
	Prompt        *int64      `json:"prompt_tokens"`
	PromptParts   wireDetails `json:"prompt_tokens_details"`
	Completion    *int64      `json:"completion_tokens"`
	CompleteParts wireDetails `json:"completion_tokens_details"`
	Total         *int64      `json:"total_tokens"`

	Input       *int64       `json:"input_tokens"`
	InputParts  *wireDetails `json:"input_tokens_details"`
	Output      *int64       `json:"output_tokens"`
	OutputParts wireDetails  `json:"output_tokens_details"`

	Read   *int64 `json:"cache_read_input_tokens"`
	Write  *int64 `json:"cache_creation_input_tokens"`
	Writes *struct {
		Long int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Tools *struct {
		Searches int64 `json:"web_search_requests"`
	} `json:"server_tool_use"`
	Tier       string `json:"service_tier"`
	Speed      string `json:"speed"`
	Geo        string `json:"inference_geo"`
	Iterations []struct {
		Type string `json:"type"`
	} `json:"iterations"`
}

type wireDetails struct {
	Cached int64 `json:"cached_tokens"`
	Write  int64 `json:"cache_write_tokens"`
	Audio  int64 `json:"audio_tokens"`
	Writes struct {
		Long int64 `json:"ttl_12h_tokens"`
	} `json:"cache_write_tokens_details"`
}

type wireTools struct {
	ImageGen struct {
		Total int64 `json:"total_tokens"`
	} `json:"image_gen"`
	WebSearch struct {
		Requests int64 `json:"num_requests"`
	} `json:"web_search"`
}

type wireGemini struct {
	Prompt      int64        `json:"promptTokenCount"`
	PromptParts []wireMedium `json:"promptTokensDetails"`
	Candidates  int64        `json:"candidatesTokenCount"`
	OutputParts []wireMedium `json:"candidatesTokensDetails"`
	Cached      int64        `json:"cachedContentTokenCount"`
	Thoughts    int64        `json:"thoughtsTokenCount"`
	ToolUse     int64        `json:"toolUsePromptTokenCount"`
	Traffic     string       `json:"trafficType"`
}

type wireMedium struct {
	Modality string `json:"modality"`
	Tokens   int64  `json:"tokenCount"`
}

// wireError is the error of any dialect. It stays empty if the body has a text in its place.
type wireError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Status  string `json:"status"`
}

func (e *wireError) UnmarshalJSON(b []byte) error {
	type plain wireError
	if len(b) == 0 || b[0] != '{' {
		return nil
	}
	return json.Unmarshal(b, (*plain)(e))
}

// bill is the sum of the usages that an answer tells in its events.
type bill struct {
	Usage
	in, out bool // told
}

// add merges the usage of a whole answer, or that of an event. It reports whether there was one.
func (b *bill) add(a *wireAnswer) bool {
	for _, name := range []string{a.Model, a.Version} {
		if name != "" {
			b.Model = name
		}
	}
	if a.Tier != "" {
		b.Tier = tier(a.Tier)
	}
	if a.Tools != nil {
		b.Searches = a.Tools.WebSearch.Requests
		b.Odd = b.Odd || a.Tools.ImageGen.Total > 0
	}
	switch w := a.Usage; {
	case a.Gemini != nil:
		b.gemini(a.Gemini)
	case w == nil:
		return false
	case w.Prompt != nil:
		b.chat(w)
	case w.Input != nil && (w.Total != nil || w.InputParts != nil):
		b.responses(w)
	case w.Input != nil || w.Output != nil:
		b.anthropic(w)
	default:
		return false
	}
	return true
}

// chat reads the usage of Chat Completions, of legacy completions and of embeddings. prompt_tokens
// includes the tokens of the cache, and completion_tokens those of reasoning and of rejected
// predictions. Some servers with OpenAI's interface, that of xAI among them, count the reasoning in
// total_tokens alone. Embeddings have no output, and tell none.
func (b *bill) chat(w *wireUsage) {
	b.split(*w.Prompt, &w.PromptParts)
	b.Output = w.output(*w.Prompt, w.Completion)
	b.Odd = b.Odd || w.PromptParts.Audio > 0 || w.CompleteParts.Audio > 0
	b.in = true
	b.out = w.Completion != nil || w.Total != nil && *w.Total == *w.Prompt
}

// responses reads the usage of Responses. input_tokens includes the tokens of the cache.
func (b *bill) responses(w *wireUsage) {
	parts := w.InputParts
	if parts == nil {
		parts = &wireDetails{}
	}
	b.split(*w.Input, parts)
	b.Output = w.output(*w.Input, w.Output)
	b.Odd = b.Odd || parts.Audio > 0 || w.OutputParts.Audio > 0
	b.in, b.out = true, w.Output != nil
}

// output returns the tokens of an answer, also those that the total alone tells.
func (w *wireUsage) output(in int64, out *int64) int64 {
	if out == nil || *out < 0 {
		return value(out)
	}
	return max(*out, value(w.Total)-in)
}

// split divides the tokens of an input that includes those of the cache.
func (b *bill) split(in int64, parts *wireDetails) {
	b.CacheRead, b.CacheWriteLong = parts.Cached, parts.Writes.Long
	b.CacheWrite = b.less(parts.Write, b.CacheWriteLong)
	b.Input = b.less(in, parts.Cached, parts.Write)
}

// less returns n without its parts. Parts that are more than the whole are Odd.
func (b *bill) less(n int64, parts ...int64) int64 {
	for _, part := range parts {
		n -= part
	}
	if n < 0 {
		b.Odd, n = true, 0
	}
	return n
}

// anthropic reads a usage of Anthropic Messages. The usage in message_delta overwrites the fields
// that are present, and leaves the others as message_start has told them. Iterations of other types
// than message are not in the sums.
func (b *bill) anthropic(w *wireUsage) {
	set(&b.Input, w.Input)
	set(&b.Output, w.Output)
	set(&b.CacheRead, w.Read)
	if w.Write != nil {
		if w.Writes != nil {
			b.CacheWriteLong = w.Writes.Long
		}
		b.CacheWrite = b.less(*w.Write, b.CacheWriteLong)
	}
	if w.Tools != nil {
		b.Searches = w.Tools.Searches
	}
	if w.Tier != "" || w.Speed != "" || w.Geo != "" {
		b.Tier = tier(w.Tier, w.Speed, w.Geo)
	}
	for _, it := range w.Iterations {
		b.Odd = b.Odd || it.Type != "message"
	}
	b.in, b.out = b.in || w.Input != nil, b.out || w.Output != nil
}

// gemini reads a usage of Gemini, which each event of a stream has, with the sum so far. The prompt
// includes the tokens of the cache; the thoughts, and the prompts that tools have added, stand
// outside the other figures.
func (b *bill) gemini(g *wireGemini) {
	b.CacheRead = g.Cached
	b.Input = b.less(g.Prompt, g.Cached) + g.ToolUse
	b.Output = g.Candidates + g.Thoughts
	if g.Traffic != "" {
		b.Tier = tier(g.Traffic)
	}
	for _, part := range g.PromptParts {
		b.Odd = b.Odd || part.Modality == "AUDIO" && part.Tokens > 0
	}
	for _, part := range g.OutputParts {
		b.Odd = b.Odd || part.Modality != "TEXT" && part.Tokens > 0
	}
	b.in, b.out = true, true
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func set(to, from *int64) {
	if from != nil {
		*to = *from
	}
}

// standard is the Tier of a call at the price of the list.
const standard = "standard"

// tier joins the modifiers of a price, as providers name them.
func tier(names ...string) (joined string) {
	for _, name := range names {
		switch name {
		case "", "auto", "default", standard, "standard_only", "ON_DEMAND", "global", "not_available":
			continue
		}
		joined = join(joined, name)
	}
	if joined == "" {
		return standard
	}
	return joined
}

// join adds a modifier to a Tier.
func join(tier, name string) string {
	if tier == "" || tier == standard {
		return name
	}
	return tier + "+" + name
}
