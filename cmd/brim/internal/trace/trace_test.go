package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
)

// all reads every line.
func all(t testing.TB, in io.Reader, o Options) (requests []simulate.Arrival, bad []*simulate.LineError, err error) {
	t.Helper()
	r, err := NewReader(in, o)
	if err != nil {
		return nil, nil, err
	}
	for {
		req, err := r.Next()
		e := (*simulate.LineError)(nil)
		switch {
		case err == io.EOF:
			return requests, bad, nil
		case errors.As(err, &e):
			bad = append(bad, e)
		case err != nil:
			return requests, bad, err
		default:
			requests = append(requests, req)
		}
	}
}

const (
	common   = `h.example - alice [01/Aug/1995:02:00:04 -0400] "GET /a/b?q=1 HTTP/1.0" 200 8677`
	combined = `::1 id bob [10/Oct/2000:13:55:36 +0000] "POST /form HTTP/1.1" 404 - "http://ref/" "Agent \"x\" 1.0"`
)

// nginx is a line in the combined format with $request_time.
const nginx = combined + ` 0.125`

func micros(s string) int64 {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t.UnixMicro()
}

func TestLines(t *testing.T) {
	at, later := micros("1995-08-01T06:00:04Z"), micros("2000-10-10T13:55:36Z")
	for _, tc := range []struct {
		name, why, text string
		options         Options
		want            simulate.Arrival // without the number of the line
		bad             string           // a part of the reason if the line is not a request
	}{
		{name: "common", why: "the host is the key and the zone counts", text: common, want: simulate.Arrival{Time: at, Key: "h.example", Cost: 1}},
		{name: "combined", text: combined, want: simulate.Arrival{Time: later, Key: "::1", Cost: 1}},
		{name: "user", text: common, options: Options{Key: "user"}, want: simulate.Arrival{Time: at, Key: "alice", Cost: 1}},
		{name: "path", why: "the query would make every request a key", text: common, options: Options{Key: "path"}, want: simulate.Arrival{Time: at, Key: "/a/b", Cost: 1}},
		{name: "method", text: combined, options: Options{Key: "method"}, want: simulate.Arrival{Time: later, Key: "POST", Cost: 1}},
		{name: "status", text: combined, options: Options{Key: "status"}, want: simulate.Arrival{Time: later, Key: "404", Cost: 1}},
		{name: "referer", text: combined, options: Options{Key: "referer"}, want: simulate.Arrival{Time: later, Key: "http://ref/", Cost: 1}},
		{name: "agent", why: "an escaped quote does not end the field", text: combined, options: Options{Key: "agent"}, want: simulate.Arrival{Time: later, Key: `Agent \"x\" 1.0`, Cost: 1}},
		{name: "no agent", why: "the common format has no agent", text: common, options: Options{Key: "agent"}, bad: "no agent"},
		{name: "bytes", text: common, options: Options{Cost: Cost{Bytes: true}}, want: simulate.Arrival{Time: at, Key: "h.example", Cost: 8677}},
		{name: "no bytes", why: "a - stands for an empty response", text: combined, options: Options{Cost: Cost{Bytes: true}}, want: simulate.Arrival{Time: later, Key: "::1"}},
		{name: "too many bytes", text: strings.Replace(common, "8677", "99999999999999999999", 1), options: Options{Cost: Cost{Bytes: true}}, bad: "cost"},
		{name: "units", text: common, options: Options{Cost: Cost{Units: 2.5}}, want: simulate.Arrival{Time: at, Key: "h.example", Cost: 2.5}},
		{name: "quote in a request", why: "old servers do not escape quotes", text: strings.Replace(common, "/a/b?q=1", `/a" 1 b`, 1), want: simulate.Arrival{Time: at, Key: "h.example", Cost: 1}},
		{name: "no request", why: "a connection without a request line counts as a request", text: `h - - [01/Aug/1995:02:00:04 -0400] "-" 408 -`, want: simulate.Arrival{Time: at, Key: "h", Cost: 1}},
		{name: "no path", text: `h - - [01/Aug/1995:02:00:04 -0400] "-" 408 -`, options: Options{Key: "path"}, bad: "no path"},
		{name: "virtual host", why: "shifted fields must not pass for other fields", text: "www:80 " + common, bad: "begin with host"},
		{name: "short", text: "h - -", bad: "begin with host"},
		{name: "no time", text: `h - - [01/Aug/1995:02:00:04 -0400 "GET / HTTP/1.0" 200 1`, bad: "[time]"},
		{name: "bad time", text: strings.Replace(common, "Aug", "Abc", 1), bad: "time is not written"},
		{name: "31 June", text: strings.Replace(common, "01/Aug", "31/Jun", 1), bad: "time is not written"},
		{name: "no status", text: `h - - [01/Aug/1995:02:00:04 -0400] "GET / HTTP/1.0" abc 1`, bad: "status"},
		{name: "no size", text: `h - - [01/Aug/1995:02:00:04 -0400] "GET / HTTP/1.0" 200`, bad: "status"},
		{name: "open quote", text: `h - - [01/Aug/1995:02:00:04 -0400] "GET / HTTP/1.0 200 1`, bad: "status"},
		{name: "start", why: "the time of nginx is that of the response", text: nginx, options: Options{Time: Start}, want: simulate.Arrival{Time: later - 125_000, Key: "::1", Cost: 1}},
		{name: "end", text: nginx, want: simulate.Arrival{Time: later, Key: "::1", Cost: 1}},
		{name: "named start", text: combined + ` "1.2.3.4" id=7 rt=1.5 uct="0.1"`, options: Options{Time: Start}, want: simulate.Arrival{Time: later - 1_500_000, Key: "::1", Cost: 1}},
		{name: "common start", text: common + ` 2.000`, options: Options{Time: Start}, want: simulate.Arrival{Time: at - 2_000_000, Key: "h.example", Cost: 1}},
		{name: "no start", text: combined + ` other=1.5 7 .`, options: Options{Time: Start}, bad: "$request_time"},
		{name: "html", text: "<!DOCTYPE html>", bad: "begin with host"},

		{name: "json", text: `{"time":"2000-10-10T13:55:36.25Z","key":"k","cost":3}`, want: simulate.Arrival{Time: later + 250000, Key: "k", Cost: 3}},
		{name: "json numbers", why: "a key may be a number, and a time may be seconds", text: `{"cost":"2","key":42,"time":971186136.000001}`, want: simulate.Arrival{Time: later + 1, Key: "42", Cost: 2}},
		{name: "json without cost", text: `{"time":0,"key":"k"}`, want: simulate.Arrival{Key: "k", Cost: 1}},
		{name: "json other key", text: `{"time":0,"key":"k","card":"c"}`, options: Options{Key: "card"}, want: simulate.Arrival{Key: "c", Cost: 1}},
		{name: "json fixed cost", text: `{"time":0,"key":"k","cost":9}`, options: Options{Cost: Cost{Units: 2}}, want: simulate.Arrival{Key: "k", Cost: 2}},
		{name: "json null", text: `{"time":null,"key":"k"}`, bad: "no time"},
		{name: "json no key", text: `{"time":1}`, bad: "no key"},
		{name: "json bad cost", text: `{"time":1,"key":"k","cost":[1]}`, bad: "cost"},
		{name: "json negative cost", text: `{"time":1,"key":"k","cost":-1}`, bad: "cost"},
		{name: "json dotted", text: `{"request":{"ip":"k","at":{"t":1}}}`, options: Options{Key: "request.ip", Time: "request.at.t"}, want: simulate.Arrival{Time: 1e6, Key: "k", Cost: 1}},
		{name: "json name with a dot", why: "a member of that very name comes first", text: `{"t":1,"a.b":"k","a":{"b":"no"}}`, options: Options{Key: "a.b", Time: "t"}, want: simulate.Arrival{Time: 1e6, Key: "k", Cost: 1}},
		{name: "json dot within a name", text: `{"t":1,"a.b":{"c":"k"},"a":{"x":1}}`, options: Options{Key: "a.b.c", Time: "t"}, want: simulate.Arrival{Time: 1e6, Key: "k", Cost: 1}},
		{name: "json no member", text: `{"time":1,"a":{"c":1}}`, options: Options{Key: "a.b"}, bad: "no a.b"},
		{name: "json no object", text: `{"time":1,"a":"x"}`, options: Options{Key: "a.b"}, bad: "no a.b"},
		{name: "json other time", text: `{"time":"no","ts":1700000000123,"key":"k"}`, options: Options{Time: "ts"}, want: simulate.Arrival{Time: 1700000000123000, Key: "k", Cost: 1}},
		{name: "json bad cost that does not count", text: `{"time":1,"key":"k","cost":{}}`, options: Options{Cost: Cost{Units: 2}}, want: simulate.Arrival{Time: 1e6, Key: "k", Cost: 2}},
		{name: "json two objects", text: `{"time":1,"key":"k"}{}`, bad: "one JSON object"},
		{name: "json cut", text: `{"time":1,"key":"k"`, bad: "one JSON object"},
		{name: "json Latin-1", why: "replaced bytes would merge keys", text: "{\"time\":1,\"key\":\"\xe9\"}", bad: "UTF-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			requests, bad, err := all(t, strings.NewReader(tc.text), tc.options)
			if err != nil {
				t.Fatal(err)
			}
			if tc.bad != "" {
				if len(requests) != 0 || len(bad) != 1 || !strings.Contains(bad[0].Why, tc.bad) {
					t.Errorf("%s: got %v and %v; want a line error with %q", tc.why, requests, bad, tc.bad)
				}
				return
			}
			tc.want.Line = 1
			if len(bad) != 0 || len(requests) != 1 || requests[0] != tc.want {
				t.Errorf("%s: got %v and %v; want %v", tc.why, requests, bad, tc.want)
			}
		})
	}
}

