// Package turns makes a block of calls, or one start, for each line on stdin; until stdin ends.
package turns

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"sync"
)

const inFlight = 100

// Arguments are those of the program: CALLS TEXT SERVER…
type Arguments struct {
	Calls  int
	Text   string
	Server []string
}

// A Client is connected to a server of its own, whose tools it has listed.
type Client struct {
	Call  func()
	Close func()
}

func Read() Arguments {
	calls, err := strconv.Atoi(os.Args[1])
	Check(err)
	return Arguments{calls, os.Args[2], os.Args[3:]}
}

func Check(err error) {
	if err != nil {
		panic(err)
	}
}

// Run answers `go` with a block of calls, a hundred in flight, and then `done`. It answers `start`
// with `started` when another client has its first result, and with `closed` when that has ended.
func Run(calls int, connect func() Client) {
	client := connect()
	client.Call()
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "start" {
			another := connect()
			another.Call()
			fmt.Println("started")
			another.Close()
			fmt.Println("closed")
			continue
		}
		var group sync.WaitGroup
		for range inFlight {
			group.Go(func() {
				for range calls / inFlight {
					client.Call()
				}
			})
		}
		group.Wait()
		fmt.Println("done")
	}
	client.Close()
}
