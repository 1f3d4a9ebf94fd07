package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const dirPrefix = "shapeserver-pgtest-"

// makeDir makes the cluster's folder, owned by the server's user, and takes its lock. The kernel drops the lock when
// this process ends in whatever way, which is how removeOrphans tells a folder that is in use from one left behind.
func makeDir(cred *syscall.Credential) (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp("", dirPrefix); err != nil {
		return "", nil, fmt.Errorf("make data folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return "", nil, fmt.Errorf("make lock file: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return "", nil, fmt.Errorf("lock data folder: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sock"), 0o700); err != nil {
		return "", nil, fmt.Errorf("make socket folder: %w", err)
	}
	if cred != nil {
		for _, p := range []string{dir, filepath.Join(dir, "sock")} {
			if err := os.Chown(p, int(cred.Uid), int(cred.Gid)); err != nil {
				return "", nil, fmt.Errorf("hand folder to the server's user: %w", err)
			}
		}
	}
	return dir, lock, nil
}

// removeOrphans removes the folders of owners that were killed. A postmaster that still runs there ends by itself
// within a minute, when it misses its postmaster.pid. No process is signalled here, because a process id read from a
// file may belong to somebody else by now; and a young folder is left alone, because its owner may be about to lock it.
func removeOrphans() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue // somebody else's, or just being made
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir) // best effort: the next start tries again
		}
		lock.Close()
	}
}

// serverUser returns the user that the server runs as: ourselves (nil), or, for root, whom Postgres refuses, the user
// postgres or else nobody.
func serverUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("we are root, which postgres refuses, and there is neither a user postgres nor nobody")
}
