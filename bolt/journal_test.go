package bolt

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// pausing is a log that stops at lines with a text: the one who logs such a line goes on when the
// reader of lines lets it.
type pausing struct {
	text  string
	lines chan string
	goOn  chan struct{}
}

func (p pausing) Write(b []byte) (int, error) {
	if strings.Contains(string(b), p.text) {
		p.lines <- string(b)
		<-p.goOn
	}
	return len(b), nil
}

// longFills returns fills of n new buckets, half a kilobyte each.
func longFills(prefix string, n int) []store.Txn {
	txns := make([]store.Txn, n)
	for i := range txns {
		key := fmt.Sprint(prefix, i)
		txns[i] = store.Txn{op(steady, key+strings.Repeat("-", 500-len(key)), 1, store.Always)}
	}
	return txns
}

// TestFileThatCannotGrow: while the file has no room, a store goes on with its journal, and each
// flush makes it try the file again. A change that no segment takes is refused, and the journal
// keeps all changes that the file lacks. When it is full, calls are refused and say so. After a
// kill, and when the file has room again, the store has all that it acknowledged, and no more.
func TestFileThatCannotGrow(t *testing.T) {
	failed := pausing{"could not be written to the file", make(chan string, 100), make(chan struct{})}
	s := openTemp(t, &Options{logSegment: 512 << 10, Logger: slog.New(slog.NewTextHandler(failed, nil))})
	apply := func(txns []store.Txn) error { _, err := s.Apply(t.Context(), txns...); return err }
	fillup(t, s, "k", 1)
	fillup(t, s, "k", 1)
	database(s).MaxSize = 1
	if err := apply(longFills("first", 900)); err != nil { // most of a segment
		t.Fatal(err)
	}
	// tried waits until the file was tried, and calls then, which lets the store go on.
	tried := func(after string, then func()) {
		t.Helper()
		select {
		case <-failed.lines:
		case <-time.After(20 * time.Second):
			t.Fatalf("after the %s change the file was not tried", after)
		}
		then()
	}
	fill := func(prefix string, n int) {
		t.Helper()
		must(t, apply(longFills(prefix, n)))
	}
	fill("second", 150) // begins the other segment
	tried("second", func() {
		fill("third", 1)
		failed.goOn <- struct{}{}
	})
	tried("third", func() { close(failed.goOn) })
	failsWith(t, apply(longFills("large", 1500)), store.ErrUnavailable, "nothing was applied") // goes straight to the file
	failsWith(t, apply(longFills("refused", 900)), store.ErrUnavailable, "the journal is full, and the file could not be written")
	is := func(path string, level float64) {
		t.Helper()
		again := openAt(t, path, nil)
		levelIs(t, again, "k", level)
		if entries, err := paging.All(t.Context(), again, ""); err != nil || len(entries) != 1+900+150+1 {
			t.Errorf("%d buckets, %v; want 1052", len(entries), err)
		}
	}
	again := openAt(t, copyTo(t, s, t.TempDir()), &Options{logSegment: 512 << 10})
	database(again).MaxSize = 1
	_, err := again.Apply(t.Context(), longFills("refused", 900)...) // would take the segment that the file lacks
	failsWith(t, err, store.ErrUnavailable, "the journal is full, and the file could not be written")
	is(copyTo(t, again, t.TempDir()), 2)
	database(again).MaxSize = 0
	database(s).MaxSize = 0
	fillup(t, s, "k", 1)
	closeStore(t, s)
	is(s.db.File().Path(), 3)
}

// TestJournalThatCannotBegin: the commit that refers to a new journal fails. The journal is
// removed, and a later change begins another.
func TestJournalThatCannotBegin(t *testing.T) {
	var log bytes.Buffer
	s := openTemp(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	dir := filepath.Dir(s.db.File().Path())
	fillup(t, s, "k", 1)
	database(s).MaxSize = 1
	_, err := s.Apply(t.Context(), longFills("refused", 900)...)
	failsWith(t, err, store.ErrUnavailable)
	leftOver(t, dir, "limits.db")
	if text := log.String(); strings.Contains(text, "could not be removed") {
		t.Errorf("logged %s; the journal was removed", text)
	}
	database(s).MaxSize = 0
	fillup(t, s, "k", 1)
	leftOver(t, dir, "limits.db", "limits.db.journal")
	levelIs(t, openAt(t, copyTo(t, s, t.TempDir()), nil), "k", 2)
}