// row is an arrival by its fields in their order.
func row(line int, micros int64, key string, cost float64) simulate.Arrival {
	return simulate.Arrival{Line: line, Time: micros, Key: key, Cost: cost}
}

func TestCSV(t *testing.T) {
	for _, tc := range []struct {
		name, why, text string
		options         Options
		want            []simulate.Arrival
		bad             int // lines
		err             error
	}{
		{name: "plain", text: "time,key,cost\n1,a,2\n", want: []simulate.Arrival{row(2, 1e6, "a", 2)}},
		{name: "order", why: "columns stand in any order, and further columns are ignored", text: "cost,x,key,time\n2,?,a,1.5\n,,b,2\n", want: []simulate.Arrival{row(2, 1500000, "a", 2), row(3, 2e6, "b", 1)}},
		{name: "header", why: "case, blanks, a byte order mark and Windows line ends do not matter", text: "\xef\xbb\xbfTime, KEY\r\n1,a\r\n", want: []simulate.Arrival{row(2, 1e6, "a", 1)}},
		{name: "quotes", text: "time,key\n1,\"a,\"\"b\"\n\"2\", \"c\"\n", want: []simulate.Arrival{row(2, 1e6, `a,"b`, 1), row(3, 2e6, "c", 1)}},
		{name: "widths", why: "a row whose number of columns differs from the header is not a request", text: "time,key\n1\n1,a,b\n2,c\n", want: []simulate.Arrival{row(4, 2e6, "c", 1)}, bad: 2},
		{name: "open quote", text: "time,key\n1,\"a\n2,b\n3,\"c\"d\n", want: []simulate.Arrival{row(3, 2e6, "b", 1)}, bad: 2},
		{name: "bad values", text: "time,key,cost\nx,a,1\n1,a,x\n1,a,NaN\n1,a,-1\n1,\xff,1\n", bad: 5},
		{name: "other time", why: "a column time may be the duration", text: "time,key,ts\nx,a,1700000000123\n", options: Options{Time: "TS"}, want: []simulate.Arrival{row(2, 1700000000123e3, "a", 1)}},
		{name: "late header", why: "a line in front is not a request, and the header tells the format", text: "exported\ntime,key\n1,a\n", want: []simulate.Arrival{row(3, 1e6, "a", 1)}, bad: 1},
		{name: "other key", text: "time,key,card\n1,a,b\n", options: Options{Key: "card"}, want: []simulate.Arrival{row(2, 1e6, "b", 1)}},
		{name: "no key", text: "time,cost\n1,1\n", err: ErrFormat},
		{name: "no such key", why: "the wanted key is wrong, not the file", text: "time,key\n1,1\n", options: Options{Key: "card"}, err: ErrField},
		{name: "bytes", text: "time,key\n1,1\n", options: Options{Cost: Cost{Bytes: true}}, err: ErrField},
		{name: "blank lines", text: "\n\ntime,key\n\n1,a\n\n", want: []simulate.Arrival{row(5, 1e6, "a", 1)}},
		{name: "no newline at the end", text: "time,key\n1,a", want: []simulate.Arrival{row(2, 1e6, "a", 1)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, bad, err := all(t, strings.NewReader(tc.text), tc.options)
			if !errors.Is(err, tc.err) || (tc.err == nil) != (err == nil) {
				t.Fatalf("%s: error %v; want %v", tc.why, err, tc.err)
			}
			if len(got) != len(tc.want) || len(bad) != tc.bad {
				t.Fatalf("%s: got %v and %v; want %v and %d line errors", tc.why, got, bad, tc.want, tc.bad)
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Errorf("%s: got %v; want %v", tc.why, got[i], tc.want[i])
				}
			}
		})
	}
}

