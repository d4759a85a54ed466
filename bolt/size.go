package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/brimgo/brim/store"
)

// Size returns the bytes of the file and of the journal beside it. The file of an application's
// database (see [New]) counts whole.
func (s *Store) Size(ctx context.Context) (int64, error) {
	err := s.check(ctx)
	var size int64
	if err == nil {
		size, err = s.size()
	}
	return size, store.Wrap(backend, "size", err)
}

func (s *Store) size() (size int64, err error) {
	files := []string{s.file.Path()}
	if s.logged != nil {
		files = append(files, s.logged.path)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		switch {
		case err == nil:
			size += info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return 0, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
	}
	return size, nil
}
