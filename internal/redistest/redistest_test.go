package redistest

import (
	"bufio"
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
