package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documented returns the members that each section of docs/json.md describes, by the commands in
// its heading. The section "" is the introduction, whose members may appear everywhere.
func documented(t *testing.T) map[string]map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]map[string]bool)
	for i, section := range strings.Split(string(page), "\n## ") {
		heading, text, _ := strings.Cut(section, "\n")
		members := make(map[string]bool)
		for _, m := range regexp.MustCompile("`([a-z][a-z0-9_]*)`").FindAllStringSubmatch(text, -1) {
			members[m[1]] = true
		}
		if i == 0 {
			sections[""] = members
			continue
		}
		for name := range strings.SplitSeq(heading, ", ") {
			sections[name] = members
		}
	}
	return sections
}

// open are the members whose objects have keys that are data: names of tables, tags or rules.
var open = []string{"intact", "tags", "credited", "rules"}

// namesIn adds the names of all members in a JSON value.
func namesIn(v any, to map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			to[name] = true
			if !slices.Contains(open, name) {
				namesIn(inner, to)
			}
		}
	case []any:
		for _, inner := range v {
			namesIn(inner, to)
		}
	}
}

// Each member that a command prints stands in its section of docs/json.md.
func TestJSONIsDocumented(t *testing.T) {
	sections := documented(t)
	t.Chdir(t.TempDir())
	log := "time,key\n2026-01-31T12:00:00Z,alice\n2026-01-31T12:00:01Z,alice\n"
	for name, text := range map[string]string{"budget.yaml": cardsBudget, "other.yaml": strings.Replace(cardsBudget, "1000", "10", 1), "log.csv": log, "damaged.db": strings.Repeat("no database\n", 1000)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shown := make(map[string]map[string]bool)
	for _, line := range []string{
		"try k 1 --capacity 3 --over 24h", "fillup k 9 --capacity 3 --over 24h", "able k 1 --capacity 3 --over 24h",
		"drain k 1 --capacity 3 --over 24h", "state k", "block k 1h", "list", "unblock k", "prune", "compact", "backup copied.db",
		"verify", "verify --store damaged.db", "doctor --store damaged.db", "reset k",
		"replay log.csv --capacity 1 --over 1m", "size log.csv",
		"size --leak-rate 200 --timeout 3s", "simulate --rate 10 --duration 1s --capacity 3 --over 24h",
		"simulate --rate 10 --duration 1s --capacity 3 --over 24h --compare",
		"bench --duration 50ms --keys 10 --store memory:", "version",
		"spend rules set budget.yaml", "spend rules show --budget cards", "spend rules diff other.yaml", "spend rules release --budget cards",
		"spend authorize card:7 30.00 --id a --tag category=travel --budget cards",
		"spend capture a 28.50 --final --budget cards", "spend charge card:7 2000 --id b --budget cards",
		"spend charge card:7 20 --id c --budget cards", "spend credit card:7 5 --budget cards",
		"spend upto card:7 700 --least 1 --hold --ttl 1h --id u --budget cards", "spend void u --budget cards",
		"spend limits card:7 --budget cards", "spend limits card:7 month=500 --budget cards",
		"spend rules set budget.yaml", "spend rules show --budget cards", "spend rules diff other.yaml", "spend rules release --budget cards",
		"spend authorize card:7 30.00 --id d --budget cards", "spend holds card:7 --budget cards", "spend get d --budget cards",
		"spend freeze card:7 --reason stolen --budget cards", "spend charge card:7 1 --budget cards",
		"spend able card:7 5 --budget cards", "spend cancel d card:7 --budget cards", "spend remaining card:7 --budget cards", "spend history card:7 --budget cards", "spend explain d --budget cards", "spend explain c --budget cards", "spend export --budget cards", "spend backtest --rules other.yaml", "spend verify --budget cards", "spend prune --budget cards",
	} {
		name, _, _ := strings.Cut(line, " ")
		r := cli(t, append(strings.Fields(line), "--json")...)
		if r.code == exitUsage || r.code == exitInternal {
			t.Errorf("%s: exit status %d, %s", line, r.code, r.stderr)
		}
		if shown[name] == nil {
			shown[name] = make(map[string]bool)
		}
		for d := json.NewDecoder(strings.NewReader(r.stdout)); d.More(); {
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatalf("%s prints %q: %v", line, r.stdout, err)
			}
			namesIn(v, shown[name])
		}
	}
	for name, printed := range shown {
		if sections[name] == nil {
			t.Errorf("docs/json.md has no section about %s", name)
		}
		for _, member := range slices.Sorted(maps.Keys(printed)) {
			if !sections[name][member] && !sections[""][member] {
				t.Errorf("docs/json.md does not describe the member %q of %s", member, name)
			}
		}
	}
}

// Each member in the first column of a table of docs/json.md is a member in the source.
func TestDocumentedJSONExists(t *testing.T) {
	var source strings.Builder
	for _, pattern := range []string{"*.go", "internal/*/*.go", "../../spend/*.go", "../../store/*.go", "../../internal/uiapi/*.go", "../../internal/spendreport/*.go", "internal/simulate/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	page, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]*`[^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(row[1], -1) {
			found++
			if !strings.Contains(source.String(), `json:"`+m[1]+`"`) && !strings.Contains(source.String(), `json:"`+m[1]+`,`) &&
				!strings.Contains(source.String(), `{"`+m[1]+`": `) {
				t.Errorf("docs/json.md describes %q, which no command prints", m[1])
			}
		}
	}
	if found < 80 {
		t.Errorf("found %d members; the search for them is broken", found)
	}
}
