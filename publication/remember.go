package publication

import (
	"context"
	"fmt"
	"maps"
)

// Memory keeps, over restarts, which partitions a table had: rows that come or go with a partition while no server runs are in
// no stream. status.Store is the real one.
type Memory interface {
	// Partitions returns what SavePartitions was last given, by the OID of the partitioned table.
	Partitions(ctx context.Context) (map[uint32]map[uint32]string, error)
	// SavePartitions notes durably which partitions a table has: OID → the transaction that made it one.
	SavePartitions(ctx context.Context, root uint32, attached map[uint32]string) error
}

// recall gives the tables that were restored the partitions they had, once, before the first check compares.
func (m *Manager) recall(ctx context.Context) error {
	if m.recalled || m.opts.Memory == nil {
		return nil
	}
	saved, err := m.opts.Memory.Partitions(ctx)
	if err != nil {
		return fmt.Errorf("recall partitions: %w", err)
	}
	m.recalled = true
	m.mu.Lock()
	defer m.mu.Unlock()
	for oid, attached := range saved {
		if tab := m.tables[oid]; tab != nil && tab.phase == unverified {
			tab.attached, tab.saved = attached, attached
		}
	}
	return nil
}

// remember saves the partitions of the tables that have others than are saved. It comes before a table gets ready: no shape may
// read rows of partitions that are not on record.
func (m *Manager) remember(ctx context.Context, _ *session) error {
	if m.opts.Memory == nil {
		return nil
	}
	changed := make(map[*table]map[uint32]string)
	m.mu.Lock()
	for _, tab := range m.tables {
		if tab.partitioned && !maps.Equal(tab.attached, tab.saved) {
			changed[tab] = tab.attached // never changed in place
		}
	}
	m.mu.Unlock()
	for tab, attached := range changed {
		if err := m.opts.Memory.SavePartitions(ctx, tab.oid, attached); err != nil {
			return err
		}
		m.mu.Lock()
		tab.saved = attached
		m.mu.Unlock()
	}
	return nil
}
