package shape

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func itemsTable() *Table {
	id, at := column("id", "int4", -1), column("At", "timestamptz", -1)
	id.NotNull = true
	gen := column("gen", "int4", -1)
	gen.Generated = true
	return &Table{
		OID: 7, Schema: "public", Name: "items", Kind: 'r', Key: []int{2, 0},
		Columns: []Column{id, column("title", "text", -1), at, gen},
	}
}

func TestNewDefinitionReportsTheFirstStageWithAMistake(t *testing.T) {
	for _, tc := range []struct {
		name string
		req  Request
		want FieldErrors
	}{
		{"queryable first", Request{QueryableColumns: []string{"x"}, Columns: []string{"y"}, Where: "("}, FieldErrors{
			"queryable_columns": {"The list of queryable columns must include all primary key columns, missing: At, id"},
		}},
		{"queryable unknown", Request{QueryableColumns: []string{"id", "x", "At"}}, FieldErrors{
			"queryable_columns": {"The following queryable columns are not found on the table: x"},
		}},
		{"queryable empty", Request{QueryableColumns: []string{}}, FieldErrors{
			"queryable_columns": {"The list of queryable columns must not be empty"},
		}},
		{"key", Request{Columns: []string{"id", "x"}, Where: "("}, FieldErrors{
			"columns": {"The list of columns must include all primary key columns, missing: At"},
		}},
		{"unknown", Request{Columns: []string{"y", "id", "At", "x"}}, FieldErrors{
			"columns": {"The following columns are not found on the table: y, x"},
		}},
		{"not queryable", Request{QueryableColumns: []string{"id", "At"}, Columns: []string{"id", "At", "title"}}, FieldErrors{
			"columns": {"The following columns are not found on the table: title"},
		}},
		{"generated", Request{Columns: []string{"id", "At", "gen"}}, FieldErrors{
			"columns": {"The following columns are generated and cannot be included in the shape: gen"},
		}},
		{"generated among all", Request{}, FieldErrors{
			"columns": {"The following columns are generated and cannot be included in the shape: gen. You can exclude them from the shape " +
				"by explicitly listing which columns to fetch in the 'columns' query param"},
		}},
		{"empty", Request{Columns: []string{}}, FieldErrors{"columns": {"The list of columns must not be empty"}}},
		{"params not numbers", Request{Columns: []string{"id", "At"}, Where: "id = $1", Params: map[string]string{"a": "1"}}, FieldErrors{
			"params": {"Parameters can only use numbers as keys"},
		}},
		{"params with a gap", Request{Columns: []string{"id", "At"}, Where: "id = $1", Params: map[string]string{"1": "1", "3": "1"}}, FieldErrors{
			"params": {"Parameters must be numbered sequentially, starting from 1"},
		}},
		{"params twice", Request{Columns: []string{"id", "At"}, Where: "id = $1", Params: map[string]string{"1": "1", "01": "1"}}, FieldErrors{
			"params": {"Parameters must be numbered sequentially, starting from 1"},
		}},
		{"params from 0", Request{Columns: []string{"id", "At"}, Where: "id = $1", Params: map[string]string{"0": "1"}}, FieldErrors{
			"params": {"Parameters must be numbered sequentially, starting from 1"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := NewDefinition(itemsTable(), tc.req)
			require.Equal(t, tc.want, err)
		})
	}
}

func TestNewDefinition(t *testing.T) {
	table := itemsTable()
	d, err := NewDefinition(table, Request{Columns: []string{"title", "At", "id", "title"}, Params: map[string]string{"x": "ignored without a clause"}})
	require.NoError(t, err)
	require.Equal(t, &Definition{Table: table, Columns: []int{0, 1, 2}, Explicit: true, Replica: ReplicaDefault, Log: LogFull}, d)

	q, err := NewDefinition(table, Request{QueryableColumns: []string{"id", "title", "At"}, Where: " \t"})
	require.NoError(t, err)
	require.Equal(t, d.Identity(), q.Identity(), "without columns the queryable ones are the selection")

	table.Columns = table.Columns[:3]
	all, err := NewDefinition(table, Request{Replica: ReplicaFull, Log: LogChangesOnly})
	require.NoError(t, err)
	require.False(t, all.Explicit)
	require.Equal(t, []int{0, 1, 2}, all.Columns)

	nokey := &Table{Columns: table.Columns}
	_, err = NewDefinition(nokey, Request{Columns: []string{"id"}})
	require.Equal(t, FieldErrors{"columns": {"The list of columns must include all primary key columns, missing: title, At"}}, err)
	require.EqualError(t, err, "columns: The list of columns must include all primary key columns, missing: title, At")
}
