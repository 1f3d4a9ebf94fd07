//go:build unix

package devserver

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the user that Postgres runs as: the present one, unless that is root, which Postgres refuses.
type owner struct {
	name     string
	uid, gid int
	// other is set if it is not the present user.
	other bool
}

// stand-ins are users without rights of their own that systems commonly have, the fitting ones first.
var standIns = []string{"postgres", "_postgres", "nobody"}

func findOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range standIns {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil && uid != 0 {
			return owner{name: name, uid: uid, gid: gid, other: true}, nil
		}
	}
	return owner{}, errors.New("this is root, as whom Postgres does not run, and there is no user postgres or nobody to run it as: start shapeserver dev as an ordinary user, or set DATABASE_URL")
}

// attributes makes a command run as the owner.
func (o owner) attributes() *syscall.SysProcAttr {
	if !o.other {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}}
}

// mayEnter reports whether the owner can reach dir: whether it may pass every folder above it. A folder that does
// not exist yet will be made passable.
func (o owner) mayEnter(dir string) bool {
	if !o.other {
		return true
	}
	for {
		info, err := os.Stat(dir)
		if err == nil {
			mode := info.Mode().Perm()
			stat, ok := info.Sys().(*syscall.Stat_t)
			passable := mode&0o001 != 0
			if ok && int(stat.Uid) == o.uid {
				passable = mode&0o100 != 0
			} else if ok && int(stat.Gid) == o.gid {
				passable = mode&0o010 != 0
			}
			if !passable {
				return false
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// makeFolder makes dir, private to the owner, or checks that an existing one is the owner's.
func (o owner) makeFolder(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, os.ErrExist):
		info, err := os.Lstat(dir)
		if err != nil {
			return fmt.Errorf("look at folder: %w", err)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || ok && int(stat.Uid) != o.uid {
			return fmt.Errorf("%s does not belong to the user that Postgres runs as (uid %d): remove it, or give another folder with --data", dir, o.uid)
		}
		return nil
	case err != nil:
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.Chown(dir, o.uid, o.gid); err != nil && o.other {
		return errors.Join(fmt.Errorf("give folder to %s: %w", o.name, err), os.Remove(dir))
	}
	return nil
}
