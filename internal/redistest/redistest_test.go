package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const envHelper = "BRIM_REDISTEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(envHelper) != "" {
		helper()
	}
	Main(m)
}

// helper is the main function of a process that starts a server, prints its address and directory,
// and waits to be killed.
func helper() {
	s, err := Launch()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.Addr(), s.dir)
	select {}
}

func TestServerEndsWithKilledProcess(t *testing.T) {
	skipShort(t)
	count(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envHelper+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok || dir == "" {
		t.Fatalf("helper said %q: %v", line, err)
	}
	if conn, err := net.Dial("tcp", addr); err != nil {
		t.Fatalf("the server does not answer while its process lives: %v", err)
	} else if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("helper ended by itself")
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server's directory is still there: %v", err)
		}
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the server still answers")
	}
}

func TestServerKeepsWhatItSynced(t *testing.T) {
	s := NewServer(t, "appendonly yes", "appendfsync always")
	c := s.Client(t)
	ctx := t.Context()
	for i, stop := range []func() error{s.Kill, s.Stop} {
		if err := c.Set(ctx, "kept", i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if err := c.Ping(ctx).Err(); err == nil {
			t.Error("a stopped server answers")
		}
		if err := s.Start("maxclients 77"); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Get(ctx, "kept").Int(); err != nil || got != i {
			t.Errorf("%d, %v after stop %d", got, err, i)
		}
		if got, err := c.ConfigGet(ctx, "maxclients").Result(); err != nil || got["maxclients"] != "77" {
			t.Errorf("%v, %v: want the line of Start", got, err)
		}
	}
}

func TestPause(t *testing.T) {
	s := NewServer(t)
	c := s.Client(t).WithTimeout(50 * time.Millisecond)
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a paused server answers")
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := s.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestLaunchExplains(t *testing.T) {
	skipShort(t)
	count(t)
	if _, err := Launch("nonsense 1"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v: want the server's own words", err)
	}
	t.Setenv(envRedis, "no-such-program")
	if _, err := Launch(); err == nil || !strings.Contains(err.Error(), envRedis) {
		t.Errorf("%v: want the name of the variable", err)
	}
}

func TestMissingSaysWhatHelps(t *testing.T) {
	for _, word := range []string{"Redis", envRedis} {
		if err := missing(); !strings.Contains(err.Error(), word) {
			t.Errorf("%v: does not mention %s", err, word)
		}
	}
}

func TestClusterServesEverySlot(t *testing.T) {
	c := ClusterClient(t)
	var prefix string
	t.Run("filled", func(t *testing.T) {
		prefix = Prefix(t, c)
		for i := range 100 {
			if err := c.Set(t.Context(), fmt.Sprint(prefix, i), i, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if other := Prefix(t, c); other == prefix {
			t.Error("two tests got one prefix")
		}
	})
	for i := range 100 {
		if n, err := c.Exists(context.Background(), fmt.Sprint(prefix, i)).Result(); err != nil || n != 0 {
			t.Fatalf("%d keys, %v: want the test's keys removed at its end", n, err)
		}
	}
}
