package config

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

func TestDocumentationIsCurrent(t *testing.T) {
	const path = "../docs/configuration.md"
	if *update {
		require.NoError(t, os.MkdirAll("../docs", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(Markdown()), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, Markdown(), string(have), "run go test ./config -update")
}

func TestHelpNamesEverySetting(t *testing.T) {
	help := Help()
	for _, s := range settings {
		assert.Contains(t, help, s.name)
		assert.Contains(t, help, "--"+s.flag())
		for _, a := range s.aliases {
			assert.Contains(t, help, a)
		}
	}
	for line := range strings.Lines(help) {
		if !strings.HasPrefix(line, "  SHAPESERVER_") && !strings.HasPrefix(line, "      also ") {
			assert.LessOrEqual(t, len(line), 100, line)
		}
	}
}

func TestEffectiveSaysWhereFrom(t *testing.T) {
	c, _, err := Load(Serve, []string{"--max-shapes=5"}, append(base, "ELECTRIC_PORT=3001"))
	require.NoError(t, err)
	lines := c.Effective()
	assert.Regexp(t, `SHAPESERVER_MAX_SHAPES +5 +# --max-shapes\n`, lines)
	assert.Regexp(t, `SHAPESERVER_PORT +3001 +# ELECTRIC_PORT\n`, lines)
	assert.Regexp(t, `SHAPESERVER_INSECURE +true +# environment\n`, lines)
	assert.Regexp(t, `SHAPESERVER_DATABASE_URL +postgres://u:xxxxx@h/d\S* +# DATABASE_URL\n`, lines)
	assert.Regexp(t, `SHAPESERVER_POOLED_DATABASE_URL +postgres://u:xxxxx@h/d\S* +# follows from the others\n`, lines)
	assert.Regexp(t, `SHAPESERVER_SECRET +\(not set\) +# default\n`, lines)
}
