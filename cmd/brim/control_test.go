package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestNoControlCharacters passes names, flags and arguments that would clear a terminal. No output
// has a character that is not printable, but the ends of lines.
func TestNoControlCharacters(t *testing.T) {
	const evil, key = "\x1b[2J\r\u009b\x9b", "\x1b[2J\x7f\u009b\u202e\U000e0001"
	dir := t.TempDir()
	line := `10.0.0.1 - - [29/Nov/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 12` + "\n"
	log := filepath.Join(dir, evil+".log")
	directory := filepath.Join(dir, evil)
	budget, rules, others, ledger := filepath.Join(dir, evil+".yaml"), filepath.Join(dir, "b.yaml"), filepath.Join(dir, "c.yaml"), filepath.Join(dir, "b.db")
	const hidden = "budget: b\ncurrency: EUR\nrules: [{name: \"\\u202e\", per_transaction: 9}]\n"
	for path, text := range map[string]string{log: line + "no request\n", budget: evil, rules: hidden, others: hidden + "retired: [x]\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, evil+".db")
	cli(t, "try", key, "1", "--capacity", "5", "--leak-rate", "1", "--store", file).want(t, exitOK, "accepted", "")
	cli(t, "spend", "rules", "set", rules, "--store", ledger).want(t, exitOK, "set", "")
	for _, args := range [][]string{
		{evil},
		{"help", evil},
		{"--" + evil},
		{"try", "k", "--store", evil + "://x"},
		{"try", "k", "--capacity", evil},
		{"try", "k", "--limit", evil},
		{"try", "k", evil, "--capacity", "5", "--leak-rate", "1", "--store", "memory:"},
		{"try", "k", "--capacity", "5", "--leak-rate", "1", "--store", directory},
		{"state", "a", "--store", file},
		{"list", "--store", file},
		{"list", "--json", "--store", file},
		{"state", key, "--json", "--store", file},
		{"doctor", "--store", file},
		{"verify", "--store", file},
		{"reset", "--all", "--store", file},
		{"exec", "k", "--capacity", "5", "--leak-rate", "1", "--store", "memory:", "--", evil},
		{"block", "k", evil, "--store", "memory:"},
		{"replay", log, "--capacity", "5", "--leak-rate", "1"},
		{"replay", directory, "--capacity", "5", "--leak-rate", "1"},
		{"replay", log, "--capacity", "5", "--leak-rate", "1", "--key", evil},
		{"replay", log + evil, "--capacity", "5", "--leak-rate", "1"},
		{"size", log},
		{"size", log, "--plot", filepath.Join(dir, evil+".svg")},
		{"spend", "rules", "check", budget},
		{"spend", "rules", "check", budget + evil},
		{"spend", "charge", "a", "1", "--budget", evil, "--store", "memory:"},
		{"spend", "rules", "set", rules, "--author", evil, "--store", "memory:"},
		{"spend", "rules", "diff", others, "--store", ledger},
		{"spend", "rules", "show", "--budget", "b", "--store", ledger},
		{"spend", "rules", "show", "--budget", "b", "--json", "--store", ledger},
		{"spend", "rules", "history", "--budget", "b", "--store", ledger},
		{"spend", "backtest", "--rules", rules, "--store", ledger},
	} {
		r := cli(t, args...)
		output := r.stdout + r.stderr
		if output == "" {
			t.Errorf("%q printed nothing", args)
		}
		if !utf8.ValidString(output) || strings.ContainsFunc(output, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }) {
			t.Errorf("%q printed %q", args, output)
		}
	}
	var state struct{ Key string }
	if r := cli(t, "state", key, "--json", "--store", file); json.Unmarshal([]byte(r.stdout), &state) != nil || state.Key != key {
		t.Errorf("the escapes of %q do not stand for %q", r.stdout, key)
	}
}
