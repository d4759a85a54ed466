package llmlimit

import (
	"fmt"
	"strings"
	"testing"
)

const sse = "text/event-stream; charset=utf-8"

// events writes a stream. A text that begins with a name and a blank has that name.
func events(list ...string) string {
	var b strings.Builder
	for _, e := range list {
		if name, data, ok := strings.Cut(e, " "); ok && !strings.ContainsAny(name, `{["`) {
			fmt.Fprintf(&b, "event: %s\n", name)
			e = data
		}
		fmt.Fprintf(&b, "data: %s\n\n", e)
	}
	return b.String()
}

const (
	chatChunk  = `{"object":"chat.completion.chunk","model":"gpt-5-2026","choices":[{"index":0,"delta":{"content":"the \"usage\": {\"prompt_tokens\": 9}"}}],"usage":null}`
	chatUsage  = `{"object":"chat.completion.chunk","model":"gpt-5-2026","service_tier":"default","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":30,"total_tokens":50,"prompt_tokens_details":{"cached_tokens":8,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":5,"rejected_prediction_tokens":3}}}`
	claudeHead = `message_start {"type":"message_start","message":{"type":"message","model":"claude-5","usage":{"input_tokens":20,"cache_read_input_tokens":100,"cache_creation_input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":7},"output_tokens":1,"service_tier":"standard"}}}`
	claudeText = `content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a \"usage\":{\"output_tokens\": 4}"}}`
	claudeTail = `message_delta {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":30}}`
	claudeStop = `message_stop {"type":"message_stop"}`
	respStart  = `response.created {"type":"response.created","response":{"object":"response","status":"in_progress","model":"gpt-5","usage":null}}`
	respUsage  = `{"object":"response","status":"completed","model":"gpt-5","service_tier":"priority","error":null,"usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":8,"cache_write_tokens":5,"cache_write_tokens_details":{"ttl_30m_tokens":1,"ttl_12h_tokens":4}},"output_tokens":30,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":50}}`
	geminiPart = `{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":1},"modelVersion":"gemini-3"}`
	geminiLast = `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":2,"toolUsePromptTokenCount":7,"trafficType":"ON_DEMAND"},"modelVersion":"gemini-3"}`
)

var (
	chatBill   = Usage{Input: 10, CacheRead: 8, CacheWrite: 2, Output: 30, Model: "gpt-5-2026", Tier: standard, Final: true}
	claudeBill = Usage{Input: 20, CacheRead: 100, CacheWrite: 3, CacheWriteLong: 7, Output: 30, Model: "claude-5", Tier: standard, Final: true}
	respBill   = Usage{Input: 7, CacheRead: 8, CacheWrite: 1, CacheWriteLong: 4, Output: 30, Model: "gpt-5", Tier: "priority", Final: true}
	geminiBill = Usage{Input: 13, CacheRead: 4, Output: 5, Model: "gemini-3", Tier: standard, Final: true}
)

func cut(u Usage) Usage { u.Final = false; return u }

