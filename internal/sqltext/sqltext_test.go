package sqltext

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuoting(t *testing.T) {
	require.Equal(t, `"a b"`, Ident("a b"))
	require.Equal(t, `"a""; DROP TABLE x; --"`, Ident(`a"; DROP TABLE x; --`))
	require.Equal(t, `''`, Literal(""))
	require.Equal(t, `'it''s \ one'`, Literal(`it's \ one`))
	require.Equal(t, "{}", OIDs(nil))
	require.Equal(t, "{1,4294967295}", OIDs([]uint32{1, 4294967295}))
}
