package history

import (
	"context"
	"errors"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/store"
)

// Look opens the file in dir when the clock shows seconds, and returns its content. It then fills a
// bucket and verifies the whole file, because a store must be usable after it was opened.
func Look(dir string, seconds int) (c Content, err error) {
	now := At(seconds)
	s, err := bolt.Open(Path(dir), options(func() time.Time { return now }))
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx := context.Background()
	states, err := s.Read(ctx, buckets()...)
	if err != nil {
		return c, err
	}
	for k, st := range states {
		c[k].Level, c[k].Held = st.Level, st.Held
	}
	probe := store.Op{Bucket: store.Limit{Capacity: 1}.For("probe"), Amount: 1, Mode: store.Always}
	if _, err := s.Fill(ctx, probe); err != nil {
		return c, err
	}
	return c, s.Verify(ctx)
}
