package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/internal/table"
)

// outcomeJSON is the JSON of one limit of a sweep.
type outcomeJSON struct {
	Capacity      float64 `json:"capacity"`
	LeakRate      float64 `json:"leak_rate"`
	Accepted      int64   `json:"accepted"`
	Refused       int64   `json:"refused"`
	RefusedShare  float64 `json:"refused_share"` // from 0 to 1
	UnitsAccepted float64 `json:"units_accepted"`
	KeysRefused   int     `json:"keys_refused"` // keys with a refused request
}

func newOutcomeJSON(o *simulate.Outcome) outcomeJSON {
	return outcomeJSON{
		Capacity: o.Limit.Capacity, LeakRate: o.Limit.LeakRate, Accepted: o.Accepted, Refused: o.Refused,
		RefusedShare: o.Share(), UnitsAccepted: o.UnitsAccepted, KeysRefused: o.KeysRefused,
	}
}

// sweepJSON is the JSON of a log that many limits decided.
type sweepJSON struct {
	Requests int64   `json:"requests"`
	Keys     int     `json:"keys"`
	Unparsed int64   `json:"unparsed"` // lines that are not requests
	Complete bool    `json:"complete"` // false after an interrupt
	Seconds  float64 `json:"seconds"`  // wall time
	logJSON
	Limits []outcomeJSON `json:"limits"` // the smallest first
}

func newSweepJSON(rep *simulate.Report, log *trace.Reader) sweepJSON {
	s := sweepJSON{
		Requests: rep.Requests, Keys: rep.Keys, Unparsed: rep.Unparsed, Complete: rep.Complete,
		Seconds: rep.Took.Seconds(), logJSON: newLogJSON(rep, log), Limits: []outcomeJSON{},
	}
	for i := range rep.Outcomes {
		s.Limits = append(s.Limits, newOutcomeJSON(&rep.Outcomes[i]))
	}
	return s
}

// describeSweep prints a row for each limit, but not for the limits that are larger than necessary.
func (a *app) describeSweep(rep *simulate.Report, log *trace.Reader) error {
	if a.json {
		return a.printJSON(newSweepJSON(rep, log))
	}
	fmt.Fprintf(a.stdout, "%s by %s%s\n\n", count(rep.Requests, "request"), count(rep.Keys, "key"), soFar(rep))
	t := table.New(table.Right("CAPACITY"), table.Right("LEAK RATE"), table.Right("REFUSED"), table.Right("SHARE"),
		table.Right("KEYS REFUSED"))
	shown := len(rep.Outcomes)
	for shown > 1 && rep.Outcomes[shown-1].Refused == 0 && rep.Outcomes[shown-2].Refused == 0 {
		shown--
	}
	for i := range rep.Outcomes[:shown] {
		o := &rep.Outcomes[i]
		t.Add(units(o.Limit.Capacity), units(o.Limit.LeakRate)+"/s", fmt.Sprint(o.Refused), percent(o.Share()),
			fmt.Sprint(o.KeysRefused))
	}
	if err := a.printTables(t); err != nil || shown == len(rep.Outcomes) {
		return err
	}
	largest := rep.Outcomes[len(rep.Outcomes)-1].Limit.Capacity
	_, err := fmt.Fprintf(a.stdout, "\nNo larger limit, up to capacity %s, refuses a request.\n", units(largest))
	return err
}

// percent writes a share.
func percent(share float64) string { return fmt.Sprintf("%.2f%%", 100*share) }

// checkPicture returns an error if --plot names a file that cannot be written. A command calls it
// before its work.
func checkPicture(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return usagef("--plot: %s is a directory; give the name of an SVG file", path)
	}
	if !strings.EqualFold(filepath.Ext(path), ".svg") {
		return usagef("--plot: %s: a picture is in SVG; give a name that ends with .svg", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return usagef("--plot: %s cannot be written: %s is no directory", path, filepath.Dir(path))
	}
	return nil
}

// savePicture writes a picture to the file that --plot names, if it names one.
func (a *app) savePicture(path, svg string) error {
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path, []byte(svg), 0o644); err != nil {
		return fmt.Errorf("cannot write the picture: %w", err)
	}
	fmt.Fprintf(a.stderr, "brim: the picture is in %s\n", printable(path))
	return nil
}

// limitText writes a limit as the flags that set exactly this limit.
func limitText(l simulate.Limit) string {
	exact := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	if l.Over > 0 {
		return fmt.Sprintf("--capacity %s --over %s", exact(l.Capacity), short(l.Over))
	}
	return fmt.Sprintf("--capacity %s --leak-rate %s", exact(l.Capacity), exact(l.LeakRate))
}
