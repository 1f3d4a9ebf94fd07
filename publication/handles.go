package publication

import (
	"maps"
	"slices"

	"github.com/shapeserver/shapeserver/shape"
)

// Handles returns the shapes that are counted on some table, in no order.
func (m *Manager) Handles() []shape.Handle {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.handles))
}
