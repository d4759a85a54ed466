package llm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/brimgo/brim/lab/internal/child"
	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/llmlimit"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// works are the processes of TestCPU: an API that streams, a plain proxy, and one with the
// Transport.
var works = map[string]io.Closer{"upstream": &server{}, "plain": &server{}, "brim": &server{brim: true}}

type server struct {
	brim bool
	l    net.Listener
}

// Close ends the server.
func (s *server) Close() error { return s.l.Close() }

// Addr tells the address of the server.
func (s *server) Addr(_ int, addr *string) error {
	*addr = s.l.Addr().String()
	return nil
}

// Open serves an API, or a proxy before the one at upstream.
func (s *server) Open(upstream string, _ *int) (err error) {
	if s.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	h := http.Handler(http.HandlerFunc(streamMegabyte))
	if upstream != "" {
		u := &url.URL{Scheme: "http", Host: upstream}
		proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(u)
			p.Out = p.Out.WithContext(llmlimit.For(p.Out.Context(), "key:1"))
		}}
		if s.brim {
			b, err := spend.New(context.Background(), memledger.New(nil), spend.Budget{
				Name: "keys", Currency: unit, Rules: []spend.Rule{spend.Lifetime("all", spend.Money{Minor: 1 << 60, Currency: unit})},
			}, nil)
			if err != nil {
				return err
			}
			price := llmlimit.Price{Input: usd("3"), Output: usd("15")}
			proxy.Transport = llmlimit.New(b, func(string) (llmlimit.Model, bool) {
				return llmlimit.Model{Price: price, Window: 1 << 20, MaxOutput: 1 << 20}, true
			}, &llmlimit.Options{Drain: true})
		}
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Otherwise the server may close the body of the request at the first write of the
			// answer, while the plain proxy still looks for its end: the answer then breaks off.
			_ = http.NewResponseController(w).EnableFullDuplex()
			proxy.ServeHTTP(w, r)
		})
	}
	go func() { _ = http.Serve(s.l, h) }()
	return nil
}

// CPU tells the nanoseconds that the process has computed.
func (s *server) CPU(_ int, ns *int64) error {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	*ns = u.Utime.Nano() + u.Stime.Nano()
	return err
}

// dialects are the streams of TestCPU: an event with a piece of text, the last events, and the
// path.
var dialects = []struct{ name, path, event, last string }{
	{
		"chat", "/v1/chat/completions",
		`data: {"id":"chatcmpl-9x8y7z6w5v4u3t2s1r0q","object":"chat.completion.chunk","created":1764000000,"model":"large","service_tier":"default","system_fingerprint":"fp_1a2b3c4d5e","choices":[{"index":0,"delta":{"content":"tok "},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"a8Fq2"}` + "\n\n",
		`data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}` + "\n\ndata: [DONE]\n\n",
	},
	{
		"responses", "/v1/responses",
		"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","sequence_number":7,"item_id":"msg_0a1b2c3d4e5f60718293a4b5c6d7e8f9","output_index":0,"content_index":0,"delta":"tok ","logprobs":[],"obfuscation":"bq81xyzz"}` + "\n\n",
		`data: {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":20,"output_tokens":5,"total_tokens":25}}}` + "\n\n",
	},
	{
		"messages", "/v1/messages",
		"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"tok "}}` + "\n\n",
		`data: {"type":"message_delta","usage":{"input_tokens":20,"output_tokens":5}}` + "\n\nevent: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n",
	},
	{
		"gemini", "/v1beta/models/large:streamGenerateContent",
		`data: {"candidates":[{"content":{"parts":[{"text":"tok "}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":12,"candidatesTokenCount":7,"totalTokenCount":19,"promptTokensDetails":[{"modality":"TEXT","tokenCount":12}]},"modelVersion":"gemini-3-flash","responseId":"abcdef"}` + "\n\n",
		`data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":12,"candidatesTokenCount":7}}` + "\n\n",
	},
}

// streamMegabyte streams a megabyte in the dialect of the path, each event by itself or in writes
// of 16 KB.
func streamMegabyte(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range dialects {
		if r.URL.Path != d.path {
			continue
		}
		block := strings.Repeat(d.event, max(1, 16<<10/len(d.event)))
		flush := http.NewResponseController(w).Flush
		if r.Header.Get("X-Each") != "" {
			block = d.event
		} else {
			flush = func() error { return nil }
		}
		for n := 0; n < 1<<20; n += len(block) {
			_, _ = io.WriteString(w, block)
			_ = flush()
		}
		_, _ = io.WriteString(w, d.last)
	}
}

// TestCPU measures the CPU of a proxy for a streamed megabyte, with the Transport and without it,
// in turns.
func TestCPU(t *testing.T) {
	rounds, calls := 3, 8
	if harness.Night() {
		rounds, calls = 9, 24
	}
	start := func(work, upstream string) (p *child.Process, addr string) {
		p, err := child.Start(work, upstream)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		if err := p.Call("Addr", 0, &addr); err != nil {
			t.Fatal(err)
		}
		return p, addr
	}
	_, up := start("upstream", "")
	plain, plainAddr := start("plain", up)
	brim, brimAddr := start("brim", up)
	cpu := func(p *child.Process) (ns int64) {
		if err := p.Call("CPU", 0, &ns); err != nil {
			t.Fatal(err)
		}
		return ns
	}
	for _, each := range []bool{true, false} {
		for _, d := range dialects {
			run := func(p *child.Process, addr string) float64 {
				before := cpu(p)
				var total, failed atomic.Int64
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						for range calls / 4 {
							n, err := stream(addr, d.path, each)
							if err != nil {
								t.Errorf("%s, each event flushed %v: %v after %d bytes", d.name, each, err, n)
								failed.Add(1)
								return
							}
							total.Add(n)
						}
					})
				}
				if all.Wait(); failed.Load() > 0 {
					t.FailNow()
				}
				return float64(cpu(p)-before) / 1e6 / (float64(total.Load()) / (1 << 20))
			}
			run(plain, plainAddr)
			run(brim, brimAddr)
			var without, with, ratio []float64
			for range rounds {
				p, b := run(plain, plainAddr), run(brim, brimAddr)
				without, with, ratio = append(without, p), append(with, b), append(ratio, b/p)
			}
			slices.Sort(without)
			slices.Sort(with)
			slices.Sort(ratio)
			mid := rounds / 2
			t.Logf("%-9s each event flushed %-5v: %.1f ms/MB plain, %.1f with the Transport, ratio %.2f (%.2f to %.2f)",
				d.name, each, without[mid], with[mid], ratio[mid], ratio[0], ratio[rounds-1])
			most := map[bool]float64{true: 1.3, false: 1.5}[each]
			if !harness.Night() {
				most *= 2 // three rounds tell little
			}
			if ratio[mid] > most {
				t.Errorf("%s, each event flushed %v: the ratio is %.2f; want at most %.1f", d.name, each, ratio[mid], most)
			}
		}
	}
}

// stream makes a call through a proxy, and returns the bytes of its answer.
func stream(addr, path string, each bool) (int64, error) {
	body := `{"model":"large","stream":true,"max_tokens":100,"stream_options":{"include_usage":true}}`
	if !strings.HasSuffix(path, "completions") {
		body = `{"model":"large"}`
	}
	r, err := http.NewRequest(http.MethodPost, "http://"+addr+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	if each {
		r.Header.Set("X-Each", "1")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && (resp.StatusCode != http.StatusOK || n < 1<<20) {
		err = fmt.Errorf("status %d, %d bytes", resp.StatusCode, n)
	}
	return n, err
}