func TestTimes(t *testing.T) {
	for _, tc := range []struct {
		text, unit string
		want       int64
		ok         bool
	}{
		{"0", "seconds", 0, true},
		{"1700000000.123456", "seconds", 1700000000123456, true},
		{"1700000000.1234569", "seconds", 1700000000123456, true}, // rounding could lead into the future
		{"-0.5", "seconds", -500000, true},
		{"8.07256804e8", "seconds", 807256804000000, true},
		{"99999999999", "seconds", 99999999999000000, true},
		{"100000000000", "milliseconds", 100000000000000, true},
		{"1700000000123", "milliseconds", 1700000000123000, true},
		{"1700000000123.4567", "milliseconds", 1700000000123456, true},
		{"-1700000000123.4567", "milliseconds", -1700000000123456, true},
		{"1.700000000123e12", "milliseconds", 1700000000123000, true},
		{"1700000000123456", "microseconds", 1700000000123456, true},
		{"1700000000123456.7", "microseconds", 1700000000123456, true},
		{"1700000000123456789", "nanoseconds", 1700000000123456, true},
		{"-1700000000123456789", "nanoseconds", -1700000000123456, true},
		{"1995-08-01T06:00:04Z", "", 807256804000000, true},
		{"1995-08-01T02:00:04.5-04:00", "", 807256804500000, true},
		{"-99999999999", "", 0, false}, // before the year 0
		{"", "", 0, false},
		{"now", "", 0, false},
		{"NaN", "", 0, false},
		{"-Inf", "", 0, false},
		{"1e300", "", 0, false},
		{"99999999999999999999", "", 0, false},
		{"1995-08-01 06:00:04", "", 0, false},
		{"10:00", "", 0, false},
	} {
		var r Reader
		got, err := r.times.parse(tc.text)
		unit := r.Epoch()
		if (err == nil) != tc.ok || got != tc.want || unit != tc.unit {
			t.Errorf("%q: got %d in %q and %v; want %d in %q, ok %v", tc.text, got, unit, err, tc.want, tc.unit, tc.ok)
		}
	}
}

