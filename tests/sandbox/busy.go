// An extension in Go for a trial of the sandbox (tests/sandbox/programs.py), which compiles it. It
// speaks morphir: each line on stdin is a request in JSON. Before it answers, it uses what Go
// programs use: goroutines that block, timers, another process, a file.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

func work() error {
	var group sync.WaitGroup
	for i := 0; i < 20; i++ {
		group.Add(1)
		go func() { defer group.Done(); time.Sleep(time.Millisecond) }()
	}
	group.Wait()
	output, err := exec.Command("/bin/echo", "hi").Output()
	if err != nil || string(output) != "hi\n" {
		return fmt.Errorf("echo: %q %v", output, err)
	}
	return os.WriteFile("/tmp/written", output, 0o644)
}

func main() {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var request struct{ ID uint64; Method string }
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			os.Exit(1)
		}
		fmt.Printf("{\"id\":%d,\"result\":[]}\n", request.ID)
	}
}
