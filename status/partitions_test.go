package status_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/status"
)

func TestPartitions(t *testing.T) {
	_, pool := open(t)
	s := status.New(pool, take(t, pool, "a"), status.Options{})
	run(t, s)
	r := row("1-1700000000000001")
	require.NoError(t, s.Put(t.Context(), r))
	attached := map[uint32]string{r.TableOID: "", 4_000_000_000: "742"}
	require.NoError(t, s.SavePartitions(t.Context(), map[uint32]map[uint32]string{r.TableOID: {r.TableOID: ""}}))
	require.NoError(t, s.SavePartitions(t.Context(), map[uint32]map[uint32]string{r.TableOID: attached, 4_000_000_001: {}}))
	for range 2 {
		all, err := s.Partitions(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[uint32]map[uint32]string{r.TableOID: attached}, all, "tables without shapes are forgotten")
	}
	// Whoever lost the stream neither writes nor forgets.
	other := status.New(pool, take(t, pool, "b"), status.Options{})
	require.ErrorIs(t, s.SavePartitions(t.Context(), map[uint32]map[uint32]string{r.TableOID: {}}), status.ErrFenced)
	all, err := other.Partitions(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[uint32]map[uint32]string{r.TableOID: attached}, all)
}