// The first time sets the unit. Times that count from a late start must not change it.
func TestFirstTimeSetsTheUnit(t *testing.T) {
	requests, bad, err := all(t, strings.NewReader("time,key\n1700000000123,a\n5,a\n99999999999999,a\n1700000000123456,a\n"), Options{})
	want := []simulate.Arrival{row(2, 1700000000123e3, "a", 1), row(3, 5e3, "a", 1), row(4, 99999999999999e3, "a", 1)}
	if err != nil || !slices.Equal(requests, want) || len(bad) != 1 || !strings.Contains(bad[0].Why, "too large for milliseconds") {
		t.Errorf("got %v, %v, %v; want %v and a line error", requests, bad, err, want)
	}
	requests, bad, err = all(t, strings.NewReader("time,key\n0,a\n1700000000123,a\n"), Options{})
	if err != nil || len(requests) != 1 || len(bad) != 1 || !strings.Contains(bad[0].Why, "too large for seconds") {
		t.Errorf("got %v, %v, %v; want a line error for milliseconds among seconds", requests, bad, err)
	}
}

func TestParseCost(t *testing.T) {
	for text, want := range map[string]Cost{"1": {Units: 1}, "2.5": {Units: 2.5}, "bytes": {Bytes: true}} {
		if got, err := ParseCost(text); err != nil || got != want {
			t.Errorf("%q: got %v and %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "NaN", "inf", "byte", "1e300"} {
		if got, err := ParseCost(text); err == nil {
			t.Errorf("%q: got %v; want an error", text, got)
		}
	}
}

func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for name, in := range map[string]string{
		"first":  long + "yy\n" + common + "\n" + common,
		"middle": common + "\n" + long + "yy\n" + common + "\n",
		"last":   common + "\n" + common + "\n" + long + "yy",
	} {
		requests, bad, err := all(t, strings.NewReader(in), Options{})
		if err != nil || len(requests) != 2 || len(bad) != 1 || !strings.Contains(bad[0].Why, "longer") {
			t.Errorf("%s: %d requests, %v, %v; a line that is too long is passed over", name, len(requests), bad, err)
		}
	}
	// A line longer than the reader's buffer is a line, too.
	agent := strings.Replace(combined, "Agent", long[:maxLine/2], 1)
	requests, bad, err := all(t, strings.NewReader(agent+"\n"+common), Options{})
	if err != nil || len(requests) != 2 || len(bad) != 0 {
		t.Errorf("%d requests, %v, %v; a line of half the limit is read", len(requests), bad, err)
	}
}

func pack(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGzip(t *testing.T) {
	whole := pack(t, strings.Repeat(common+"\n", 1000))
	requests, bad, err := all(t, bytes.NewReader(whole), Options{})
	if err != nil || len(requests) != 1000 || len(bad) != 0 {
		t.Fatalf("%d requests, %v, %v", len(requests), bad, err)
	}
	if requests, _, err = all(t, io.MultiReader(bytes.NewReader(whole), bytes.NewReader(whole)), Options{}); err != nil ||
		len(requests) != 2000 {
		t.Errorf("rotated logs packed one behind the other: %d requests, %v", len(requests), err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-6] ^= 1
	for name, data := range map[string][]byte{
		"truncated": whole[:len(whole)-4], "cut early": whole[:len(whole)/2], "only a magic": whole[:2],
		"damaged": damaged, "garbage behind": append(bytes.Clone(whole), "garbage"...),
	} {
		if _, _, err := all(t, bytes.NewReader(data), Options{}); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: got %v; want ErrFormat", name, err)
		}
	}
}

func TestFailingInput(t *testing.T) {
	broken := errors.New("broken")
	for name, in := range map[string]io.Reader{
		"at once": failing{broken},
		"later":   io.MultiReader(strings.NewReader(common+"\n"), failing{broken}),
		"in gzip": io.MultiReader(bytes.NewReader(pack(t, common)[:12]), failing{broken}),
	} {
		if _, _, err := all(t, in, Options{}); !errors.Is(err, broken) {
			t.Errorf("%s: got %v; the error of the file must come through", name, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// An error must not contain text of a line, because that may be the name of a person.
func TestErrorsHoldNoData(t *testing.T) {
	for _, text := range []string{
		"secret\n", "secret - - [secret] \"secret\" 200 1", "time,key\nsecret,secret\n", "time,key,cost\n1,a,secret\n", `{"time":"secret","key":"secret"}`,
	} {
		_, bad, err := all(t, strings.NewReader(text), Options{})
		if err != nil || len(bad) != 1 || strings.Contains(bad[0].Error(), "secret") {
			t.Errorf("%q: got %v and %v", text, bad, err)
		}
	}
}
