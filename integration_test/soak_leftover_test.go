package integration

import (
	"bufio"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readMetrics returns the server's metrics without labels.
func (s *soak) readMetrics(t testing.TB) map[string]float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.metrics, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	values := map[string]float64{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = n
		}
	}
	return values
}

// requireNothingLeft deletes every shape and requires that nothing of them stays: rows, publication entries, slots but
// the one, connections, files, goroutines, descriptors (I6).
func (s *soak) requireNothingLeft(t *testing.T) {
	t.Helper()
	pool := s.db.Pool(t)
	require.Eventually(t, func() bool {
		rows, err := pool.Query(t.Context(), "SELECT handle FROM shapeserver.shapes")
		if err != nil {
			return false
		}
		left := 0
		for rows.Next() {
			var handle string
			if rows.Scan(&handle) != nil {
				break
			}
			left++
			s.delete(t, shape("handle", handle))
		}
		return rows.Err() == nil && left == 0
	}, time.Minute, 100*time.Millisecond, "rows of shapes are left")
	s.http.CloseIdleConnections()
	dir := ""
	for _, v := range s.srv.env {
		if path, ok := strings.CutPrefix(v, "SHAPESERVER_STORAGE_DIR="); ok {
			dir = path
		}
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		count := func(sql string) (n int) {
			require.NoError(c, pool.QueryRow(t.Context(), sql).Scan(&n))
			return n
		}
		assert.Zero(c, count("SELECT count(*) FROM pg_publication_rel"), "publication entries")
		assert.Equal(c, 1, count("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"), "slots")
		assert.LessOrEqual(c, count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'shapeserver%'"), 22, "connections")
		assert.Zero(c, count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'shapeserver%' AND state = 'idle in transaction'"), "open transactions")
		assert.Empty(c, filesOf(c, filepath.Join(dir, "files")), "files of logs")
		now := s.readMetrics(t)
		assert.Zero(c, now["shapeserver_shapes"])
		assert.Zero(c, now["shapeserver_shapes_removing"])
		assert.Zero(c, now["shapeserver_transactions_waiting"])
		assert.LessOrEqual(c, now["go_goroutines"], s.baseline["go_goroutines"]+30, "goroutines")
		assert.LessOrEqual(c, now["process_open_fds"], s.baseline["process_open_fds"]+40, "file descriptors")
	}, 30*time.Second, 200*time.Millisecond)
}

// filesOf lists the files below a folder, as text.
func filesOf(t require.TestingT, dir string) (files []string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, ierr := d.Info()
			if ierr == nil {
				files = append(files, fmt.Sprintf("%s (%d bytes)", path, info.Size()))
			}
		}
		return nil // a file that goes meanwhile is gone
	})
	require.NoError(t, err)
	return files
}
