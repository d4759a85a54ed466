package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// link is a module that a program links.
type link struct {
	*dependency
	sum string // of go.sum; "" for the standard library
}

// links returns the modules that the Go linker says it has linked into a program, and the standard
// library behind them.
func links(rel *release, path string) ([]link, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []link
	for _, dep := range append(info.Deps, &debug.Module{Path: "std"}) {
		m := rel.modules[dep.Path]
		switch {
		case dep.Replace != nil:
			return nil, fmt.Errorf("the program links a replacement of %s", dep.Path)
		case m == nil:
			return nil, fmt.Errorf("the program links %s, which is not among the dependencies whose licences were read", dep.Path)
		case forTests[dep.Path] != "":
			return nil, fmt.Errorf("the program links %s, whose licence %s is allowed for tests only", dep.Path, forTests[dep.Path])
		}
		all = append(all, link{m, dep.Sum})
	}
	return all, nil
}

// bill returns the bill of materials of a program in the format CycloneDX: the modules that it
// links, with their licences.
func bill(rel *release, program []byte, linked []link) ([]byte, error) {
	main := component(cyclonedx.ComponentTypeApplication, rootPath, rel.version, []string{"MIT"})
	hash := sha256.Sum256(program)
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(hash[:])}}

	var components []cyclonedx.Component
	var refs []string
	for _, l := range linked {
		c := component(cyclonedx.ComponentTypeLibrary, l.Path, l.Version, l.Licences)
		// go.sum holds the SHA-256 of the list of the module's files.
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(l.sum, "h1:")); err == nil && len(raw) == sha256.Size {
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
		}
		components = append(components, c)
		refs = append(refs, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: rel.date.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func component(kind cyclonedx.ComponentType, name, version string, licences []string) cyclonedx.Component {
	var list cyclonedx.Licenses
	for _, id := range licences {
		list = append(list, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	purl := "pkg:golang/" + name + "@" + version
	return cyclonedx.Component{BOMRef: purl, Type: kind, Name: name, Version: version, PackageURL: purl, Licenses: &list}
}
