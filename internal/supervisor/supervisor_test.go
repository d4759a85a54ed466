package supervisor

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// script answers each command, and "start" with the end of the server before the answer.
const script = `while read -r word rest; do
[ "$word" = start ] && echo "ended 1"
[ "$word" = fail ] && echo "fail 3" && continue
echo "$word 0"
done
touch "$1/gone"`

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(script, nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	if s.Ended(time.Millisecond) != true { // no server has been started
		t.Error("a supervisor without a server has one that runs")
	}
	if err := s.Ask("start now", time.Minute); err != nil {
		t.Error(err)
	}
	if !s.Ended(time.Minute) {
		t.Error("the end of the server went unnoticed")
	}
	if err := s.Ask("fail", time.Minute); err == nil || err.Error() != "fail failed: exit status 3" {
		t.Errorf("a command that failed: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "gone")); err != nil {
		t.Errorf("Close returned before the script had ended: %v", err)
	}
}

func TestStartWithoutShell(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Start(script, nil); err == nil {
		t.Error("started without a shell")
	}
}
