package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
)

func TestResetAll(t *testing.T) {
	path := storeIn(t)
	db, err := bolt.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	var fills []brim.Fill
	for i := range 1500 { // more than a page
		fills = append(fills, brim.Fill{Bucket: brim.Limit{Capacity: 9}.For(fmt.Sprintf("test/%04d", i)), Amount: 1})
	}
	fills = append(fills, brim.Fill{Bucket: brim.Limit{Capacity: 9}.For("live"), Amount: 1})
	if _, err := brim.New(db, nil).TryFillupAll(t.Context(), fills...); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	left := func(want int) {
		t.Helper()
		if got := strings.Count(cli(t, "list", "--json", "--store", path).stdout, "\n"); got != want {
			t.Errorf("%d buckets are left; want %d", got, want)
		}
	}
	cli(t, "reset", "--all", "--store", path).want(t, exitUsage, "", "--all would delete 1501 buckets of "+path)
	left(1501)
	cli(t, "reset", "--all", "--prefix", "none/", "--store", path).want(t, exitOK, "reset: 0", "")
	cli(t, "reset", "--all", "--prefix", "test/", "--yes", "--store", path).want(t, exitOK, "reset: 1500", "")
	left(1)
	var n struct{ Reset int }
	cli(t, "reset", "--all", "--yes", "--json", "--store", path).decode(t, &n)
	if left(0); n.Reset != 1 {
		t.Errorf("reset %d; want 1", n.Reset)
	}
}

// The help, the topic and the page have one table.
func TestExitTable(t *testing.T) {
	table := helpText("exits")
	cli(t, "help", "exit").want(t, exitOK, table, "")
	cli(t, "--help").want(t, exitOK, table, "")
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	whole := regexp.MustCompile(`\n {12}(\S)`).ReplaceAllString(table, " $1")
	rows := regexp.MustCompile(`(?m)^  (\S.*?)  +(.*)$`).ReplaceAllString(whole, "| $1 | $2 |")
	if !strings.Contains(strings.ReplaceAll(string(page), "`", ""), "| exit | meaning |\n| --- | --- |\n"+rows+"\n") {
		t.Errorf("docs/cli.md has another table than\n%s", rows)
	}
	for _, code := range []int{exitOK, exitBroken, exitUsage, exitData, exitAbsent, exitUnavailable, exitInternal, exitRefused, exitNever} {
		if !strings.Contains("\n"+rows, "\n| "+strconv.Itoa(code)+" | ") {
			t.Errorf("the table lacks %d", code)
		}
	}
}
