package llmlimit

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/spend"
)

// usd returns an amount of dollars in the unit of a millionth of a cent.
func usd(amount string) spend.Money {
	m, err := spend.ParseMoney(amount, "USD:8")
	if err != nil {
		panic(err)
	}
	return m
}

// plainPrice is a millionth of a cent a token, so that costs are numbers of tokens.
var plainPrice = Price{Input: usd("0.01"), Output: usd("0.01")}

// listPrice has a price of its own for each kind.
var listPrice = Price{
	Input: usd("3"), CacheRead: usd("0.3"), CacheWrite: usd("3.75"), CacheWriteLong: usd("6"), Output: usd("15"), Searches: usd("10"),
}

func TestPrice(t *testing.T) {
	for _, c := range []struct {
		why  string
		p    Price
		u    Usage
		want string // "" is an error
	}{
		{"each kind has its price", listPrice, Usage{Input: 1e6, CacheRead: 1e6, CacheWrite: 1e6, CacheWriteLong: 1e6, Output: 1e6, Searches: 1000}, "38.05000000 USD"},
		{"no kind is free because nobody named its price", Price{Input: usd("3")}, Usage{CacheRead: 1e6, CacheWrite: 1e6, CacheWriteLong: 1e6, Output: 1e6}, "12.00000000 USD"},
		{"nor are searches", Price{Input: usd("3")}, Usage{Input: 1e6, Searches: 1}, ""},
		{"a kind is free if its price says so", Price{Input: usd("3"), Output: usd("0")}, Usage{Input: 1e6, Output: 1e6}, "3.00000000 USD"},
		{"parts are added before they are rounded", Price{Input: usd("0.0025"), Output: usd("0.0025")}, Usage{Input: 1, Output: 3}, "0.00000001 USD"},
		{"a sum is rounded up once", Price{Input: usd("0.0025"), Output: usd("0.0025")}, Usage{Input: 1, Output: 4}, "0.00000002 USD"},
		{"nothing costs nothing", listPrice, Usage{}, "0.00000000 USD"},
		{"a product above 64 bits", Price{Input: usd("9000000")}, Usage{Input: 1e10}, "90000000000.00000000 USD"},
		{"a cost above 64 bits", Price{Input: usd("9000000")}, Usage{Input: 1e11}, ""},
		{"a number of tokens that nobody uses", listPrice, Usage{Input: 1 << 60}, ""},
		{"a negative price", Price{Input: usd("3"), Output: usd("-1")}, Usage{}, ""},
		{"two currencies", Price{Input: usd("3"), Output: spend.Money{Minor: 1, Currency: "EUR:8"}}, Usage{}, ""},
		{"two scales are one currency", Price{Input: usd("3"), Output: spend.Money{Minor: 1500, Currency: "USD"}}, Usage{Output: 1e6}, "15.00000000 USD"},
		{"no price", Price{}, Usage{}, ""},
	} {
		got, err := c.p.cost(&c.u)
		if (err != nil) != (c.want == "") || err == nil && got.String() != c.want {
			t.Errorf("%s: %v, %v; want %q", c.why, got, err, c.want)
		}
	}
}

func TestModelCost(t *testing.T) {
	m := Model{Price: plainPrice, Long: 100, Tiers: map[string]Price{
		"fast": {Input: usd("0.06"), Output: usd("0.06")}, "long": {Input: usd("0.02"), Output: usd("0.02")},
	}}
	for _, c := range []struct {
		why  string
		u    Usage
		want int64 // -1: no price
	}{
		{"the price of the list", Usage{Input: 10, Output: 5}, 15},
		{"the same, if the answer says so", Usage{Input: 10, Output: 5, Tier: standard}, 15},
		{"a tier with a price", Usage{Input: 10, Output: 5, Tier: "fast"}, 90},
		{"a tier without one", Usage{Input: 10, Output: 5, Tier: "priority"}, -1},
		{"all kinds of input make it long", Usage{Input: 1, CacheRead: 100, Output: 5, Tier: standard}, 212},
		{"no price for both", Usage{Input: 101, Tier: "fast"}, -1},
	} {
		got, ok, err := m.cost(&c.u)
		if err != nil || ok != (c.want >= 0) || ok && got.Minor != c.want {
			t.Errorf("%s: %v, %v, %v; want %d", c.why, got, ok, err, c.want)
		}
	}
	for _, c := range []struct {
		p    Price
		want int64
	}{{plainPrice, 15}, {listPrice, 10*600 + 5*1500}} {
		if got, err := (&Model{Price: c.p}).bound(10, 5); err != nil || got.Minor != c.want {
			t.Errorf("10 tokens of input and 5 of output cost at most %v, %v; want %d", got, err, c.want)
		}
	}
	if got, err := m.bound(10, 5); err != nil || got.Minor != 90 {
		t.Errorf("the dearest tier: %v, %v; want 90", got, err)
	}
}

