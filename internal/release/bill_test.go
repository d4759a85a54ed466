package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// The bill of this test's own binary has all modules that it links, and no module escapes the check
// of licences.
func TestBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	rel := &release{version: "v1.2.3", date: time.Unix(0, 0).UTC(), modules: map[string]*dependency{
		"std": {Path: "std", Version: info.GoVersion, Licences: []string{"BSD-3-Clause"}, Texts: []string{"Redistribution"}},
	}}
	for _, dep := range info.Deps {
		rel.modules[dep.Path] = &dependency{Path: dep.Path, Version: dep.Version, Licences: []string{"MIT"}, Texts: []string{"Permission"}}
	}
	linked, err := links(rel, self)
	if err != nil {
		t.Fatal(err)
	}
	text, err := bill(rel, []byte("program"), linked)
	if err != nil {
		t.Fatal(err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if n := len(*bom.Components); n != len(info.Deps)+1 || bom.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("the bill of %s has %d components; want %d", bom.Metadata.Component.Version, n, len(info.Deps)+1)
	}
	for _, c := range *bom.Components {
		if c.Name != "std" && (c.Hashes == nil || c.Licenses == nil || c.PackageURL == "") {
			t.Errorf("%s lacks a hash, a licence or a URL", c.Name)
		}
	}
	if got := string(notices(linked).text); strings.Count(got, "Permission") != len(info.Deps) || !strings.Contains(got, "Redistribution") {
		t.Errorf("the notices are\n%s", got)
	}

	const first = "github.com/CycloneDX/cyclonedx-go"
	forTests[first] = "MPL-2.0"
	_, err = links(rel, self)
	delete(forTests, first)
	if err == nil || !strings.Contains(err.Error(), "for tests only") {
		t.Errorf("a program may link a module that is for tests: %v", err)
	}
	delete(rel.modules, first)
	if _, err := links(rel, self); err == nil || !strings.Contains(err.Error(), first) {
		t.Errorf("a module without a known licence is linked: %v", err)
	}
}

// A licence that is not on the list stops the release.
func TestLicences(t *testing.T) {
	r := here(t)
	modules, err := r.licences(t.Context(), []string{"linux/amd64", "windows/amd64"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"go.etcd.io/bbolt": "MIT", "github.com/redis/go-redis/v9": "BSD-2-Clause", "std": "BSD-3-Clause"} {
		if m := modules[path]; m == nil || len(m.Licences) != 1 || m.Licences[0] != want {
			t.Errorf("%s: %+v; want %s", path, m, want)
		}
	}
	if modules["github.com/inconshreveable/mousetrap"] == nil {
		t.Error("a module that only Windows links is missing")
	}
	saved := allowed
	defer func() { allowed = saved }()
	allowed = []string{"MIT"}
	if _, err := r.licences(t.Context(), []string{"linux/amd64"}); err == nil || !strings.Contains(err.Error(), "go-redis") {
		t.Errorf("a licence that is not allowed passes: %v", err)
	}
}
