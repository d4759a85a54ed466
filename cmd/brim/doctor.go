package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

func (a *app) doctorCommand() *cobra.Command {
	return takesPage(&cobra.Command{
		Use:   "doctor",
		Short: "Check whether a store can keep its promises, by trying",
		Long: `Tries whether the store decides, looks for settings and states that break or weaken the promises of
brim, and prints each finding with the way out. Commands stand between backquotes. A try leaves nothing
behind, but for keys "brim.check/..." in Redis, which expire after some minutes.

  a bbolt file  file system, free space, rights, damage, by reading the whole file, and the journal
                that a crash has left beside it; it writes nothing; see "brim verify"
  PostgreSQL    a fill, a hold, a transaction and a spend that are rolled back, and a commit; version,
                role, settings of durability, all tables and their version, rights, the connection
                string, poolers, clocks, accounts of spends whose time is ahead, dead rows and bloat
  Redis         a fill, a hold and a transaction on each primary; version, role, eviction, the
                append-only file, replicas, the state of a cluster
  http(s)://... the findings of the program behind a page of package ui about its own store

A line is broken if a promise does not hold, warning if something weakens it, and unchecked if the
check lacks a right or cannot look. With --json each is one object.

Exit status: 0; 1 if a promise is broken; 69 if the store cannot be reached.`,
		Example: `  brim doctor --store limits.db
  brim doctor --store redis://limits.example --json | jq -r 'select(.severity == "broken").remedy'`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	})
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
		if err := a.print(f, text); err != nil {
			return err
		}
	}
	switch {
	case len(findings) == 0 && !a.json:
		_, err = fmt.Fprintf(a.stdout, "%v: every promise can be kept\n", name)
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
		findings, err := postgres.Check(ctx, pool, o)
		if err != nil {
			return nil, err
		}
		spends, err := pgledger.Check(ctx, pool, o)
		return append(findings, spends...), err
	case place.Redis:
		client, o, err := p.Client(0)
		if err != nil {
			return nil, err
		}
		findings, err := redisstore.Check(ctx, client, &o)
		_ = client.Close() // nothing was written
		return findings, err
	}
	return nil, nil // memory promises to keep nothing
}
