package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestNoControlCharacters passes names, flags and arguments that would clear a terminal. No output has
// a control character but the ends of lines.
func TestNoControlCharacters(t *testing.T) {
	const evil = "\x1b[2J\r\u009b\x9b"
	dir := t.TempDir()
	line := `10.0.0.1 - - [29/Nov/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 12` + "\n"
	log := filepath.Join(dir, evil+".log")
	directory := filepath.Join(dir, evil)
	budget := filepath.Join(dir, evil+".yaml")
	for path, text := range map[string]string{log: line + "no request\n", budget: evil} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, evil+".db")
	cli(t, "try", evil, "--capacity", "5", "--leak-rate", "1", "--store", file)
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
		{"spend", "charge", "a", "1", "--budget", budget, "--store", "memory:"},
		{"spend", "charge", "a", "1", "--budget", budget + evil, "--store", "memory:"},
	} {
		r := cli(t, args...)
		output := r.stdout + r.stderr
		if output == "" {
			t.Errorf("%q printed nothing", args)
		}
		if !utf8.ValidString(output) || strings.ContainsFunc(output, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Errorf("%q printed %q", args, output)
		}
	}
}
