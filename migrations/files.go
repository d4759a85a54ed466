package migrations

import (
	"archive/zip"
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.sql
var embedded embed.FS

// Files returns the migrations with the names of o: the files 0001_buckets.up.sql,
// 0001_buckets.down.sql and so on, all of them in the root. Run each as one query of several
// statements. Each may run again.
func Files(o *Options) (fs.FS, error) {
	p, err := newPlan(o)
	if err != nil {
		return nil, fail("files", err)
	}
	files, err := p.files()
	return files, fail("files", err)
}

// files renders the migrations into a zip archive in memory, which package archive/zip reads as a
// file system.
func (p plan) files() (fs.FS, error) {
	names, err := fs.Glob(embedded, "*.sql")
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, name := range names {
		text, err := p.read(name)
		if err != nil {
			return nil, err
		}
		f, err := w.Create(name)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write([]byte(text)); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
}

// read returns one migration with the names of the plan.
func (p plan) read(name string) (string, error) {
	text, err := embedded.ReadFile(name)
	if err != nil {
		return "", err
	}
	unlogged := ""
	if p.unlogged {
		unlogged = "UNLOGGED "
	}
	return p.Render(string(text), "{{unlogged}}", unlogged), nil
}

// SQL returns one script with the effect of [Up], for a person or another tool to run. It
// contains every migration, and records them as applied, so that Up finds nothing to do
// afterwards. The script is one transaction, and may run again.
func SQL(o *Options) (string, error) {
	p, err := newPlan(o)
	if err != nil {
		return "", fail("sql", err)
	}
	names, err := fs.Glob(embedded, "*.up.sql")
	if err != nil {
		return "", fail("sql", err)
	}
	var b strings.Builder
	b.WriteString("BEGIN;\n")
	for _, name := range names {
		text, err := p.read(name)
		if err != nil {
			return "", fail("sql", err)
		}
		fmt.Fprintf(&b, "\n-- %s\n\n%s", name, text)
	}
	versions, err := known()
	if err != nil {
		return "", fail("sql", err)
	}
	b.WriteString(p.Render(note, "{{version}}", strconv.Itoa(versions[len(versions)-1])))
	b.WriteString("\nCOMMIT;\n")
	return b.String(), nil
}

// note records the migrations as applied.
const note = `
-- migrations.Up and golang-migrate read this table. Leave it out if another tool records the applied migrations.

CREATE TABLE IF NOT EXISTS {{schema}}.{{versions}} (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL);
DELETE FROM {{schema}}.{{versions}} WHERE version OPERATOR(pg_catalog.<=) {{version}};
INSERT INTO {{schema}}.{{versions}} (version, dirty)
SELECT {{version}}, false WHERE NOT EXISTS (SELECT FROM {{schema}}.{{versions}});
`

// known returns the versions for which this program has migrations, in ascending order.
func known() ([]int, error) {
	names, err := fs.Glob(embedded, "*.up.sql")
	if err != nil {
		return nil, err
	}
	var versions []int
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		v, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number in front of its first underscore", name)
		}
		versions = append(versions, v)
	}
	slices.Sort(versions)
	return versions, nil
}
