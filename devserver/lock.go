//go:build unix

package devserver

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ErrInUse reports that another process uses the data folder. The caller stops that one, or takes another folder.
var ErrInUse = errors.New("the data folder is in use")

// lockFolder takes the folder's lock, which the system gives back when the process ends, however it ends.
func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = errors.Join(err, f.Close())
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		holder := ""
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
			holder = " (process " + strings.TrimSpace(string(text)) + ")"
		}
		return nil, fmt.Errorf("%w: another shapeserver dev%s runs on it; stop that one, or give this one a folder of its own with --data DIR", ErrInUse, holder)
	}
	if err := errors.Join(f.Truncate(0), writePid(f)); err != nil {
		return nil, errors.Join(fmt.Errorf("write lock: %w", err), f.Close())
	}
	return f, nil
}

func writePid(f *os.File) error {
	_, err := fmt.Fprintf(f, "%d\n", os.Getpid())
	return err
}
