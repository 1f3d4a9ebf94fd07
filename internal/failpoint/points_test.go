package failpoint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/failpoint"
)

// Every point is listed once and stands in the code of the server; that each is reached there, TestFailpoints in
// integration_test shows.
func TestEveryPointStandsInTheCode(t *testing.T) {
	listed := map[failpoint.Point]bool{}
	for _, p := range failpoint.All() {
		assert.False(t, listed[p.Point], "%s is listed twice", p.Point)
		listed[p.Point] = true
	}
	points := declared(t)
	require.Len(t, listed, len(points))
	used := used(t)
	for name, p := range points {
		assert.True(t, listed[p], "%s is not listed by All", name)
		assert.True(t, used[name], "%s stands nowhere", name)
	}
}

// declared returns the constants of points.go that are Points.
func declared(t *testing.T) map[string]failpoint.Point {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "points.go", nil, 0)
	require.NoError(t, err)
	found := map[string]failpoint.Point{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Point" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			found[spec.Names[0].Name] = failpoint.Point(value)
		}
		return true
	})
	require.NotEmpty(t, found)
	return found
}

// used returns the names that the module's code, tests left out, takes from this package.
func used(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || len(entry.Name()) > 2 && entry.Name()[0] == '.'):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "failpoint" {
					found[sel.Sel.Name] = true
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	return found
}
