package trace

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
)

// cloudFront is a standard log, with tabs between the fields. A second log follows in it.
const cloudFront = "#Version: 1.0\n" +
	"#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) time-taken\n" +
	"2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111.cloudfront.net\t/index.html\t200\t-\tMozilla/5.0%20(X)\t0.125\n" +
	"2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111.cloudfront.net\t/index.html\t200\t-\n" +
	"#Version: 1.0\n" +
	"#Fields: date time c-ip cs-uri-stem\n" +
	"2019-12-04\t21:02:32\t2001:db8::1\t/b\n" +
	"2019-12-04\tnoon\t2001:db8::1\t/b\n"

// alb are lines of an Application Load Balancer: of an old one, a new one, and one without an
// answer of its target.
const alb = `http 2018-07-02T22:23:00.186641Z app/lb/50dc 192.168.131.39:2817 10.0.0.1:80 0.000 0.001 0.250 200 200 34 366 "GET http://www.example.com:80/a?q HTTP/1.1" "curl/7.46.0" - - arn "Root=1"
h2 2018-07-02T22:23:01.5Z app/lb/50dc [2001:db8::1]:2817 10.0.0.1:80 0.000 0.001 0.250 404 200 34 0 "POST https://www.example.com HTTP/2.0" "a b" - - arn "Root=1" "www.example.com" "cert" 0 2018-07-02T22:23:01.000001Z "forward"
https 2018-07-02T22:23:02Z app/lb/50dc 192.168.131.39:2817 - -1 -1 -1 503 - 34 366 "- http://www.example.com:80- -" "-" - - arn "Root=1" "-" "-" - bad
https 2018-07-02T22:23:02Z app/lb/50dc
`

func TestCloud(t *testing.T) {
	first, second := micros("2019-12-04T21:02:31Z"), micros("2019-12-04T21:02:32Z")
	a, b, c := micros("2018-07-02T22:23:00.186641Z"), micros("2018-07-02T22:23:01.5Z"), micros("2018-07-02T22:23:02Z")
	for _, tc := range []struct {
		name, text, format string
		options            Options
		want               []simulate.Arrival
		bad                []string
	}{
		{
			"CloudFront", cloudFront, "a log of CloudFront",
			Options{},
			[]simulate.Arrival{row(3, first, "192.0.2.100", 1), row(7, second, "2001:db8::1", 1)},
			[]string{"10 fields and the line #Fields: has 12", "date and time"},
		},
		{
			"CloudFront by path, bytes and start", cloudFront, "a log of CloudFront",
			Options{Key: "path", Time: Start, Cost: Cost{Bytes: true}},
			[]simulate.Arrival{row(3, first-125_000, "/index.html", 392)},
			[]string{"10 fields", "time-taken", "date and time"},
		},
		{
			"CloudFront by a field of its own", cloudFront, "a log of CloudFront",
			Options{Key: "x-edge-location"},
			[]simulate.Arrival{row(3, first, "LAX1", 1)},
			[]string{"10 fields", "no x-edge-location", "no x-edge-location"},
		},
		{
			"CloudFront without a header", "#Version: 1.0\n2019-12-04\t21:02:31\n", "a log of CloudFront",
			Options{},
			nil,
			[]string{"no line #Fields:"},
		},
		{
			"load balancer", alb, "a log of an Application Load Balancer",
			Options{},
			[]simulate.Arrival{row(1, a, "192.168.131.39", 1), row(2, b, "2001:db8::1", 1), row(3, c, "192.168.131.39", 1)},
			[]string{"it has 3 fields"},
		},
		{
			"load balancer by path, bytes and start", alb, "a log of an Application Load Balancer",
			Options{Key: "path", Time: Start, Cost: Cost{Bytes: true}},
			[]simulate.Arrival{
				row(1, a-251_000, "/a", 366), row(2, micros("2018-07-02T22:23:01.000001Z"), "/", 0), row(3, c, "/", 366),
			},
			[]string{"it has 3 fields"},
		},
		{
			"load balancer by target", alb, "a log of an Application Load Balancer",
			Options{Key: "target"},
			[]simulate.Arrival{row(1, a, "10.0.0.1", 1), row(2, b, "10.0.0.1", 1)},
			[]string{"no target", "it has 3 fields"},
		},
		{
			"load balancer by domain", alb, "a log of an Application Load Balancer",
			Options{Key: "domain"},
			[]simulate.Arrival{row(2, b, "www.example.com", 1)},
			[]string{"no domain", "no domain", "it has 3 fields"},
		},
	} {
		r, err := NewReader(strings.NewReader(tc.text), tc.options)
		if err != nil || r.Format() != tc.format {
			t.Errorf("%s: the format is %q, %v; want %q", tc.name, r.Format(), err, tc.format)
		}
		got, bad, err := all(t, strings.NewReader(tc.text), tc.options)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, %v; want %v", tc.name, got, err, tc.want)
		}
		if len(bad) != len(tc.bad) {
			t.Fatalf("%s: line errors %v; want %q", tc.name, bad, tc.bad)
		}
		for i, e := range bad {
			if !strings.Contains(e.Why, tc.bad[i]) {
				t.Errorf("%s: line error %v; want %q", tc.name, e, tc.bad[i])
			}
		}
	}
	for _, key := range albFields {
		if got, _, err := all(t, strings.NewReader(alb), Options{Key: key}); err != nil || len(got) == 0 {
			t.Errorf("load balancer by %s: %v, %v", key, got, err)
		}
	}
}

func TestFieldsOfTheCloud(t *testing.T) {
	for name, tc := range map[string]struct {
		text    string
		options Options
		says    string
	}{
		"key of a load balancer":  {alb, Options{Key: "colour"}, "host, method"},
		"time of a load balancer": {alb, Options{Time: "ts"}, "or choose start"},
		"time of CloudFront":      {cloudFront, Options{Time: "ts"}, "or choose start"},
		"time of an access log":   {common, Options{Time: "ts"}, "or choose start"},
	} {
		if _, err := NewReader(strings.NewReader(tc.text), tc.options); !errors.Is(err, ErrField) ||
			!strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %v; want ErrField with %q", name, err, tc.says)
		}
	}
}
