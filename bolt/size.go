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
// database (see [New]) counts whole. See [store.Store].
func (s *Store) Size(ctx context.Context) (int64, error) {
	if err := s.check(ctx); err != nil {
		return 0, store.Wrap(backend, "size", err)
	}
	files := []string{s.file.Path()}
	if s.logged != nil {
		files = append(files, s.logged.path)
	}
	var size int64
	for _, file := range files {
		info, err := os.Stat(file)
		switch {
		case err == nil:
			size += info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return 0, store.Wrap(backend, "size", fmt.Errorf("%w: %w", store.ErrUnavailable, err))
		}
	}
	return size, nil
}
