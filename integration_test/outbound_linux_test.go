package integration

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// confineVariable tells this test binary to become the program that it names, in confine.
const confineVariable = "SHAPESERVER_TEST_CONFINE"

func init() {
	if program := os.Getenv(confineVariable); program != "" {
		panic(confine(program, os.Args[1:])) // it returns only when it fails
	}
}

// confine becomes a program which the kernel kills when it opens a connection, or sends a datagram, to an address of IPv4 or
// IPv6. Unix sockets, and being connected to, are free. A filter of system calls cannot look at an address, but at its length.
func confine(program string, args []string) error {
	const (
		load, jumpEqual, give = 0x20, 0x15, 0x06 // BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
		kill, allow           = 0x80000000, 0x7fff0000
		number, arg2, arg5    = 0, 16 + 2*8, 16 + 5*8 // in struct seccomp_data
		noNewPrivs, filter    = 38, 2                 // PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER
	)
	prog := []syscall.SockFilter{
		{Code: load, K: number},
		{Code: jumpEqual, K: syscall.SYS_CONNECT, Jf: 2}, // else the next jump
		{Code: load, K: arg2},
		{Code: jumpEqual, K: syscall.SizeofSockaddrInet4, Jt: 4, Jf: 3},
		{Code: jumpEqual, K: syscall.SYS_SENDTO, Jf: 4},
		{Code: load, K: arg5},
		{Code: jumpEqual, K: syscall.SizeofSockaddrInet4, Jt: 1},
		{Code: jumpEqual, K: syscall.SizeofSockaddrInet6, Jf: 1},
		{Code: give, K: kill},
		{Code: give, K: allow},
	}
	runtime.LockOSThread() // the filter is the thread's, and exec's
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	fprog := syscall.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_SECCOMP, filter, uintptr(unsafe.Pointer(&fprog)), 0, 0, 0); errno != 0 {
		return errno
	}
	if err := os.Unsetenv(confineVariable); err != nil {
		return err
	}
	return syscall.Exec(program, append([]string{program}, args...), os.Environ())
}

// B198: the server connects to its database and to nobody else, and asks no name server. The database is behind a Unix
// socket here, so the first connection to anything else ends the server.
func TestServerCallsNobody(t *testing.T) {
	// The trap works, for both families and for datagrams.
	self, err := os.Executable()
	require.NoError(t, err)
	for _, call := range []string{"/dev/tcp/127.0.0.1/9", "/dev/tcp/::1/9", "/dev/udp/127.0.0.1/9"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, self, "-c", "echo alive; exec 3<>"+call+"; echo called")
		cmd.Env = append(os.Environ(), confineVariable+"=/bin/bash")
		out, err := cmd.Output()
		cancel()
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended, "%s: %s", call, out)
		require.Equal(t, "alive\n", string(out))
		status, ok := ended.Sys().(syscall.WaitStatus)
		require.True(t, ok)
		require.True(t, status.Signaled() && status.Signal() == syscall.SIGSYS, "%s: %v", call, err)
	}

	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE oc (id int PRIMARY KEY, v text); INSERT INTO oc VALUES (1, 'a')")
	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	dir := forwardSocket(t, u.Host)
	u.Host = ""
	u.RawQuery = url.Values{"host": {dir}, "sslmode": {"disable"}}.Encode()
	srv := newProcess(t, db, confineVariable+"="+binary(t), "DATABASE_URL="+u.String(), "SHAPESERVER_LONG_POLL_TIMEOUT=1s", "SHAPESERVER_RECONCILE_PERIOD=1s",
		"SHAPESERVER_SHAPE_SUSPEND_AFTER=200ms", "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=500ms", "SHAPESERVER_SCHEMA_RECONCILER_PERIOD=500ms", "SHAPESERVER_ENABLE_INTEGRATION_TESTING=true")
	srv.bin = self
	srv.start(t)
	f, subset := NewFold(srv.url, shape("table", "oc")), shape("table", "oc", "offset", "-1", "subset__limit", "1", "subset__order_by", "id")
	require.NoError(t, f.CatchUp(t.Context()))
	for range 3 {
		db.Exec(t, "INSERT INTO oc SELECT max(id) + 1, 'x' FROM oc")
		requireSame(t, f, db, "SELECT * FROM oc")
		for _, params := range []url.Values{subset, shape("table", "nosuch", "offset", "-1"), shape("table", "oc", "offset", f.Offset, "handle", f.Handle, "live", "true")} {
			status, body := ask(t, srv, http.MethodGet, params)
			require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, status, body)
		}
	}
	status, body := ask(t, srv, http.MethodDelete, shape("table", "oc"))
	require.Equal(t, http.StatusAccepted, status, body)
	srv.restart(t)
	requireSame(t, NewFold(srv.url, shape("table", "oc")), db, "SELECT * FROM oc")
	srv.stop(t)
}

// forwardSocket forwards the Unix socket of a Postgres in the folder that it returns to an address of TCP.
func forwardSocket(t *testing.T, address string) (dir string) {
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // a socket's path may have 107 bytes, a test's folder has more
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, ".s.PGSQL.5432"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", address)
			if err != nil {
				_ = near.Close()
				continue
			}
			go forward(far, near)
			go forward(near, far)
		}
	}()
	return dir
}

// forward copies until either side ends, and then ends both.
func forward(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err == nil || errors.Is(err, net.ErrClosed) {
		_ = to.Close()
	}
	_ = from.Close()
}