func TestDialect(t *testing.T) {
	for _, c := range []struct {
		request string
		want    dialect
		model   string
	}{
		{"POST /v1/chat/completions", chat, ""},
		{"POST /v1/chat/completions/", chat, ""},
		{"POST /openai/deployments/gpt/chat/completions?api-version=1", chat, ""},
		{"POST /v1/completions", legacy, ""},
		{"POST /v1/embeddings", embeddings, ""},
		{"POST /v1/responses", responses, ""},
		{"POST /v1/messages", messages, ""},
		{"POST /v1beta/models/gemini-3:generateContent", gemini, "gemini-3"},
		{"POST /v1/projects/p/locations/l/publishers/google/models/gemini-3:streamGenerateContent?alt=sse", gemini, "gemini-3"},
		{"GET /v1/models", free, ""},
		{"DELETE /v1/responses/r", free, ""},
		{"POST /v1/messages/count_tokens", free, ""},
		{"POST /v1/responses/input_tokens", free, ""},
		{"POST /v1/responses/r/cancel", free, ""},
		{"POST /v1beta/models/gemini-3:countTokens", free, ""},
		{"POST /v1/files", free, ""},
		{"POST /v1/batches", unknown, ""},
		{"POST /v1/messages/batches", unknown, ""},
		{"POST /v1/responses/compact", unknown, ""},
		{"POST /v1/realtime/sessions", unknown, ""},
		{"POST /v1/audio/speech", unknown, ""},
		{"POST /v1beta/models/gemini-3:batchGenerateContent", unknown, ""},
		{"POST /v1/fine_tuning/jobs/j/cancel", unknown, ""},
		{"POST /v1/chat/count_tokens", unknown, ""},
		{"POST /v1/chat/completions%3Fx=/v1/files", unknown, ""},
		{"POST /v1/files/../chat/completions", unknown, ""},
		{"POST /v1/files/%2e%2e/chat/completions", unknown, ""},
		{"POST /v1/chat/completions/%252e%252e/files", unknown, ""},
		{"POST /v1//chat/completions", unknown, ""},
		{"POST /v1/chat/completions;/files", unknown, ""},
		{"PUT /v1/chat/completions", unknown, ""},
		{"PATCH /v1/messages", unknown, ""},
		{"GET /v1/realtime Upgrade", unknown, ""},
		{"GET /v1beta/models/gemini-3:generateContent X-Http-Method-Override", unknown, ""},
	} {
		parts := strings.Fields(c.request)
		r := httptest.NewRequest(parts[0], parts[1], nil)
		for _, name := range parts[2:] {
			r.Header.Set(name, "x")
		}
		if got, model := dialectOf(r); got != c.want || model != c.model {
			t.Errorf("%s: dialect %d, model %q; want %d, %q", c.request, got, model, c.want, c.model)
		}
	}
}

// windowed is a model with an output of at most 1,000 tokens, at a millionth of a cent a token.
var windowed = Model{Price: plainPrice, Window: 100_000, MaxOutput: 1000, Image: 300, Hidden: 5000}

func image(n int) string { return "data:image/png;base64," + strings.Repeat("A", n) }

