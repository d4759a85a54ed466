package cards

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// FuzzReader reads arbitrary logs to the end. Every line is an event, or an error that names the
// line; the numbers of lines grow.
func FuzzReader(f *testing.F) {
	const header = "time,kind,id,account,ref,amount,currency,final,force,category\n"
	for _, s := range []string{
		header + "2026-03-01T12:00:00Z,spend,1,card,,12.34,EUR,,true,travel\n",
		header + "2026-03-01T12:00:00Z,void,2,,1,,,false,,\n# comment\nx,spend\n\"\n",
		"# a comment\n" + header, header + "2026-03-01T12:00:00Z,spend,1,card,,1e9,EUR,maybe,,\n",
		"time,time\n", "", "\xff,\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := NewReader(bytes.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%v; want ErrFormat", err)
			}
			return
		}
		last := 0
		for {
			e, line, err := r.Read()
			if err == io.EOF {
				return
			}
			var bad *LineError
			if err != nil && (!errors.As(err, &bad) || bad.Line != line) {
				t.Fatalf("line %d: %v; want a LineError of the line", line, err)
			}
			if line <= last || line > strings.Count(string(text), "\n")+1 {
				t.Fatalf("line %d follows line %d", line, last)
			}
			last = line
			if m, err := e.money(); err == nil && e.Kind != "void" && m.Currency != e.Currency {
				t.Errorf("line %d: %q of %q is %v", line, e.Amount, e.Currency, m)
			}
		}
	})
}
