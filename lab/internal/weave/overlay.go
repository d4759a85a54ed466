package weave

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Package is a package to weave.
type Package struct {
	Dir   string   // relative to the root of the repository
	Files []string // of the package; the other files have no operations of goroutines
	// Long are the fields whose mutexes are held during long calls. Each becomes a turn.Mutex, so
	// that points can lie under it.
	Long  []string
	Edits []Edit
}

// Edit is a change of a file's text before it is woven. Old occurs once in the file.
type Edit struct{ File, Old, New string }

// Overlay writes the woven files of packages to dir, and returns the path of a file for the flag
// -overlay. root is the path of the repository.
func Overlay(root, dir string, packages []Package) (string, error) {
	replace := make(map[string]string)
	write := func(name string, text []byte) error {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		replace[filepath.Join(root, filepath.FromSlash(name))] = file
		return os.WriteFile(file, text, 0o600)
	}
	for _, p := range packages {
		texts := make(map[string]string)
		for _, file := range p.Files {
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p.Dir), file))
			if err != nil {
				return "", err
			}
			texts[file] = string(text)
		}
		for _, e := range p.Edits {
			if n := strings.Count(texts[e.File], e.Old); n != 1 {
				return "", fmt.Errorf("weave: %s/%s has %d times, not once:\n%s", p.Dir, e.File, n, e.Old)
			}
			texts[e.File] = strings.Replace(texts[e.File], e.Old, e.New, 1)
		}
		w := newWeaver(p.Long)
		for _, file := range p.Files {
			if err := w.read(file, texts[file]); err != nil {
				return "", err
			}
		}
		for _, f := range w.files {
			text, err := w.weave(f)
			if err != nil {
				return "", err
			}
			if err := write(path.Join(p.Dir, f.name), text); err != nil {
				return "", err
			}
		}
	}
	const woven = "package turn\n\nconst Woven = true\n"
	if err := write("lab/sched/turn/woven.go", []byte(woven)); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, data, 0o600)
}
