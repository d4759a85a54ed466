package store

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"
)

func TestParseLimit(t *testing.T) {
	for _, c := range []struct {
		text  string
		want  Limit
		write string // if it differs from text
	}{
		{"100/1h", Over(100, time.Hour), ""},
		{"100/h", Over(100, time.Hour), "100/1h"},
		{"5/m", Over(5, time.Minute), "5/1m"},
		{"10/10s", Limit{Capacity: 10, LeakRate: 1}, ""},
		{"1.5/30d", Over(1.5, 30*24*time.Hour), "1.5/720h"},
		{"7/1d1s", Over(7, 24*time.Hour+time.Second), "7/24h0m1s"},
		{"100@0.5", Limit{Capacity: 100, LeakRate: 0.5}, "100/3m20s"},
		{"100@0.3", Limit{Capacity: 100, LeakRate: 0.3}, ""},
		{"100@0", Limit{Capacity: 100}, ""},
		{"0@2", Limit{LeakRate: 2}, ""},
		{"9007199254740992@1e-12", Limit{Capacity: 1 << 53, LeakRate: 1e-12}, ""},
		{"3/250ms", Over(3, 250*time.Millisecond), "3@12"},
		{"0", Nobody, "nobody"},
		{"0/1h", Nobody, "nobody"},
		{"nobody", Nobody, ""},
		{"unlimited", Unlimited, ""},
	} {
		got, err := ParseLimit(c.text)
		if err != nil || got != c.want {
			t.Errorf("%q is %+v, %v; want %+v", c.text, got, err, c.want)
			continue
		}
		text, err := got.MarshalText()
		if c.write == "" {
			c.write = c.text
		}
		if err != nil || string(text) != c.write {
			t.Errorf("%q is written as %q, %v; want %q", c.text, text, err, c.write)
		}
		if again, err := ParseLimit(string(text)); err != nil || again != got {
			t.Errorf("%q is written as %q, which is %+v, %v", c.text, text, again, err)
		}
	}
}

func TestParseLimitErrors(t *testing.T) {
	for _, text := range []string{
		"", "100", "/", "@", "100/", "100@", "/1h", "-1/1h", "-0/1h", "1/-1h", "1/0s", "NaN/1h", "inf/1h", "0x10/1h", "1e400/1h",
		"100/1h/1h", "100@-1", "100@inf", "0@0", "Nobody", "unlimited ", " 1/1h", "1e16/1h", "1/1x", "1@1e-13",
	} {
		if l, err := ParseLimit(text); !errors.Is(err, ErrInvalidLimit) {
			t.Errorf("%q is %+v, %v; want ErrInvalidLimit", text, l, err)
		}
	}
}

// TestLimitJSON: a limit in a configuration is a text, and a bucket keeps its key.
func TestLimitJSON(t *testing.T) {
	type config struct {
		Limit  Limit
		Bucket Bucket
	}
	want := config{Limit: Unlimited, Bucket: Over(100, time.Hour).For("a key")}
	data, err := json.Marshal(want)
	if text := `{"Limit":"unlimited","Bucket":"100/1h a key"}`; err != nil || string(data) != text {
		t.Errorf("%s, %v; want %s", data, err, text)
	}
	var got config
	if err := json.Unmarshal(data, &got); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if data, err := json.Marshal(Limit{}); err == nil {
		t.Errorf("a limit that is not set is written as %s", data)
	}
	if err := json.Unmarshal([]byte(`{"Bucket":"100/1h"}`), &got); !errors.Is(err, ErrInvalidKey) {
		t.Errorf("a bucket without a key: %v", err)
	}
}

func FuzzParseLimit(f *testing.F) {
	f.Add("100/1h")
	f.Add("100@0.3")
	f.Add("nobody")
	f.Add("100/month,31,06:30@UTC")
	f.Add("1/week,sunday@Europe/Berlin")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLimit(s)
		if err != nil {
			if !errors.Is(err, ErrInvalidLimit) {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		text, err := l.MarshalText()
		if err != nil {
			t.Fatalf("%q is %+v, which is not written: %v", s, l, err)
		}
		if again, err := ParseLimit(string(text)); err != nil || again != l {
			t.Errorf("%q is %+v and is written as %q, which is %+v, %v", s, l, text, again, err)
		}
	})
}

func TestLimitTextsOfAnyRate(t *testing.T) {
	for i := range 2000 {
		capacity := math.Exp2(float64(i%50)) * (1 + float64(i%7)/7)
		l := Limit{Capacity: capacity, LeakRate: capacity / (1 + float64(i*i)/3)}
		text, err := l.MarshalText()
		if again, perr := ParseLimit(string(text)); err != nil || perr != nil || again != l {
			t.Errorf("%+v is written as %q, %v, which is %+v, %v", l, text, err, again, perr)
		}
	}
}
