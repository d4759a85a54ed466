package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/internal/table"
)

// stateJSON is the form in which --json prints a state.
type stateJSON struct {
	Key          string    `json:"key"`
	Level        float64   `json:"level"`
	Held         float64   `json:"held"`
	Capacity     float64   `json:"capacity"`
	LeakRate     float64   `json:"leak_rate"`
	Remaining    float64   `json:"remaining"`
	Accepted     bool      `json:"accepted"`
	Full         bool      `json:"full"`
	Spilled      float64   `json:"spilled"`
	Taken        float64   `json:"taken,omitzero"`
	RetryAfter   *float64  `json:"retry_after"` // seconds; null if it can never fit
	At           time.Time `json:"at"`
	Empties      time.Time `json:"empties,omitzero"`
	BlockedUntil time.Time `json:"blocked_until,omitzero"`
}

func newStateJSON(key string, st brim.State) stateJSON {
	return stateJSON{
		Key: key, Level: st.Level, Held: st.Held, Capacity: st.Capacity, LeakRate: st.LeakRate, Remaining: st.Remaining(),
		Accepted: st.Accepted, Full: st.Full, Spilled: st.Spilled, Taken: st.Taken, RetryAfter: humanize.SecondsOrNull(st.RetryAfter),
		At: st.At.UTC(), Empties: st.Empties, BlockedUntil: st.BlockedUntil,
	}
}

// print prints v as one line of JSON if --json is set, and otherwise the text as a line, which a
// terminal gets in lines of its width.
func (a *app) print(v any, text string) error {
	if a.json {
		return a.printJSON(v)
	}
	_, err := fmt.Fprintln(a.stdout, a.screen.fold(text))
	return err
}

// printJSON prints v as one line of JSON.
func (a *app) printJSON(v any) error { return writeJSON(a.stdout, v) }

// writeJSON writes v as one line of JSON. Escapes stand for all characters that could control a
// terminal. Package encoding/json escapes those below the space, and leaves DEL, C1 and the
// characters that turn the direction of a text.
func writeJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	line := make([]byte, 0, len(text)+1)
	for _, r := range string(text) {
		if unicode.IsPrint(r) {
			line = utf8.AppendRune(line, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			line = fmt.Appendf(line, `\u%04x`, unit)
		}
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// filling describes the level of a bucket.
func filling(st brim.State) string {
	s := fmt.Sprintf("level %s of %s", units(st.Level), units(st.Capacity))
	if st.Held > 0 {
		s += fmt.Sprintf(", %s held", units(st.Held))
	}
	return s + fmt.Sprintf(", %s remaining", units(st.Remaining()))
}

// comeBack describes when n refused units would fit.
func (a *app) comeBack(n float64, st brim.State) string {
	switch {
	case st.RetryAfter < brim.Never:
		now := a.now()
		return fmt.Sprintf("%s would fit in %s, at %s", units(n), span(st.RetryAfter),
			clockTime(now.Add(st.RetryAfter), now))
	case n > st.Capacity:
		return fmt.Sprintf("%s can never fit a capacity of %s", units(n), units(st.Capacity))
	case st.LeakRate == 0 && st.Empties.IsZero():
		return units(n) + " will not fit by waiting: the bucket does not leak"
	case st.Held+n > st.Capacity:
		return fmt.Sprintf("%s will not fit while %s are held", units(n), units(st.Held))
	}
	return units(n) + " would not fit within 146 years"
}

// describe prints a state as a table.
func (a *app) describe(st brim.State) error {
	t := table.New(table.Left(""), table.Left(""))
	t.Add("level", units(st.Level))
	t.Add("held", units(st.Held))
	t.Add("capacity", units(st.Capacity))
	if st.Empties.IsZero() {
		t.Add("leak rate", units(st.LeakRate)+" per second")
	} else {
		t.Add("period ends", clockTime(st.Empties, a.now()))
	}
	t.Add("remaining", units(st.Remaining()))
	t.Add("empty in", span(st.TimeToEmpty()))
	if !st.BlockedUntil.IsZero() {
		t.Add("blocked until", clockTime(st.BlockedUntil, a.now()))
	}
	return a.printTables(t)
}

// printTables prints tables with an empty line between two of them. It leaves out tables without
// rows.
func (a *app) printTables(tables ...*table.Table) error {
	var texts []string
	for _, t := range tables {
		if len(t.Rows) > 0 {
			texts = append(texts, t.Text())
		}
	}
	_, err := io.WriteString(a.stdout, a.screen.fold(strings.Join(texts, "\n")))
	return err
}
