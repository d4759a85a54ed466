package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/boltrecord"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/store"
)

func (a *app) verifyCommand() *cobra.Command {
	cmd := newCommand("verify")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.verify(cmd.Context()) }
	return cmd
}

func (a *app) verify(ctx context.Context) error {
	if err := a.isFile("verify reads"); err != nil {
		return err
	}
	p, err := a.place()
	if err != nil {
		return err
	}
	if err := present(p); err != nil {
		return err
	}
	x, err := kv.Examine(ctx, p.Path(), bolt.DefaultLockTimeout, boltrecord.Is)
	if err != nil {
		return openError{inFile(p, store.Wrap("bolt", "verify "+filepath.Base(p.Path()), err))}
	}
	report := reportOf(p, &x)
	if err := a.print(report, report.text()); err != nil {
		return err
	}
	if !report.Sound {
		return status(exitData)
	}
	return nil
}

// findingJSON is damage in the answer to --json.
type findingJSON struct {
	What    string `json:"what"`
	Key     string `json:"key,omitempty"`
	Problem string `json:"problem"`
}

// reportJSON is the answer to --json.
type reportJSON struct {
	Store  string            `json:"store"`
	Sound  bool              `json:"sound"`
	Intact map[string]uint64 `json:"intact"` // in the file
	// InJournal is the number of values that the journal has changed since the file was written.
	InJournal int           `json:"in_journal"`
	Damage    []findingJSON `json:"damage"`
}

func reportOf(p place.Place, r *kv.Examination) *reportJSON {
	out := &reportJSON{Store: p.String(), Intact: r.Values(), InJournal: r.Changed, Damage: []findingJSON{}}
	if r.Damage != nil {
		out.Damage = append(out.Damage, findingJSON{What: "file", Problem: r.Damage.Error()})
	}
	named := make(map[findingJSON]bool) // an account has many values
	r.DamagedKeys(func(table, key string) {
		f := findingJSON{What: "bucket", Key: key, Problem: "does not match its checksums"}
		switch {
		case strings.HasSuffix(table, ".requests"):
			f.What = "request"
		case strings.HasSuffix(table, ".accounts"):
			f.What = "account"
			f.Key, _, _ = strings.Cut(key, "\x00")
		case strings.HasSuffix(table, ".rules"):
			f.What = "rules"
			f.Key, _, _ = strings.Cut(key, "\x00")
		}
		if !named[f] {
			named[f] = true
			out.Damage = append(out.Damage, f)
		}
	})
	if r.Journal != "" {
		out.Damage = append(out.Damage, findingJSON{What: "journal", Problem: r.Journal})
	}
	out.Sound = len(out.Damage) == 0
	return out
}

// text returns the report as lines.
func (r *reportJSON) text() string {
	var b strings.Builder
	for _, f := range r.Damage {
		subject := f.What
		if f.Key != "" {
			subject += " " + printable(f.Key)
		}
		fmt.Fprintf(&b, "%s: %s\n", subject, f.Problem)
	}
	values := uint64(0)
	for _, n := range r.Intact {
		values += n
	}
	intact := count(values, "value")
	if r.InJournal > 0 {
		intact += fmt.Sprintf("; the journal changes %d", r.InJournal)
	}
	if r.Sound {
		return "sound: " + intact
	}
	return b.String() + fmt.Sprintf("damaged: %s; intact: %s", count(len(r.Damage), "finding"), intact)
}
