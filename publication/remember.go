package publication

import (
	"context"
	"fmt"
	"maps"
)

// Memory keeps, over restarts, which partitions a table had, and which place in the publication: rows that come or go with a
// partition while no server runs, or that were written while the table was not published, are in no stream. status.Store is
// the real one.
type Memory interface {
	// Partitions returns what SavePartitions was last given, by the OID of the partitioned table.
	Partitions(ctx context.Context) (map[uint32]map[uint32]string, error)
	// SavePartitions notes durably which partitions tables have, OID → the transaction that made it one, and under a table's
	// own OID its place in the publication.
	SavePartitions(ctx context.Context, attached map[uint32]map[uint32]string) error
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

// remember saves the partitions of the tables that have others than are saved. For partitioned tables it comes before they get
// ready: no shape may read rows of partitions that are not on record.
func (m *Manager) remember(ctx context.Context, _ *session) error {
	if m.opts.Memory == nil {
		return nil
	}
	changed := make(map[*table]map[uint32]string)
	m.mu.Lock()
	for _, tab := range m.tables {
		if (tab.partitioned || tab.phase == ready) && !maps.Equal(tab.attached, tab.saved) {
			changed[tab] = tab.attached // never changed in place
		}
	}
	m.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	save := make(map[uint32]map[uint32]string, len(changed))
	for tab, attached := range changed {
		save[tab.oid] = attached
	}
	if err := m.opts.Memory.SavePartitions(ctx, save); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for tab, attached := range changed {
		tab.saved = attached
	}
	return nil
}
