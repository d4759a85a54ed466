package pgname

import "testing"

func TestStatement(t *testing.T) {
	n, err := New("s", "t")
	if err != nil {
		t.Fatal(err)
	}
	one := []Fragment{ParseFragment("-- one()\n1")}
	for _, c := range []struct{ name, sql, want string }{
		{
			"comments for readers", "-- Adds one.\n-- Twice.\nSELECT {{one()}} + x -- why\nFROM {{schema}}.{{table}}",
			"SELECT /* brim:buckets.add */ 1 + x -- why\nFROM \"s\".\"t\"",
		},
		{"a line break after the first word", "WITH\nx AS (SELECT 1)", "WITH /* brim:buckets.add */\nx AS (SELECT 1)"},
		{"one word", "SELECT", "SELECT /* brim:buckets.add */"},
	} {
		if got := n.Statement("buckets.add", c.sql, one); got != c.want {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
}
