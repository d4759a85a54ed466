package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress is a line on a terminal that shows the progress of long work. It writes nothing if
// stderr is not a terminal.
type progress struct {
	label string
	w     io.Writer // nil if stderr is not a terminal
	start time.Time
	stop  chan struct{}
	once  sync.Once
	done  sync.WaitGroup
	mu    sync.Mutex
	share float64 // of the work that is done; 0 if not known
	note  string
}

// progress begins a line. The caller must end it before it writes anything else to stderr.
func (a *app) progress(label string) *progress {
	p := &progress{label: label, start: time.Now(), stop: make(chan struct{})}
	if !a.terminal() {
		return p
	}
	p.w = a.stderr
	p.done.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.draw()
			case <-p.stop:
				fmt.Fprint(p.w, "\r\x1b[K")
				return
			}
		}
	})
	return p
}

// set updates the share of the work that is done, and the note behind it.
func (p *progress) set(share float64, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share, p.note = share, note
}

// end removes the line. It may be called more than once.
func (p *progress) end() {
	p.once.Do(func() { close(p.stop) })
	p.done.Wait()
}

func (p *progress) draw() {
	const width = 30
	p.mu.Lock()
	share, note := min(p.share, 1), p.note
	p.mu.Unlock()
	state := time.Since(p.start).Round(time.Second).String()
	if share > 0 {
		full := int(share * width)
		state = fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("=", full), strings.Repeat(" ", width-full), 100*share)
	}
	fmt.Fprintf(p.w, "\r%s %s %s\x1b[K", p.label, state, note)
}

// terminal reports whether stderr is a terminal that somebody may watch.
func (a *app) terminal() bool {
	f, ok := a.stderr.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, ok = terminalWidth(f)
	return ok
}
