package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/where"
)

// Row is the catalogue's record of one shape.
type Row struct {
	Handle       shape.Handle  `json:"handle"`
	Identity     string        `json:"identity"`
	IdentityHash int64         `json:"identity_hash"`
	TableOID     uint32        `json:"table_oid"`
	Schema       string        `json:"table_schema"`
	Table        string        `json:"table_name"`
	Columns      []string      `json:"columns"`
	Explicit     bool          `json:"columns_explicit"`
	Where        *string       `json:"where_sql"` // as where renders it; nil selects every row
	Replica      shape.Replica `json:"replica"`
	Log          shape.LogMode `json:"log_mode"`
	Description  string        `json:"description"` // see shape.Definition.Description; empty when it is not known
	CreatedAt    time.Time     `json:"created_at"`
	LastUsedAt   time.Time     `json:"-"` // set by List
	// Active is set by List: Completed was written.
	Active bool `json:"-"`
}

// RowOf makes the row of a new shape.
func RowOf(h shape.Handle, d *shape.Definition, now time.Time) Row {
	r := Row{
		Handle: h, Identity: d.Identity(), IdentityHash: int64(d.Hash()), //nolint:gosec // all 64 bits are kept
		TableOID: d.Table.OID, Schema: d.Table.Schema, Table: d.Table.Name,
		Columns: d.ColumnNames(), Explicit: d.Explicit, Replica: d.Replica, Log: d.Log, Description: d.Description(), CreatedAt: now,
	}
	if d.Where != nil {
		sql := d.Where.SQL()
		r.Where = &sql
	}
	return r
}

// Definition makes the definition again, on the table as it is now. The error says what no longer holds. Whether it still
// means the same is for the caller to see from its Identity.
func (r *Row) Definition(t *shape.Table) (*shape.Definition, error) {
	d := &shape.Definition{Table: t, Explicit: r.Explicit, Replica: r.Replica, Log: r.Log}
	for _, name := range r.Columns {
		i := slices.IndexFunc(t.Columns, func(c shape.Column) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("column %q is gone", name)
		}
		d.Columns = append(d.Columns, i)
	}
	slices.Sort(d.Columns)
	if r.Where != nil {
		expr, err := where.Restore(*r.Where, t.WhereScope())
		if err != nil {
			return nil, fmt.Errorf("where clause %q: %w", *r.Where, err)
		}
		d.Where = expr
	}
	return d, nil
}
