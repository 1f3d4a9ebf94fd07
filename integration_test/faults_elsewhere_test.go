package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// collect is what conditions report their failures to.
type collect = assert.CollectT

// requireTest requires that a test exists, by its name such as storage/logstore.TestChunkFileFailure.
func requireTest(t *testing.T, name string) {
	t.Helper()
	folder, function, ok := strings.Cut(name, ".")
	require.True(t, ok, name)
	files, err := os.ReadDir(filepath.Join("..", folder))
	require.NoError(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", folder, f.Name()), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == function && fn.Recv == nil {
				return
			}
		}
	}
	t.Errorf("there is no test %s", name)
}
