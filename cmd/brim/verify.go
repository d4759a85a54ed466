package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/stores"
)

func (a *app) verifyCommand() *cobra.Command {
	v := &verification{app: a}
	cmd := &cobra.Command{
		Use:   "verify [--salvage NEW [--forget KEY]... [--forget-lost]]",
		Short: "Find the damage in a bbolt file, and save the rest",
		Long: `Reads every page of a bbolt file, compares all checksums and totals, and lists all damage: buckets,
accounts and requests of a ledger by their keys, and pages by their numbers. It changes nothing in
the file, and reads files that no other command can open. No other process may use the file
meanwhile.

If only the records of buckets are damaged, the file is usable: those buckets alone are answered
with an error, and "brim reset KEY" makes one empty and usable again.

If the file says that a journal belongs to it, as after a crash, a journal that is missing, damaged
or not the right one is damage as well. Keep NAME.journal beside the file NAME.

--salvage NEW writes all that is intact to the new file NEW and lists the rest. NEW must not exist.
Buckets that are lost begin empty in NEW. The readable changes of the journal are in NEW, which needs
no journal; if a part is lost, buckets may be older than the last answers. An account of a ledger is carried over only if all of its
entries and its figures are whole. Every other account answers an error in NEW until you decide, as
does a request whose answer is lost: a second salvage, of NEW, with --forget KEY begins without it.
If accounts may be lost without a trace, those that are not in NEW answer an error as well, until a
salvage with --forget-lost lets them begin anew.

Exit status: 0 if the file is sound, or if NEW holds all that the file held; 65 if it is damaged, or
if something was left out of NEW.`,
		Example: `  brim verify --store limits.db
  brim verify --store limits.db --salvage rescued.db
  brim verify --store rescued.db --salvage limits2.db --forget cards/card:7`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&v.salvage, "salvage", "", "write what is intact to this new file")
	cmd.Flags().StringArrayVar(&v.forget, "forget", nil, "begin without this account or request of a ledger, with --salvage")
	cmd.Flags().BoolVar(&v.lost, "forget-lost", false, "let accounts of which nothing was found begin anew, with --salvage")
	return cmd
}

// verification is one run of brim verify.
type verification struct {
	*app
	salvage string
	forget  []string
	lost    bool
}

func (v *verification) run(ctx context.Context) error {
	place, err := v.place()
	switch {
	case err != nil:
		return err
	case place.Kind() != stores.File:
		return usagef("verify reads a bbolt file; give its path with --store")
	case (len(v.forget) > 0 || v.lost) && v.salvage == "":
		return usagef("--forget and --forget-lost need --salvage: verify alone changes nothing")
	}
	p := v.progress("verify")
	report, err := v.read(ctx, place.Path(), func(done, total uint64) {
		p.set(float64(done)/float64(max(total, 1)), fmt.Sprintf("%d of %d pages", min(done, total), total))
	})
	p.end()
	if errors.Is(err, boltfile.ErrExists) {
		return usagef("%s: %w", v.salvage, err)
	}
	if err != nil {
		return openError{fmt.Errorf("verify %s: %w", place, err)}
	}
	if err := v.tell(place, report); err != nil {
		return err
	}
	if len(report.Findings) > 0 && !report.Whole {
		return status(exitData)
	}
	return nil
}

func (v *verification) read(ctx context.Context, path string, tell func(done, total uint64)) (*boltfile.Report, error) {
	r, err := boltfile.ReadRemains(ctx, path, bolt.DefaultLockTimeout, tell)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	salvors := []boltfile.Salvor{bolt.Salvor(), boltledger.Salvor(v.lost, v.forget...)}
	if v.salvage != "" {
		return boltfile.Salvage(ctx, r, v.salvage, salvors...)
	}
	return boltfile.Examine(ctx, r, salvors...)
}

// findingJSON is a finding in the answer to --json.
type findingJSON struct {
	What     string  `json:"what"`
	Key      string  `json:"key,omitempty"`
	Doubtful bool    `json:"key_doubtful,omitempty"`
	Page     *uint64 `json:"page,omitempty"`
	Of       string  `json:"of,omitempty"`
	From     string  `json:"from,omitempty"`
	To       string  `json:"to,omitempty"`
	Problem  string  `json:"problem"`
}

// reportJSON is the answer to --json.
type reportJSON struct {
	Store    string            `json:"store"`
	Sound    bool              `json:"sound"`
	Intact   map[string]uint64 `json:"intact"`
	Salvaged string            `json:"salvaged,omitempty"`
	Whole    *bool             `json:"whole,omitempty"`
	Damage   []findingJSON     `json:"damage"`
}

// tell prints the report.
func (v *verification) tell(place stores.Place, r *boltfile.Report) error {
	if v.json {
		out := reportJSON{
			Store: place.String(), Sound: len(r.Findings) == 0, Intact: r.Intact, Salvaged: v.salvage, Damage: []findingJSON{},
		}
		if v.salvage != "" {
			out.Whole = &r.Whole
		}
		for _, f := range r.Findings {
			j := findingJSON{
				What: f.What, Key: f.Key, Doubtful: f.Doubtful, Of: f.Of, From: f.From, To: f.To, Problem: f.Problem,
			}
			if isPage(f) {
				j.Page = &f.Page
			}
			out.Damage = append(out.Damage, j)
		}
		return v.printJSON(out)
	}
	for _, f := range r.Findings {
		if err := describe(v.stdout, f); err != nil {
			return err
		}
	}
	values := uint64(0)
	for _, n := range r.Intact {
		values += n
	}
	end := fmt.Sprintf("sound: %d values", values)
	switch {
	case v.salvage != "" && (r.Whole || len(r.Findings) == 0):
		end = fmt.Sprintf("salvaged to %s: all %d values", v.salvage, values)
	case v.salvage != "":
		end = fmt.Sprintf("salvaged to %s: %d values; the list above is the rest", v.salvage, values)
	case len(r.Findings) > 0:
		end = fmt.Sprintf("damaged: %d findings; %d values are intact", len(r.Findings), values)
	}
	_, err := fmt.Fprintln(v.stdout, end)
	return err
}

// isPage reports whether a finding is about a page.
func isPage(f boltfile.Finding) bool {
	return f.What == "page" || f.What == "meta page" || f.What == "free pages"
}

// describe prints a finding as one line.
func describe(w io.Writer, f boltfile.Finding) error {
	subject := f.What
	switch {
	case isPage(f):
		subject = fmt.Sprintf("%s %d", f.What, f.Page)
	case f.Key != "":
		subject += " " + printable(f.Key)
	}
	if f.Of != "" {
		subject += " of " + printable(f.Of)
	}
	if f.From != "" || f.To != "" {
		subject += fmt.Sprintf(" (keys from %q up to %q)", f.From, f.To)
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", subject, f.Problem)
	return err
}
