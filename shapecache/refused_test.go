package shapecache

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/snapshot"
)

func TestRefusalsAreForgottenAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		failed := fmt.Errorf("copy: %w", &snapshot.Error{Message: "m", Class: snapshot.ErrWhere})
		r.note("a", errors.New("something else"))
		r.note("b", failed)
		require.NoError(t, r.of("a"))
		require.ErrorIs(t, r.of("b"), snapshot.ErrWhere)
		require.NoError(t, r.of("c"))
		time.Sleep(refusedFor) //nolint:forbidigo // virtual time
		require.NoError(t, r.of("b"))
		for i := range 2 * maxRefused {
			r.note(strconv.Itoa(i), failed)
		}
		assert.Len(t, r.known, maxRefused)
		time.Sleep(refusedFor + 1) //nolint:forbidigo // virtual time
		r.note("d", failed)
		assert.Len(t, r.known, 1)
	})
}
