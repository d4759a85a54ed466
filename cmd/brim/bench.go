package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/cmd/brim/internal/bench"
	"github.com/brimgo/brim/cmd/brim/internal/scratch"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/table"
)

// The bounds of a benchmark. They keep a mistyped number from filling the memory.
const (
	maxCallers = 100_000
	maxKeys    = 10_000_000
)

func (a *app) benchCommand() *cobra.Command {
	o := bench.Options{}
	length := duration.Value(5 * time.Second)
	var reference bool
	cmd := newCommand("bench")
	cmd.Flags().IntVar(&o.Callers, "callers", 16, "number of callers that ask at once")
	cmd.Flags().IntVar(&o.Keys, "keys", 10_000, "number of buckets that the callers share, all of them equally likely")
	cmd.Flags().Var(&length, "duration", "length of the measurement")
	cmd.Flags().Var((*fraction)(&o.Refused), "refused", "share of the decisions that are refused, like 10% or 0.1")
	cmd.Flags().BoolVar(&reference, "reference", false, "measure the bare reference of the backend as well")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Duration = length.Std()
		switch {
		case o.Callers < 1 || o.Callers > maxCallers:
			return usagef("--callers is %d; it must be from 1 to %d", o.Callers, maxCallers)
		case o.Keys < 1 || o.Keys > maxKeys:
			return usagef("--keys is %d; it must be from 1 to %d", o.Keys, maxKeys)
		case o.Duration < 10*time.Millisecond:
			return usagef("--duration is %v; it must be 10ms or more", o.Duration)
		}
		return a.bench(cmd.Context(), o, reference)
	}
	return cmd
}

// bench measures the store, and prints the report.
func (a *app) bench(ctx context.Context, o bench.Options, reference bool) error {
	var rep *bench.Report
	// The reference has a connection for every caller, up to a number beyond which no server is
	// faster.
	err := a.with(ctx, opening{create: true, conns: min(max(o.Callers, 4), 64)}, func(s *opened, _ *brim.Limiter) (err error) {
		if reference && s.Bolt == nil && s.Postgres == nil {
			return usagef("%s has no bare reference to compare it with; leave out --reference", s.name)
		}
		if o.Prefix, err = scratch.Prefix(ctx, s, "brim-bench"); err != nil {
			return err
		}
		defer func() {
			if e := scratch.Remove(ctx, s, o.Prefix); err == nil {
				err = e
			}
		}()
		if reference {
			if o.Reference, err = referenceOf(ctx, s, o.Keys); err != nil {
				return openError{fmt.Errorf("reference: %w", err)}
			}
			defer func() {
				if e := o.Reference.Close(); err == nil {
					err = e
				}
			}()
		}
		p := a.progress("bench")
		defer p.end()
		o.Store, o.Progress = s, func(share float64) { p.set(share, "") }
		if rep, err = bench.Run(ctx, o); rep != nil {
			rep.Store = s.name
		}
		return err
	})
	if rep == nil {
		return err
	}
	if e := a.describeBench(rep); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	if rep.AdmittedBeyondLimit > 0 {
		return fmt.Errorf("%s admitted %s units more than the limit allows", rep.Store, units(rep.AdmittedBeyondLimit))
	}
	return nil
}

// referenceOf makes the bare reference with which the store is compared.
func referenceOf(ctx context.Context, s *opened, keys int) (*bench.Reference, error) {
	if s.Bolt != nil {
		return bench.BoltReference(ctx, filepath.Dir(s.place.Path()), keys)
	}
	schema, _ := s.place.Tables()
	return bench.PostgresReference(ctx, s.Pool, schema, keys)
}

// describeBench prints a report as a table.
func (a *app) describeBench(rep *bench.Report) error {
	if a.json {
		return a.printJSON(rep)
	}
	t := table.New(table.Left(""), table.Left(""))
	t.Add("store", rep.Store)
	t.Add("callers", fmt.Sprint(rep.Callers))
	t.Add("keys", fmt.Sprint(rep.Keys))
	t.Add("decisions per second", fmt.Sprintf("%.0f", rep.DecisionsPerSecond))
	t.Add("half answered within", fmt.Sprintf("%.3g ms", rep.P50))
	t.Add("99% answered within", fmt.Sprintf("%.3g ms", rep.P99))
	if rep.Ratio != nil {
		t.Add("reference per second", fmt.Sprintf("%.0f", *rep.ReferencePerSecond))
		t.Add("reference, 99% within", fmt.Sprintf("%.3g ms", *rep.ReferenceP99))
		t.Add("ratio to the reference", fmt.Sprintf("%.2f", *rep.Ratio))
	}
	t.Add("admitted beyond limit", units(rep.AdmittedBeyondLimit))
	if !rep.Complete {
		t.Add("complete", "no: this is the part before the end")
	}
	return a.printTables(t)
}
