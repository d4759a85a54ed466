package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Generation returns the generation of the newest frame of the journal at path, 0 if there is no
// frame. Each turn of the regions begins a generation, so the difference of two calls tells how
// often the regions took turns. Nothing may be appended meanwhile. Generation reads two headers and
// checks no frame.
func Generation(path string) (newest uint64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	region := (info.Size() - pageSize) / 2
	if region < headerSize {
		return 0, fmt.Errorf("%w: it is cut short", ErrDamaged)
	}
	b := make([]byte, headerSize)
	for _, at := range []int64{pageSize, pageSize + region} {
		if _, err := file.ReadAt(b, at); err != nil && err != io.EOF {
			return 0, err
		}
		if h, ok := parseHeader(b); ok {
			newest = max(newest, h.generation)
		}
	}
	return newest, nil
}