var bounds = []struct {
	why     string
	dialect dialect
	body    string
	model   func(m *Model)
	in, out int64  // tokens; an in of -1 is the length of the body
	extra   bool   // the usage may not tell the bill
	refused string // a part of the reason
}{
	{why: "a token has a byte", dialect: chat, body: `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"hello"}]}`, in: -1, out: 50},
	{why: "reasoning is inside of max_completion_tokens", dialect: chat, body: `{"model":"m","max_completion_tokens":70}`, in: -1, out: 70},
	{why: "of two limits, nobody knows which counts", dialect: chat, body: `{"max_tokens":1,"max_completion_tokens":70}`, in: -1, out: 70},
	{why: "without a limit, the model's", dialect: chat, body: `{"model":"m"}`, in: -1, out: 1000},
	{why: "the model's limit holds, too", dialect: chat, body: `{"max_tokens":5000}`, in: -1, out: 1000},
	{why: "null is no limit", dialect: chat, body: `{"max_tokens":null}`, in: -1, out: 1000},
	{why: "the limit of another dialect limits nothing", dialect: chat, body: `{"max_output_tokens":1,"generationConfig":{"maxOutputTokens":1}}`, in: -1, out: 1000},
	{why: "nor that of chat in Responses", dialect: responses, body: `{"max_tokens":1,"max_completion_tokens":1}`, in: -1, out: 1000},
	{why: "each choice is billed", dialect: chat, body: `{"max_tokens":50,"n":3}`, in: -1, out: 150},
	{why: "each prompt has its choices", dialect: legacy, body: `{"max_tokens":50,"n":2,"prompt":["a","b","c"]}`, in: -1, out: 300},
	{why: "a prompt of tokens is one", dialect: legacy, body: `{"max_tokens":50,"prompt":[1,2,3]}`, in: -1, out: 50},
	{why: "the best of several are all billed", dialect: legacy, body: `{"max_tokens":50,"best_of":4,"prompt":"a"}`, in: -1, out: 200},
	{why: "too many choices", dialect: chat, body: `{"max_tokens":50,"n":1025}`, refused: "1024 answers"},
	{why: "rejected predictions are output", dialect: chat, body: `{"max_tokens":50,"prediction":{"type":"content","content":"abc"}}`, in: -1, out: 50 + 65},
	{why: "embeddings have no output", dialect: embeddings, body: `{"input":"hello"}`, in: -1},
	{why: "Responses", dialect: responses, body: `{"input":"hello","max_output_tokens":40}`, in: -1, out: 40},
	{why: "Anthropic", dialect: messages, body: `{"max_tokens":40,"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]}`, in: -1, out: 40},
	{why: "Gemini", dialect: gemini, body: `{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"maxOutputTokens":40,"candidateCount":2}}`, in: -1, out: 80},
	{why: "Gemini in the other spelling", dialect: gemini, body: `{"generation_config":{"max_output_tokens":40}}`, in: -1, out: 40},
	{why: "both spellings at once", dialect: gemini, body: `{"generation_config":{"max_output_tokens":4000},"generationConfig":{"maxOutputTokens":1}}`, refused: "both"},
	{why: "both spellings inside", dialect: gemini, body: `{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":4000}}`, refused: "both"},
	{why: "a whole number as a text", dialect: gemini, body: `{"generationConfig":{"maxOutputTokens":"4000"}}`, refused: "whole number"},

	{why: "a field in another case", dialect: chat, body: `{"max_tokens":5000,"MAX_TOKENS":1}`, refused: "MAX_TOKENS"},
	{why: "a field in another case alone", dialect: chat, body: `{"max_tokens":50,"N":90}`, refused: `"N"`},
	{why: "a field twice", dialect: chat, body: `{"max_tokens":5000,"max_tokens":1}`, refused: "twice"},
	{why: "the same in escapes", dialect: chat, body: `{"max_tokens":5000,"max_token\u0073":1}`, refused: "twice"},
	{why: "a field twice below", dialect: chat, body: `{"stream_options":{"include_usage":true,"include_usage":false}}`, refused: "twice"},
	{why: "more after the object", dialect: chat, body: `{"max_tokens":1}{"max_tokens":5000}`, refused: "more after"},
	{why: "a list", dialect: chat, body: `[]`, refused: "no object"},
	{why: "no JSON", dialect: chat, body: `max_tokens=1`, refused: "JSON"},
	{why: "nothing", dialect: chat, body: ``, refused: "JSON"},
	{why: "no UTF-8", dialect: chat, body: "{\"a\":\"\xff\"}", refused: "UTF-8"},
	{why: "nested too deep", dialect: chat, body: strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300), refused: "200 levels"},
	{why: "a negative limit", dialect: chat, body: `{"max_tokens":-1}`, refused: "whole number"},
	{why: "a limit with decimals", dialect: chat, body: `{"max_tokens":1.5}`, refused: "whole number"},
	{why: "a limit out of range", dialect: chat, body: `{"max_tokens":99999999999999999999}`, refused: "whole number"},
	{why: "a huge limit, and a model without one", dialect: chat, body: `{"max_tokens":9000000000000000000,"n":1000}`, model: func(m *Model) { m.MaxOutput = 0 }, refused: "out of range"},
	{why: "nobody limits the output", dialect: chat, body: `{}`, model: func(m *Model) { m.MaxOutput = 0 }, refused: "maximum of output"},
	{why: "stream is no text", dialect: chat, body: `{"stream":"true"}`, refused: "stream"},
	{why: "nobody learns the cost of a background answer", dialect: responses, body: `{"background":true}`, refused: "background"},

	{why: "tools of the caller have hidden tokens", dialect: chat, body: `{"max_tokens":1,"tools":[{"type":"function","function":{"name":"f"}}]}`, in: -1 + 5000, out: 1},
	{why: "2,048 of them, if nobody says otherwise", dialect: chat, body: `{"max_tokens":1,"functions":[{"name":"f"}]}`, model: func(m *Model) { m.Hidden = 0 }, in: -1 + 2048, out: 1},
	{why: "so has the form of an answer", dialect: chat, body: `{"max_tokens":1,"response_format":{"type":"json_object"}}`, in: -1 + 5000, out: 1},
	{why: "the tools of Anthropic have no type", dialect: messages, body: `{"max_tokens":1,"tools":[{"name":"f","input_schema":{}},{"type":"bash_20250124","name":"bash"}]}`, in: -1 + 5000, out: 1},
	{why: "Gemini has its own form", dialect: gemini, body: `{"tools":[{"functionDeclarations":[]}],"generationConfig":{"maxOutputTokens":1}}`, in: -1 + 5000, out: 1},
	{why: "xAI bills each source", body: `{"max_tokens":1,"search_parameters":{"mode":"on"}}`, refused: "search_parameters"},
	{why: "in another spelling, too", body: `{"max_tokens":1,"searchParameters":{"mode":"on"}}`, refused: "documents it"},
	{why: "OpenRouter bills its searches", body: `{"max_tokens":1,"plugins":[{"id":"web"}]}`, refused: "plugins"},
	{why: "the input may be longer than the prices reach", body: `{"max_tokens":1}`, model: func(m *Model) { m.Long = 10 }, refused: `"long"`},
	{why: "and the tier has no price for that length", body: `{"max_tokens":1,"service_tier":"fast"}`, model: func(m *Model) { m.Long, m.Tiers = 10, map[string]Price{"fast": plainPrice, "long": plainPrice} }, refused: `"fast+long"`},
	{why: "a negative Extra lowers no hold", dialect: responses, body: `{"max_output_tokens":1,"tools":[{"type":"web_search"}]}`, model: func(m *Model) { m.Extra = usd("-0.00007") }, refused: "negative"},
	{why: "a search bills its input again", dialect: responses, body: `{"tools":[{"type":"web_search"}]}`, refused: "a tool of the provider"},
	{why: "so does a tool that nobody knows", dialect: messages, body: `{"tools":[{"type":"computer_toolset_20260801"}]}`, refused: "a tool of the provider"},
	{why: "a tool of the provider beside the caller's", dialect: gemini, body: `{"tools":[{"functionDeclarations":[],"googleSearch":{}}]}`, refused: "a tool of the provider"},
	{why: "servers of MCP", dialect: messages, body: `{"mcp_servers":[]}`, refused: "mcp_servers"},
	{why: "other models in case of a failure", dialect: chat, body: `{"models":["dear"]}`, refused: "models"},
	{why: "an answer with sound", dialect: chat, body: `{"modalities":["text","audio"]}`, refused: "no text"},
	{why: "an answer with pictures", dialect: gemini, body: `{"generationConfig":{"responseModalities":["IMAGE"]}}`, refused: "no text"},
	{why: "an answer of text is one", dialect: gemini, body: `{"generationConfig":{"responseModalities":["TEXT"],"maxOutputTokens":1}}`, in: -1, out: 1},
	{why: "the caller knows the most that searches cost, and Anthropic tells them", dialect: messages, body: `{"max_tokens":1,"tools":[{"type":"web_search_20260209","name":"web_search"}]}`, model: func(m *Model) { m.Extra = usd("0.00007") }, in: -1 + 5000 + 7000, out: 1},
	{why: "OpenAI does not", dialect: responses, body: `{"max_output_tokens":1,"tools":[{"type":"web_search"}]}`, model: func(m *Model) { m.Extra = usd("0.00007") }, in: -1 + 5000 + 7000, out: 1, extra: true},

	{why: "an image has its tokens, and its bytes are no text", dialect: chat, body: `{"max_tokens":1,"messages":[{"content":[{"type":"image_url","image_url":{"url":"` + image(9000) + `"}}]}]}`, in: -1 + 300 - 9022, out: 1},
	{why: "in Responses", dialect: responses, body: `{"max_output_tokens":1,"input":[{"content":[{"type":"input_image","image_url":"` + image(9000) + `"}]}]}`, in: -1 + 300 - 9022, out: 1},
	{why: "in Anthropic, also in the answer of a tool", dialect: messages, body: `{"max_tokens":1,"messages":[{"content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","data":"AAAA"}}]}]}]}`, in: -1 + 300 - 4, out: 1},
	{why: "in Gemini", dialect: gemini, body: `{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}],"generationConfig":{"maxOutputTokens":1}}`, in: -1 + 300 - 4, out: 1},
	{why: "an image hides no others", dialect: chat, body: `{"max_tokens":1,"messages":[{"type":"image","content":[{"type":"image_url","image_url":{"url":"http://x"}},{"type":"image_url"}]}]}`, in: -1 + 900, out: 1},
	{why: "an image of any size fills the window", dialect: chat, body: `{"max_tokens":1,"messages":[{"content":[{"type":"image_url","image_url":{"url":"http://x"}}]}]}`, model: func(m *Model) { m.Image = 0 }, in: 100_000, out: 1},
	{why: "so does a file", dialect: messages, body: `{"max_tokens":1,"messages":[{"content":[{"type":"document","source":{"type":"base64","data":"AAAA"}}]}]}`, in: 100_000, out: 1},
	{why: "and a file of Gemini", dialect: gemini, body: `{"contents":[{"parts":[{"fileData":{"fileUri":"u"}}]}],"generationConfig":{"maxOutputTokens":1}}`, in: 100_000, out: 1},
	{why: "and an earlier answer", dialect: responses, body: `{"max_output_tokens":1,"input":"x","previous_response_id":"r"}`, in: 100_000, out: 1},
	{why: "but not null", dialect: responses, body: `{"max_output_tokens":1,"input":"x","previous_response_id":null}`, in: -1, out: 1},
	{why: "and a stored prompt", dialect: responses, body: `{"max_output_tokens":1,"prompt":{"id":"p"}}`, in: 100_000, out: 1},
	{why: "and content that nobody knows", dialect: chat, body: `{"max_tokens":1,"messages":[{"content":[{"type":"hologram"}]}]}`, in: 100_000, out: 1},
	{why: "nobody can count it without a window", dialect: chat, body: `{"max_tokens":1,"messages":[{"content":[{"type":"hologram"}]}]}`, model: func(m *Model) { m.Window = 0 }, refused: "Window"},
	{why: "sound is dearer than text", dialect: chat, body: `{"max_tokens":1,"messages":[{"content":[{"type":"input_audio"}]}]}`, refused: "input_audio"},
	{why: "so is sound of Gemini", dialect: gemini, body: `{"contents":[{"parts":[{"inline_data":{"mime_type":"audio/mp3"}}]}]}`, refused: "audio"},
	{why: "calls of tools are text", dialect: messages, body: `{"max_tokens":1,"messages":[{"content":[{"type":"tool_use","input":{"type":"hologram"}}]}]}`, in: -1, out: 1},
	{why: "the provider refuses what is longer than the window", dialect: chat, body: `{"max_tokens":1,"x":"` + strings.Repeat("x", 200_000) + `"}`, in: 100_000, out: 1},
	{why: "a tier without a price", dialect: chat, body: `{"max_tokens":1,"service_tier":"priority"}`, refused: "priority"},
	{why: "the standard tier", dialect: chat, body: `{"max_tokens":1,"service_tier":"default"}`, in: -1, out: 1},
	{why: "prices in two currencies are no mistake of the request", dialect: chat, body: `{"max_tokens":1}`, model: func(m *Model) { m.Price.Output.Currency = "EUR:8" }, refused: "EUR"},
}

