package crash

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/history"
)

// childEnv, in the environment, makes this test binary a child that can be killed.
const childEnv = "BRIM_CRASH_CHILD"

// serve carries out the request on the standard input, and writes its messages to the standard
// output, one a line.
func serve() error {
	var req history.Request
	if err := json.NewDecoder(os.Stdin).Decode(&req); err != nil {
		return err
	}
	var failed error
	history.Run(req, history.Hooks{Tell: func(n history.Note) bool {
		line, err := json.Marshal(n)
		if err == nil {
			_, err = os.Stdout.Write(append(line, '\n')) // one call: a kill leaves a whole line or none
		}
		failed = errors.Join(failed, err)
		return err == nil
	}})
	return failed
}

// life runs a history in a child, and kills the child after some messages and a moment. It returns
// the messages of the child.
func life(req history.Request, messages int, moment time.Duration) (notes []history.Note, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	order, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), childEnv+"=1", "GOMAXPROCS=2")
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	_, err = in.Write(order)
	err = errors.Join(err, in.Close())
	lines := bufio.NewReader(out)
	for err == nil {
		var line []byte
		if line, err = lines.ReadBytes('\n'); err != nil {
			break
		}
		var n history.Note
		if err = json.Unmarshal(line, &n); err == nil {
			notes = append(notes, n)
		}
		if len(notes) == messages {
			// Anything may happen in the moment before the kill.
			time.AfterFunc(moment, func() { _ = child.Process.Kill() })
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	_ = child.Process.Kill()
	_ = child.Wait() // killed, or at its end
	return notes, err
}

// lives kills one child after the other over the same file. It returns the number of kills, and the
// first broken promise.
func lives(seed harness.Seed, subject history.Subject, defect history.Defect) (kills int, err error) {
	r := seed.Rand()
	dir, err := history.Scratch()
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	possible := make([]history.Model, 1)
	for range 1 + r.IntN(4) {
		req := history.Request{
			Dir: dir, Subject: subject, Defect: defect, Seconds: history.Latest(possible), Free: true,
			Segment: history.Segments[r.IntN(len(history.Segments))], Ops: history.Random(r, subject, 10+r.IntN(30), 12),
		}
		notes, err := life(req, 1+r.IntN(2*len(req.Ops)), pause(r))
		if err != nil {
			return kills, err
		}
		kills++
		j := history.NewJudge(req, possible...)
		for _, n := range notes {
			if err := j.See(n); err != nil {
				return kills, err
			}
		}
		possible = j.Possible()
		now := history.Latest(possible)
		content, err := history.Look(dir, subject, now)
		if err != nil {
			return kills, err
		}
		if possible = history.Matching(possible, now, content); len(possible) == 0 {
			return kills, fmt.Errorf("after kill %d the file holds no possible content", kills)
		}
	}
	return kills, nil
}

func pause(r *rand.Rand) time.Duration {
	return time.Duration(r.IntN(1+r.IntN(1000))) * time.Microsecond
}
