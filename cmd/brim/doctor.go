package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/stores"
	"github.com/brimgo/brim/ui"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := takesPage(newCommand("doctor"))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) }
	return cmd
}

// doctor checks the store that --store names, and prints the findings.
func (a *app) doctor(ctx context.Context) error {
	page, err := a.page()
	if err != nil {
		return err
	}
	if page != nil {
		findings, err := page.Findings(ctx)
		if err != nil {
			return err
		}
		return a.printFindings(page, findings)
	}
	p, err := a.place()
	if err != nil {
		return err
	}
	if err := present(p); err != nil {
		return err
	}
	findings, err := check(ctx, p)
	if err != nil {
		return openError{inFile(p, err)}
	}
	return a.printFindings(p, findings)
}

// printFindings prints the findings of a check of the store of that name.
func (a *app) printFindings(name fmt.Stringer, findings []store.Finding) (err error) {
	slices.SortStableFunc(findings, func(x, y store.Finding) int { return int(y.Severity) - int(x.Severity) })
	for _, f := range findings {
		text := fmt.Sprintf("%v: %s: %s; %s", f.Severity, f.Subject, f.Problem, f.Remedy)
		if err := a.print(f, oneLine(text)); err != nil {
			return err
		}
	}
	switch {
	case len(findings) == 0 && !a.json:
		_, err = fmt.Fprintf(a.stdout, "%s: every promise can be kept\n", printable(name.String()))
	case len(findings) > 0 && findings[0].Severity == store.Broken:
		err = status(exitBroken)
	}
	return err
}

// check checks the store at p.
func check(ctx context.Context, p place.Place) ([]store.Finding, error) {
	switch p.Kind() {
	case place.File:
		return bolt.Check(ctx, p.Path())
	case place.PostgreSQL:
		pool, err := p.Pool(ctx)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		o := &postgres.Options{}
		o.Schema, o.Table = p.Tables()
		return ui.JoinChecks( // both look at the session
			func(ctx context.Context) ([]store.Finding, error) { return postgres.Check(ctx, pool, o) },
			func(ctx context.Context) ([]store.Finding, error) { return pgledger.Check(ctx, pool, o) },
		)(ctx)
	case place.Redis:
		client, o, err := p.Client(0)
		if err != nil {
			return nil, err
		}
		findings, err := redisstore.Check(ctx, client, &o)
		_ = client.Close() // nothing was written
		return findings, err
	case place.SQLite:
		s, err := stores.Open(ctx, p.Name(), &stores.Options{PruneEvery: -1, Lazy: true})
		if err != nil {
			return nil, err
		}
		findings, err := s.SQLite.Check(ctx)
		return findings, errors.Join(err, s.Close())
	}
	return nil, nil // memory promises to keep nothing
}