func TestBound(t *testing.T) {
	for _, c := range bounds {
		m := windowed
		if c.model != nil {
			c.model(&m)
		}
		q, err := parse(c.dialect, []byte(c.body))
		var b bound
		if err == nil {
			b, err = q.bound(&m)
		}
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %+v, %v; want an error with %q", c.why, b, err, c.refused)
			}
			continue
		}
		want := c.in + c.out
		if c.in < 100_000 {
			want += int64(len(c.body)) + 1
		}
		if err != nil || b.cost.Minor != want || b.output != c.out || b.extra != c.extra {
			t.Errorf("%s: %+v, %v; want a cost of %d, %d output, extra %v", c.why, b, err, want, c.out, c.extra)
		}
	}
}

// TestWithUsage: a stream is asked for its usage, and all else stays byte for byte.
func TestWithUsage(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{` {"stream":true, "a":1.0}`, ` {"stream_options":{"include_usage":true},"stream":true, "a":1.0}`},
		{`{"stream":true,"stream_options" : null ,"a":"é"}`, `{"stream":true,"stream_options":{"include_usage":true} ,"a":"é"}`},
		{`{"stream_options":{"include_usage":false,"b":1e3},"stream":true}`, `{"stream_options":{"b":1e3,"include_usage":true},"stream":true}`},
		{`{"stream_options":[],"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
	} {
		q, err := parse(chat, []byte(c.body))
		if err != nil || q.asksUsage() {
			t.Fatalf("%s: asks %v, %v", c.body, q.asksUsage(), err)
		}
		got, err := q.withUsage([]byte(c.body))
		if err != nil || string(got) != c.want {
			t.Errorf("%s becomes\n%s, %v; want\n%s", c.body, got, err, c.want)
		}
		if q, err := parse(chat, got); err != nil || !q.asksUsage() {
			t.Errorf("%s does not ask: %v", got, err)
		}
	}
}

// FuzzBound reads arbitrary requests. A request that is understood is JSON that encoding/json
// understands in the same way, the bound is never below that of the fields, and it never panics.
func FuzzBound(f *testing.F) {
	for _, c := range bounds {
		if len(c.body) < 10_000 {
			f.Add(uint8(c.dialect), []byte(c.body))
		}
	}
	f.Fuzz(func(t *testing.T, d uint8, body []byte) {
		kind := chat + dialect(d)%(gemini-chat+1)
		q, err := parse(kind, body)
		if err != nil {
			return
		}
		var fields map[string]json.RawMessage // a number may be of any size
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Fatalf("%q is understood, and is no JSON: %v", body, err)
		}
		if len(fields) != len(q.fields) {
			t.Errorf("%q has %d fields, and %d are read", body, len(fields), len(q.fields))
		}
		m := windowed
		b, err := q.bound(&m)
		if err != nil {
			return
		}
		if text := int64(len(body)) - q.shape().data; b.cost.Minor < min(text, m.Window)+b.output || b.output < 0 || text < 0 {
			t.Errorf("%q: %+v, %d bytes of text", body, b, text)
		}
		if n, ok := q.fields["max_tokens"].(json.Number); ok && kind == messages {
			if asked, err := n.Int64(); err == nil && b.output < min(asked, m.MaxOutput) {
				t.Errorf("%q: at most %d tokens of output", body, b.output)
			}
		}
		if q.stream && !q.asksUsage() {
			again, err := q.withUsage(body)
			if err != nil {
				t.Fatal(err)
			}
			if q, err := parse(kind, again); err != nil || !q.asksUsage() {
				t.Errorf("%q becomes %q: %v", body, again, err)
			}
		}
	})
}

// FuzzDialect: no path that a server may read as a call is free of charge.
func FuzzDialect(f *testing.F) {
	f.Add("POST", "/v1/chat/completions/../files")
	f.Add("POST", "../files")
	f.Add("POST", "/0../files")
	f.Add("GET", "/v1/models")
	f.Fuzz(func(t *testing.T, method, path string) {
		r, err := http.NewRequest(method, "http://example.com", nil)
		if err != nil {
			return
		}
		r.URL.Path = path
		d, _ := dialectOf(r)
		if d == free && method == http.MethodPost && (slices.Contains(strings.Split(path, "/"), "..") || strings.HasSuffix(path, "completions")) {
			t.Errorf("POST %q is free", path)
		}
	})
}