var usages = []struct {
	why, kind, body string
	broken          bool // the body does not come to its end
	want            Usage
	none            bool // nothing is told
}{
	{why: "a stream of Chat Completions that was asked for its usage", kind: sse, body: events(chatChunk, chatChunk, chatUsage, "[DONE]"), want: chatBill},
	{why: "the last line has no end", kind: sse, body: strings.TrimSpace(events(chatChunk, chatUsage, "[DONE]")), want: chatBill},
	{why: "lines may end in CRLF, and data may begin without a blank", kind: sse, body: strings.ReplaceAll(strings.ReplaceAll(events(chatUsage, "[DONE]"), "\n", "\r\n"), "data: ", "data:"), want: chatBill},
	{why: "an event may have several data lines", kind: sse, body: "data: {\"choices\":[],\ndata: \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n", want: Usage{Input: 3, Output: 4, Final: true}},
	{why: "some servers end without [DONE]", kind: sse, body: events(chatChunk, chatUsage), want: chatBill},
	{why: "but not where each chunk has the sum so far", kind: sse, body: events(`{"choices":[{"index":0}],"usage":{"prompt_tokens":20,"completion_tokens":3}}`), want: Usage{Input: 20, Output: 3}},
	{why: "the connection breaks after the usage", kind: sse, broken: true, body: events(chatChunk, chatUsage), want: cut(chatBill)},
	{why: "the connection breaks before the usage", kind: sse, broken: true, body: events(chatChunk), none: true},
	{why: "nobody has asked for the usage", kind: sse, body: events(chatChunk, "[DONE]"), none: true},
	{why: "an error follows the usage", kind: sse, body: events(chatUsage, `{"error":{"message":"m","type":"server_error"}}`), want: cut(chatBill)},
	{why: "a whole chat completion", body: `{"object":"chat.completion","model":"gpt-5-2026","service_tier":"default","choices":[{"message":{"content":"x"}}],"usage":` + strings.TrimSuffix(strings.SplitN(chatUsage, `"usage":`, 2)[1], "}") + "}", want: chatBill},
	{why: "embeddings have no output", body: `{"object":"list","data":[],"usage":{"prompt_tokens":8,"total_tokens":8}}`, want: Usage{Input: 8, Final: true}},
	{why: "xAI counts reasoning in the total alone", body: `{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}}`, want: Usage{Input: 32, Output: 103, Final: true}},
	{why: "audio has a price of its own", body: `{"usage":{"prompt_tokens":8,"completion_tokens":5,"completion_tokens_details":{"audio_tokens":4}}}`, want: Usage{Input: 8, Output: 5, Final: true, Odd: true}},
	{why: "more of the cache than of the prompt", body: `{"usage":{"prompt_tokens":8,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":9}}}`, want: Usage{CacheRead: 9, Output: 5, Final: true, Odd: true}},
	{why: "a negative figure", body: `{"usage":{"prompt_tokens":8,"completion_tokens":-5}}`, none: true},
	{why: "a figure out of range", body: `{"usage":{"prompt_tokens":8,"completion_tokens":9223372036854775807}}`, none: true},
	{why: "the output is not told", body: `{"usage":{"prompt_tokens":8,"total_tokens":13}}`, want: Usage{Input: 8}},

	{why: "a stream of Responses", kind: sse, body: events(respStart, `response.output_text.delta {"type":"response.output_text.delta","delta":"\"usage\": {\"input_tokens\": 9}"}`, `response.completed {"type":"response.completed","response":`+respUsage+`}`), want: respBill},
	{why: "an incomplete response is billed", kind: sse, body: events(respStart, `response.incomplete {"type":"response.incomplete","response":`+strings.Replace(respUsage, "completed", "incomplete", 1)+`}`), want: respBill},
	{why: "so is one that has failed, if it tells a usage", kind: sse, body: events(respStart, `response.failed {"type":"response.failed","response":`+strings.Replace(respUsage, `"error":null`, `"error":{"message":"m","type":"t"}`, 1)+`}`), want: respBill},
	{why: "a response that has failed without a usage", kind: sse, body: events(respStart, `response.failed {"type":"response.failed","response":{"status":"failed","usage":null}}`), none: true},
	{why: "no event has ended the response", kind: sse, body: events(respStart, `response.in_progress {"type":"response.in_progress","response":`+respUsage+`}`), want: cut(respBill)},
	{why: "a whole response", body: respUsage, want: respBill},
	{why: "a background answer has no usage yet", body: `{"object":"response","status":"queued","usage":null}`, none: true},
	{why: "a response that goes on", body: strings.Replace(respUsage, "completed", "in_progress", 1), want: cut(respBill)},
	{why: "searches are billed beside tokens", body: strings.Replace(respUsage, `"error"`, `"tool_usage":{"web_search":{"num_requests":3},"image_gen":{"total_tokens":0}},"error"`, 1), want: func() Usage { u := respBill; u.Searches = 3; return u }()},
	{why: "the tokens of pictures have a price of their own", body: strings.Replace(respUsage, `"error"`, `"tool_usage":{"image_gen":{"total_tokens":900}},"error"`, 1), want: func() Usage { u := respBill; u.Odd = true; return u }()},

	{why: "a stream of Anthropic: message_delta overwrites the output", kind: sse, body: events(claudeHead, `ping {"type":"ping"}`, claudeText, claudeTail, claudeStop), want: claudeBill},
	{why: "the events need no names", kind: sse, body: strings.ReplaceAll(events(claudeHead, claudeTail, claudeStop), "event: ", ": "), want: claudeBill},
	{why: "message_delta overwrites input and cache, too, where present", kind: sse, body: events(claudeHead, `message_delta {"type":"message_delta","usage":{"input_tokens":40,"cache_read_input_tokens":200,"output_tokens":30}}`, claudeStop), want: func() Usage { u := claudeBill; u.Input, u.CacheRead = 40, 200; return u }()},
	{why: "the first figure of the output is no bill", kind: sse, body: events(claudeHead, claudeStop), want: func() Usage { u := cut(claudeBill); u.Output = 1; return u }()},
	{why: "the stream breaks off", kind: sse, broken: true, body: events(claudeHead, claudeText), want: func() Usage { u := cut(claudeBill); u.Output = 1; return u }()},
	{why: "an end without message_stop is none", kind: sse, body: events(claudeHead, claudeTail), want: cut(claudeBill)},
	{why: "an error ends the stream", kind: sse, body: events(claudeHead, claudeTail, `error {"type":"error","error":{"type":"overloaded_error","message":"m"}}`, claudeStop), want: cut(claudeBill)},
	{why: "an event that cannot be read may have told more", kind: sse, body: events(claudeHead, claudeTail, `message_delta {"type":"message_delta","usage":{"output_tokens":"31"}}`, claudeStop), want: cut(claudeBill)},
	{why: "a whole message", body: `{"type":"message","model":"claude-5","usage":{"input_tokens":20,"cache_read_input_tokens":100,"cache_creation_input_tokens":10,"cache_creation":{"ephemeral_1h_input_tokens":7},"output_tokens":30,"service_tier":"standard","server_tool_use":null}}`, want: claudeBill},
	{why: "the speed and the region change the price", body: `{"type":"message","usage":{"input_tokens":5,"output_tokens":9,"service_tier":"standard","speed":"fast","inference_geo":"us","server_tool_use":{"web_search_requests":2}}}`, want: Usage{Input: 5, Output: 9, Searches: 2, Tier: "fast+us", Final: true}},
	{why: "a compaction is not in the sums", body: `{"type":"message","usage":{"input_tokens":5,"output_tokens":9,"iterations":[{"type":"compaction","input_tokens":9000},{"type":"message"}]}}`, want: Usage{Input: 5, Output: 9, Final: true, Odd: true}},
	{why: "iterations of messages are", body: `{"type":"message","usage":{"input_tokens":5,"output_tokens":9,"iterations":[{"type":"message","input_tokens":5}]}}`, want: Usage{Input: 5, Output: 9, Final: true}},

	{why: "a stream of Gemini: thoughts and prompts of tools stand outside", kind: sse, body: events(geminiPart, geminiPart, geminiLast), want: geminiBill},
	{why: "the last chunk wins", kind: sse, body: events(geminiLast, geminiPart), want: Usage{Input: 6, CacheRead: 4, Output: 1, Model: "gemini-3"}},
	{why: "a stream without a reason for its end was cut off", kind: sse, body: events(geminiPart), want: Usage{Input: 6, CacheRead: 4, Output: 1, Model: "gemini-3"}},
	{why: "a prompt that is refused ends", kind: sse, body: events(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":10}}`), want: Usage{Input: 10, Final: true}},
	{why: "without alt=sse a stream is a list", body: "[" + geminiPart + ",\n" + geminiLast + "]", want: geminiBill},
	{why: "a list that is cut off", body: "[" + geminiPart + ",\n", none: true},
	{why: "a whole answer of Gemini", body: geminiLast, want: geminiBill},
	{why: "sound is dearer than text", body: `{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":3,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":9}]}}`, want: Usage{Input: 10, Output: 3, Final: true, Odd: true}},
	{why: "so is a picture", body: `{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":3,"candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":3}]}}`, want: Usage{Input: 10, Output: 3, Final: true, Odd: true}},

	{why: "no JSON", body: "<html>", none: true},
	{why: "an empty body", none: true},
	{why: "nothing is read after an event that cannot be read, in whatever parts it comes", kind: sse, body: "data: {s\n\n" + events(chatUsage), none: true},
	{why: "JSON that is cut off", broken: true, body: respUsage[:len(respUsage)-1], none: true},
	{why: "a whole answer whose end nobody has read", broken: true, body: respUsage, want: respBill},
	{why: "an error with a text in the place of an object", body: `{"error":"no","message":"no"}`, none: true},
	{why: "a usage in an unknown form", body: `{"usage":{"seconds":12.5}}`, none: true},
}

func TestUsage(t *testing.T) {
	for _, c := range usages {
		for _, size := range []int{1 << 20, 1, 7} {
			r := newReader(c.kind)
			for rest := []byte(c.body); len(rest) > 0; {
				n := min(size, len(rest))
				if k, err := r.Write(rest[:n]); k != n || err != nil {
					t.Fatalf("Write: %d of %d, %v", k, n, err)
				}
				rest = rest[n:]
			}
			got, told := r.result(!c.broken)
			if got != c.want || told == c.none {
				t.Errorf("%s, %d bytes at once:\n%+v, told %v; want\n%+v", c.why, size, got, told, c.want)
			}
		}
	}
}

// TestRefused: a server error of the provider is in the form of its dialect.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		dialect dialect
		body    string
		want    bool
	}{
		{chat, `{"error":{"message":"m","type":"server_error","code":null}}`, true},
		{responses, `{"error":{"message":"m","type":"server_error"}}`, true},
		{messages, `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, true},
		{gemini, `{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}`, true},
		{messages, `{"error":{"message":"m","type":"server_error"}}`, false},
		{gemini, `{"error":{"message":"m","type":"server_error"}}`, false},
		{chat, `{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}`, false},
		{chat, `{"error":"m"}`, false},
		{chat, `<html>bad gateway</html>`, false},
		{chat, ``, false},
	} {
		r := newReader("application/json")
		_, _ = r.Write([]byte(c.body))
		if _, told := r.result(true); told || r.refused(c.dialect) != c.want {
			t.Errorf("%d %s: refused %v, usage told %v; want refused %v", c.dialect, c.body, r.refused(c.dialect), told, c.want)
		}
	}
}

// TestLongAnswer sees that an answer above the bound of the reader tells nothing, and is not kept.
func TestLongAnswer(t *testing.T) {
	for _, kind := range []string{sse, ""} {
		r := newReader(kind)
		_, _ = r.Write([]byte(events(chatUsage)))
		part := []byte(strings.Repeat("x", 16<<20))
		for range maxBody>>24 + 1 {
			_, _ = r.Write(part)
		}
		_, _ = r.Write([]byte("\n\ndata: [DONE]\n\n"))
		if u, _ := r.result(true); u.Final || len(r.buf)+len(r.data) > 0 {
			t.Errorf("%q: %+v, %d bytes are kept", kind, u, len(r.buf)+len(r.data))
		}
	}
}

// FuzzUsage reads arbitrary bodies, at once and in two parts. Both tell the same, and no usage that
// is told is negative or out of range.
func FuzzUsage(f *testing.F) {
	for _, c := range usages {
		f.Add(c.kind == sse, []byte(c.body), 7, !c.broken)
	}
	f.Fuzz(func(t *testing.T, stream bool, body []byte, at int, eof bool) {
		at = max(0, min(at, len(body)))
		whole, parts := &reader{stream: stream}, &reader{stream: stream}
		_, _ = whole.Write(body)
		_, _ = parts.Write(body[:at])
		_, _ = parts.Write(body[at:])
		u, told := whole.result(eof)
		u2, told2 := parts.result(eof)
		if u != u2 || told != told2 {
			t.Errorf("at once %+v, %v; in parts %+v, %v", u, told, u2, told2)
		}
		if told && !u.valid() || !told && u != (Usage{}) {
			t.Errorf("told %v: %+v", told, u)
		}
	})
}
