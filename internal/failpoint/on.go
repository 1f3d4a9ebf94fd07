//go:build failpoint

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// EnvDir names the environment variable with the folder of the orders. The file DIR/POINT holds what to do there: error,
// panic, kill (SIGKILL to this process) or "delay 300ms", and after it, separated by a blank, how often ("error 3"). An
// order is taken off before it is carried out, so that it outlives neither a kill nor a restart, and DIR/POINT.hit says that
// it was.
const EnvDir = "FAILPOINTS_DIR"

// ErrInjected is what a point gives that is ordered to fail.
var ErrInjected = errors.New("failpoint")

var (
	dir = os.Getenv(EnvDir)
	mu  sync.Mutex
)

// Err is called where a step can fail: it carries out the order for the point, and returns an ErrInjected when that is to
// fail.
func Err(p Point) error {
	order, ok := take(p)
	if !ok {
		return nil
	}
	fmt.Fprintf(os.Stderr, "failpoint %s: %s\n", p, order)
	switch {
	case order == "error":
		return fmt.Errorf("%w: %s", ErrInjected, p)
	case order == "panic":
		panic("failpoint " + string(p))
	case order == "kill":
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		select {} // the signal is on its way
	case strings.HasPrefix(order, "delay "):
		d, err := time.ParseDuration(strings.TrimPrefix(order, "delay "))
		if err != nil {
			panic(err)
		}
		time.Sleep(d) //nolint:forbidigo // this is what the point is for
	default:
		panic("failpoint " + string(p) + ": unknown order " + order)
	}
	return nil
}

// Hit is called where a step cannot fail. An order to fail is a mistake of the test.
func Hit(p Point) {
	if err := Err(p); err != nil {
		panic(err)
	}
}

// take takes one order off.
func take(p Point) (order string, ok bool) {
	if dir == "" {
		return "", false
	}
	path := filepath.Join(dir, string(p))
	mu.Lock()
	defer mu.Unlock()
	text, err := os.ReadFile(path)
	if err != nil {
		return "", false
	}
	order = strings.TrimSpace(string(text))
	times := 1
	if head, tail, cut := cutLast(order); cut {
		if n, err := strconv.Atoi(tail); err == nil {
			order, times = head, n
		}
	}
	if times > 1 {
		err = os.WriteFile(path, []byte(order+" "+strconv.Itoa(times-1)), 0o600)
	} else {
		err = os.Remove(path)
	}
	if err == nil {
		err = os.WriteFile(path+".hit", nil, 0o600)
	}
	if err != nil {
		panic(err)
	}
	return order, true
}

func cutLast(s string) (head, tail string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
