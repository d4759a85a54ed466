package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// bill returns the bill of materials of a program in the format CycloneDX: the modules that the
// Go linker says it has linked, with their licences.
func bill(rel *release, path string, program member) ([]byte, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	main := component(cyclonedx.ComponentTypeApplication, rootPath, rel.version, []string{"MIT"})
	hash := sha256.Sum256(program.text)
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(hash[:])}}

	var components []cyclonedx.Component
	var refs []string
	add := func(name, version, sum string) error {
		m := rel.modules[name]
		if m == nil {
			return fmt.Errorf("the program links %s, which is not among the dependencies whose licences were read", name)
		}
		if forTests[name] != "" {
			return fmt.Errorf("the program links %s, whose licence %s is allowed for tests only", name, forTests[name])
		}
		c := component(cyclonedx.ComponentTypeLibrary, name, version, m.Licences)
		// go.sum holds the SHA-256 of the list of the module's files.
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) == sha256.Size {
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
		}
		components = append(components, c)
		refs = append(refs, c.BOMRef)
		return nil
	}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			return nil, fmt.Errorf("the program links a replacement of %s", dep.Path)
		}
		if err := add(dep.Path, dep.Version, dep.Sum); err != nil {
			return nil, err
		}
	}
	if err := add("std", info.GoVersion, ""); err != nil {
		return nil, err
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
