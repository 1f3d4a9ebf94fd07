package shapecache

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/snapshot"
)

func newFailures() *failures {
	return &failures{first: time.Second, most: 30 * time.Second, byIdentity: make(map[string]*failed)}
}

// pause returns how long a definition is refused from now on.
func (f *failures) pause(t *testing.T, identity string, now time.Time) time.Duration {
	t.Helper()
	err := f.refuse(identity, now)
	if err == nil {
		return 0
	}
	var failed *FailedError
	require.ErrorAs(t, err, &failed)
	return failed.RetryAt.Sub(now)
}

func TestFailuresDoubleUpToABound(t *testing.T) {
	f, now := newFailures(), time.Now()
	for i, most := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		f.note("a", errors.New("no"), 0, now)
		got := f.pause(t, "a", now)
		require.GreaterOrEqual(t, got, most*time.Second/2, i)
		require.LessOrEqual(t, got, most*time.Second+1, i)
		require.Zero(t, f.pause(t, "b", now), "another definition")
		now = now.Add(got)
		require.Zero(t, f.pause(t, "a", now), "the time is over")
	}
	// A try that took long waits longer, though not for ever: a lock that was in the way may be gone. So does a clause that fails.
	f.note("long", errors.New("disk full"), 3*time.Second, now)
	require.Equal(t, 15*time.Second, f.pause(t, "long", now))
	f.note("long", errors.New("disk full"), time.Minute, now)
	require.Equal(t, 30*time.Second, f.pause(t, "long", now))
	f.note("c", &snapshot.Error{Message: "m", Class: snapshot.ErrWhere}, 0, now)
	require.Equal(t, whereFailedFor, f.pause(t, "c", now))
	require.ErrorIs(t, f.refuse("c", now), snapshot.ErrWhere)
	// An old story, or a success, begins anew.
	now = now.Add(time.Hour)
	f.note("a", errors.New("no"), 0, now)
	require.LessOrEqual(t, f.pause(t, "a", now), time.Second+1)
	f.forget("a")
	require.Zero(t, f.pause(t, "a", now))
}

// A table that changes under a definition now and then is no failure; one that always does is.
func TestFailuresOfATableThatChanges(t *testing.T) {
	f, now := newFailures(), time.Now()
	for range goneFree {
		f.note("a", &snapshot.Error{Message: "changed", Class: snapshot.ErrSchemaChanged}, 0, now)
		require.Zero(t, f.pause(t, "a", now))
	}
	f.note("a", &snapshot.Error{Message: "changed", Class: snapshot.ErrSchemaChanged}, 0, now)
	require.NotZero(t, f.pause(t, "a", now))
	require.NotErrorIs(t, f.refuse("a", now), snapshot.ErrSchemaChanged)
}

func TestFailuresAreBounded(t *testing.T) {
	f, now := newFailures(), time.Now()
	for i := range failuresMax + 10 {
		f.note(strconv.Itoa(i), errors.New("no"), 0, now)
	}
	require.Len(t, f.byIdentity, failuresMax)
	now = now.Add(time.Minute)
	f.note("new", errors.New("no"), 0, now)
	require.Len(t, f.byIdentity, 1, "those whose time is over make room")
	require.NotZero(t, f.pause(t, "new", now))
}
