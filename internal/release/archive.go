package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// member is a file of an archive.
type member struct {
	name string // with slashes, below the directory of the archive
	mode fs.FileMode
	text []byte
}

// archive writes members, in order of name, to base.tar.gz, or to base.zip for Windows. All of
// them have one time, so that the same members give the same archive.
func archive(base string, at time.Time, members []member) error {
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	write, suffix := tarred, ".tar.gz"
	if strings.Contains(filepath.Base(base), "_windows_") {
		write, suffix = zipped, ".zip"
	}
	f, err := os.Create(base + suffix)
	if err != nil {
		return err
	}
	return errors.Join(write(f, filepath.Base(base), at, members), f.Close())
}

func tarred(w io.Writer, dir string, at time.Time, members []member) error {
	compressed := gzip.NewWriter(w)
	t := tar.NewWriter(compressed)
	for _, m := range members {
		err := t.WriteHeader(&tar.Header{
			Name: path.Join(dir, m.name), Mode: int64(cmp.Or(m.mode, 0o644)), Size: int64(len(m.text)), ModTime: at, Format: tar.FormatPAX,
		})
		if err != nil {
			return err
		}
		if _, err := t.Write(m.text); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), compressed.Close())
}

func zipped(w io.Writer, dir string, at time.Time, members []member) error {
	z := zip.NewWriter(w)
	for _, m := range members {
		f, err := z.CreateHeader(&zip.FileHeader{Name: path.Join(dir, m.name), Method: zip.Deflate, Modified: at})
		if err != nil {
			return err
		}
		if _, err := f.Write(m.text); err != nil {
			return err
		}
	}
	return z.Close()
}
