package archtest_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/shapeserver/shapeserver/"
	root   = "../.."
)

// layers has every package of the module at its height. A package may import only packages of lower layers: that is
// what lets the lower ones be tested without the upper ones, and makes a cycle impossible. A new package fails the test
// below until somebody has thought about its place and written it here.
var layers = [][]string{
	0: {"changes", "config", "internal/failpoint", "internal/notify", "internal/sqltext", "internal/telemetry", "internal/archtest", "internal/pgtest/cluster"},
	1: {"migrations", "shapelog", "where"},
	2: {"shape"},
	3: {"inspector", "replication", "publication", "status", "storage", "internal/pgtest"},
	4: {"snapshot", "storage/logstore", "storage/storagetest", "internal/pgtest/cmd/pgserver"},
	5: {"consumer", "collector", "cleaner", "doctor"},
	6: {"shapecache"},
	7: {"api"},
	8: {"server", "devserver"},
	9: {"cmd/shapeserver", "integration_test", "bench"},
}

// pkg is what these tests need of go list's answer.
type pkg struct {
	ImportPath, Dir                    string
	Imports, TestImports, XTestImports []string
	GoFiles                            []string
}

// packages lists the module's packages, the root's own (if it has files) left out.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,GoFiles", "./...")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go list")
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		all = append(all, p)
	}
	require.NotEmpty(t, all)
	return all
}

func TestImportsPointDown(t *testing.T) {
	layer := map[string]int{}
	for i, names := range layers {
		for _, name := range names {
			require.NotContains(t, layer, name, "a package has one place")
			layer[name] = i
		}
	}
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		i, placed := layer[from]
		if !placed {
			t.Errorf("package %s has no layer: give it a place in layers (and in ARCHITECTURE.md)", from)
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if j, ok := layer[to]; ours && ok && j >= i {
				t.Errorf("%s (layer %d) imports %s (layer %d): imports must point down", from, i, to, j)
			}
		}
		// Tests may look sideways and up one way only: nothing but the top may need the assembled server.
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			to, ours := strings.CutPrefix(imp, module)
			if j, ok := layer[to]; ours && ok && j >= 8 && i < 8 {
				t.Errorf("the tests of %s (layer %d) import %s (layer %d): test the whole server in integration_test", from, i, to, j)
			}
		}
	}
}

// Every package says in doc.go what it owns, what it leaves to whom, its goroutines, its invariants, and where to
// start reading. A test can see the last; a command says it in main.go.
func TestEveryPackageHasDoc(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		name := "doc.go"
		if slices.Contains(p.GoFiles, "main.go") && !slices.Contains(p.GoFiles, name) {
			name = "main.go"
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Errorf("%s: %v", p.ImportPath, err)
			continue
		}
		doc := file.Doc.Text()
		if lines := strings.Count(doc, "\n"); lines < 4 || !strings.Contains(strings.Join(strings.Fields(doc), " "), "Start reading at") {
			t.Errorf("%s/%s: the package comment (%d lines) must have the five facts, and end with where to start reading", p.ImportPath, name, lines)
		}
	}
}

// go statements stand only where goroutines have their owner: one grep finds every start.
func TestGoroutinesHaveOneHome(t *testing.T) {
	homes := []string{"server", "shapecache", "cmd/shapeserver", "devserver", "integration_test", "bench", "internal/pgtest/cluster", "storage/storagetest"}
	for _, p := range packages(t) {
		if slices.Contains(homes, strings.TrimPrefix(p.ImportPath, module)) {
			continue
		}
		for _, f := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, f), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%s starts a goroutine: return a blocking Run and let server start it (homes: %s)", fset.Position(g.Pos()), strings.Join(homes, ", "))
				}
				return true
			})
		}
	}
}

var (
	// codeSpan is `text` in a document.
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	// invariant is a name such as I3.
	invariant = regexp.MustCompile(`\bI([0-9]+)\b`)
	// pathLike is a path with a slash: such a code span in a document must exist.
	pathLike = regexp.MustCompile(`^[a-z_.][a-z0-9_.-]*(/[A-Za-z0-9_.-]+)+/?$`)
)

// Documents go stale silently. What ARCHITECTURE.md and CONTRIBUTING.md call a package or a file exists, every
// invariant that is cited anywhere is stated in ARCHITECTURE.md, and every package is named there.
func TestDocumentsNameWhatExists(t *testing.T) {
	architecture, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	stated := map[string]bool{}
	for line := range strings.Lines(string(architecture)) {
		// A statement is a list item or table row that begins with the name: "- **I3** …", "| I3 | …".
		if m := regexp.MustCompile(`^[-*|\s]*\**(I[0-9]+)\b`).FindStringSubmatch(line); m != nil {
			stated[m[1]] = true
		}
	}
	require.NotEmpty(t, stated, "ARCHITECTURE.md states no invariant as a list item or table row")

	for _, name := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for _, m := range codeSpan.FindAllStringSubmatch(string(text), -1) {
			if !pathLike.MatchString(m[1]) || generated(m[1]) {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names `%s`, which does not exist", name, m[1])
			}
		}
	}

	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == "archtest" || (strings.HasPrefix(d.Name(), ".") && path != root)) {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".md" && ext != ".sql" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range invariant.FindAllString(string(text), -1) {
			if !stated[m] {
				t.Errorf("%s cites %s, which ARCHITECTURE.md does not state", path, m)
			}
		}
		return nil
	})
	require.NoError(t, err)

	for _, p := range packages(t) {
		if name := strings.TrimPrefix(p.ImportPath, module); !strings.Contains(string(architecture), name) {
			t.Errorf("ARCHITECTURE.md does not name the package %s", name)
		}
	}
}

// generated reports whether a path is made by a build and so is not in a fresh clone, or is no file of ours at all: a
// repository, a package of the standard library or of another module, a MIME type, a route.
func generated(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	switch first {
	case "bin", ".tools", ".dev", "v1", "application", "text", "test", "migrate", "make", "testing", "net", "log", "encoding":
		return true
	}
	return strings.Contains(first, ".") && first != ".ci"
}
