package notify

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestGetThenWaitMissesNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v Var[int]
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					n, changed := v.Get()
					if n == 1000 {
						return
					}
					<-changed
				}
			})
		}
		for i := range 1001 {
			v.Set(i)
		}
		wg.Wait()
	})
}

func TestUpdateWakesOnlyOnChange(t *testing.T) {
	var v Var[int]
	_, changed := v.Get()
	v.Update(func(n int) (int, bool) { return n, false })
	select {
	case <-changed:
		require.Fail(t, "woken without a change")
	default:
	}
	v.Update(func(n int) (int, bool) { return n + 1, true })
	<-changed
	require.Equal(t, 1, v.Load())
	require.False(t, v.Waiters())
}
