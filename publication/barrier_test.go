package publication

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func held(prepared bool, sessions ...string) holders {
	h := holders{sessions: make(map[string]struct{}), prepared: prepared}
	for _, s := range sessions {
		h.sessions[s] = struct{}{}
	}
	return h
}

func TestWriters(t *testing.T) {
	t.Run("nobody", func(t *testing.T) {
		assert.True(t, newWriters(held(false), []string{"7"}).done())
	})
	t.Run("those who come later are not waited for", func(t *testing.T) {
		w := newWriters(held(false, "3/1"), nil)
		assert.False(t, w.done())
		w.update(held(false, "3/1", "4/1"), nil)
		assert.False(t, w.done())
		w.update(held(false, "3/2", "4/1"), nil) // the same session, another transaction
		assert.True(t, w.done())
	})
	t.Run("prepared before", func(t *testing.T) {
		w := newWriters(held(true), []string{"7"})
		w.update(held(true), []string{"7", "8"})
		assert.False(t, w.done())
		w.update(held(true), []string{"8"})
		assert.True(t, w.done(), "8 was prepared later by a later writer")
	})
	t.Run("prepared while waited for", func(t *testing.T) {
		w := newWriters(held(false, "3/1"), nil)
		w.update(held(true), []string{"9"})
		assert.False(t, w.done())
		w.update(held(true), []string{"9", "10"})
		assert.False(t, w.done())
		w.update(held(true), []string{"10"})
		assert.True(t, w.done())
	})
	t.Run("a prepared transaction elsewhere", func(t *testing.T) {
		w := newWriters(held(false, "3/1"), []string{"9"})
		w.update(held(false), []string{"9"})
		assert.True(t, w.done())
	})
}
