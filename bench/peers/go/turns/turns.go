// Package turns makes a block of calls, a hundred in flight, for each line on stdin; until stdin ends.
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

// Run says that it is ready, and then that each block is done.
func Run(calls int, call func()) {
	call()
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var group sync.WaitGroup
		for range inFlight {
			group.Go(func() {
				for range calls / inFlight {
					call()
				}
			})
		}
		group.Wait()
		fmt.Println("done")
	}
}
