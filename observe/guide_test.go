package observe_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/observe"
)

// observeBolt holds code of docs/observability.md word for word, so that it compiles and runs.
func observeBolt(use func(*brim.Limiter) error) error {
	hooks := observe.Log(slog.Default(), nil)
	db, err := bolt.Open("limits.db", &bolt.Options{Trace: hooks.Trace()}) // postgres.Options has Trace, too
	if err != nil {
		return err
	}
	s, err := observe.New(db, hooks, nil)
	if err != nil {
		return err
	}
	defer s.Close() // closes db, too
	lim := brim.New(s, nil)
	return use(lim)
}

func TestGuide(t *testing.T) {
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	err := observeBolt(func(lim *brim.Limiter) error {
		_, err := lim.TryFillup(t.Context(), brim.Limit{Capacity: 1}.For("k"), 1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`msg="brim: accepted"`, `msg="brim: flushed" backend=bolt`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("logged\n%swant %s", &out, want)
		}
	}
}
