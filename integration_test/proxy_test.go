package integration

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxies are the caches for which deploy/ has a configuration, by name: start puts one, a process of its own, in front of
// the server at origin (host:port) and returns its URL. It skips the test where the program is not installed.
var proxies = map[string]func(t *testing.T, origin string) string{"nginx": startNginx, "varnish": startVarnish}

// shipped reads a configuration of deploy/ and changes the places that a reader of it would change. Each must be there
// exactly once.
func shipped(t *testing.T, name string, changes ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "deploy", name))
	require.NoError(t, err)
	text := string(b)
	for i := 0; i+1 < len(changes); i += 2 {
		require.Equal(t, 1, strings.Count(text, changes[i]), "%q in deploy/%s", changes[i], name)
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return text
}

func startNginx(t *testing.T, origin string) string {
	t.Helper()
	program := needProgram(t, "nginx")
	dir, port := t.TempDir(), freePort(t)
	site := shipped(t, "nginx.conf",
		"server 127.0.0.1:3000;", "server "+origin+";",
		"/var/cache/nginx/shapeserver/log", dir+"/log",
		"/var/cache/nginx/shapeserver/live", dir+"/live",
		"/var/log/nginx/shapeserver.log", dir+"/access.log",
		"listen 8080;", "listen 127.0.0.1:"+strconv.Itoa(port)+";")
	// What the operating system's own nginx.conf would have around it.
	around := "daemon off;\npid " + dir + "/pid;\nerror_log stderr notice;\nworker_processes 2;\nworker_rlimit_nofile 8192;\n" +
		"events { worker_connections 4096; }\nhttp {\n"
	if os.Getuid() == 0 {
		around = "user root;\n" + around // the test's folder is root's
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "scgi", "uwsgi"} {
		around += kind + "_temp_path " + dir + "/" + kind + ";\n"
	}
	conf := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(conf, []byte(around+site+"}\n"), 0o600))
	runProxy(t, port, program, "-p", dir, "-e", "stderr", "-c", conf)
	return "http://127.0.0.1:" + strconv.Itoa(port)
}

// flagsInVCL is the command line that the VCL's comment recommends.
var flagsInVCL = regexp.MustCompile(`-p ([a-z_]+=[0-9a-z]+)`)

func startVarnish(t *testing.T, origin string) string {
	t.Helper()
	program := needProgram(t, "varnishd")
	dir, port := t.TempDir(), freePort(t)
	host, originPort, err := net.SplitHostPort(origin)
	require.NoError(t, err)
	text := shipped(t, "varnish.vcl",
		`.host = "127.0.0.1";`, fmt.Sprintf(".host = %q;", host),
		`.port = "3000";`, fmt.Sprintf(".port = %q;", originPort))
	vcl := filepath.Join(dir, "shapeserver.vcl")
	require.NoError(t, os.WriteFile(vcl, []byte(text), 0o600))
	args := []string{"-F", "-j", "none", "-n", filepath.Join(dir, "work"), "-a", "127.0.0.1:" + strconv.Itoa(port), "-f", vcl, "-s", "malloc,128m"}
	flags := flagsInVCL.FindAllStringSubmatch(text, -1)
	require.Len(t, flags, 6, "the flags in the comment of deploy/varnish.vcl")
	for _, f := range flags {
		args = append(args, "-p", f[1])
	}
	runProxy(t, port, program, args...)
	return "http://127.0.0.1:" + strconv.Itoa(port)
}

// needProgram finds a program, also where it is installed for root alone.
func needProgram(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath(filepath.Join("/usr/sbin", name))
	}
	if err != nil {
		t.Skipf("%s is not installed (on Debian: apt-get install nginx varnish chromium)", name)
	}
	return path
}

// runProxy starts a program that listens on a port, waits until it does, and stops it when the test ends.
func runProxy(t *testing.T, port int, program string, args ...string) {
	t.Helper()
	out := &logBuffer{}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its output says how it ended
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(stopTimeout):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("the output of %s ends:\n%s", program, lastLines(out.String(), 20))
		}
	})
	require.Eventually(t, func() bool {
		select {
		case <-ended:
			t.Fatalf("%s ended instead of serving:\n%s", program, out.String())
		default:
		}
		conn, err := net.DialTimeout("tcp", "127.0.0.1:"+strconv.Itoa(port), time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, startTimeout, 20*time.Millisecond)
}

var getsTotal = regexp.MustCompile(`(?m)^shapeserver_http_requests_total\{method="GET",status="\d+"\} (\S+)$`)

// countedGETs returns how many GET requests the server has answered.
func countedGETs(t *testing.T, metrics string) (n int) {
	t.Helper()
	for _, m := range getsTotal.FindAllStringSubmatch(fetch(t, metrics), -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		n += int(v)
	}
	return n
}

// gauge returns one value of the server's metrics.
func gauge(t *testing.T, metrics, series string) int {
	t.Helper()
	_, rest, ok := strings.Cut(fetch(t, metrics), "\n"+series+" ")
	require.True(t, ok, series)
	text, _, _ := strings.Cut(rest, "\n")
	v, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return int(v)
}
