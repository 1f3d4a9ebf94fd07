package shape

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shapeserver/shapeserver/where"
)

// Request is what a client says about the shape it wants, before it is checked against a table.
type Request struct {
	// Where is the clause's text; a blank one selects every row.
	Where string
	// Params are the values of $1, $2, … in Where by number, "1" first. They are looked at only with a Where.
	Params map[string]string
	// Columns are the selected columns in any order, perhaps more than once (ParseColumns); nil selects all, or
	// QueryableColumns where those are given.
	Columns []string
	// QueryableColumns limits what Columns may name; nil does not. It is not part of a shape's identity.
	QueryableColumns []string
	Replica          Replica // zero means ReplicaDefault
	Log              LogMode // zero means LogFull
}

// FieldErrors says what is wrong with a request: by parameter, the messages for the client (protocol.md §2.2).
type FieldErrors map[string][]string //nolint:errname // it is the errors object of the response

// Error implements error.
func (e FieldErrors) Error() string {
	var parts []string
	for _, field := range slices.Sorted(maps.Keys(e)) {
		parts = append(parts, field+": "+strings.Join(e[field], "; "))
	}
	return strings.Join(parts, ", ")
}

// NewDefinition checks what a request asks of a table: first the queryable columns, then the columns, then the clause
// and its parameters. The first of them with a mistake gives a FieldErrors about it.
func NewDefinition(t *Table, req Request) (*Definition, error) {
	d := &Definition{
		Table:    t,
		Explicit: req.Columns != nil || req.QueryableColumns != nil,
		Replica:  req.Replica,
		Log:      req.Log,
	}
	if d.Replica == "" {
		d.Replica = ReplicaDefault
	}
	if d.Log == "" {
		d.Log = LogFull
	}
	var err error
	if d.Columns, err = selectColumns(t, req); err != nil {
		return nil, err
	}
	if strings.TrimSpace(req.Where) == "" {
		return d, nil
	}
	params, err := checkParams(req.Params)
	if err != nil {
		return nil, err
	}
	d.Where, err = where.Parse(req.Where, params, t.WhereScope())
	if err != nil {
		var bad *where.Error
		if errors.As(err, &bad) {
			return nil, FieldErrors{bad.Field: {bad.Error()}}
		}
		return nil, FieldErrors{"where": {err.Error()}}
	}
	// The stream does not carry generated columns, so that a clause on one could not be evaluated on a change.
	if generated := generatedAmong(t, d.Where.Columns()); len(generated) > 0 {
		return nil, FieldErrors{"where": {"The following columns are generated and cannot be used in the where clause: " +
			strings.Join(generated, ", ")}}
	}
	return d, nil
}

// selectColumns returns the positions in t.Columns of the columns that the request selects, ascending.
func selectColumns(t *Table, req Request) ([]int, error) {
	all := make([]int, len(t.Columns))
	for i := range all {
		all[i] = i
	}
	allowed, selected := all, all
	if req.QueryableColumns != nil {
		var msg string
		if allowed, msg = resolveColumns(t, req.QueryableColumns, all, "queryable columns"); msg != "" {
			return nil, FieldErrors{"queryable_columns": {msg}}
		}
		selected = allowed
	}
	if req.Columns != nil {
		var msg string
		if selected, msg = resolveColumns(t, req.Columns, allowed, "columns"); msg != "" {
			return nil, FieldErrors{"columns": {msg}}
		}
	}
	if generated := generatedAmong(t, selected); len(generated) > 0 {
		msg := "The following columns are generated and cannot be included in the shape: " + strings.Join(generated, ", ")
		if req.Columns == nil {
			msg += ". You can exclude them from the shape by explicitly listing which columns to fetch in the 'columns' query param"
		}
		return nil, FieldErrors{"columns": {msg}}
	}
	if len(selected) == 0 {
		return nil, FieldErrors{"columns": {"The list of columns must not be empty"}}
	}
	return selected, nil
}

// resolveColumns turns names into ascending positions, each once. what is how the message calls the list.
func resolveColumns(t *Table, names []string, allowed []int, what string) (positions []int, msg string) {
	if len(names) == 0 {
		return nil, "The list of " + what + " must not be empty"
	}
	at := make(map[string]int, len(allowed))
	for _, p := range allowed {
		at[t.Columns[p].Name] = p
	}
	var missing, unknown []string
	for _, k := range t.KeyColumns() {
		if name := t.Columns[k].Name; !slices.Contains(names, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, "The list of " + what + " must include all primary key columns, missing: " + strings.Join(missing, ", ")
	}
	for _, name := range names {
		if p, ok := at[name]; ok {
			positions = append(positions, p)
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, "The following " + what + " are not found on the table: " + strings.Join(unknown, ", ")
	}
	slices.Sort(positions)
	return slices.Compact(positions), ""
}

func generatedAmong(t *Table, positions []int) []string {
	var names []string
	for _, p := range positions {
		if t.Columns[p].Generated {
			names = append(names, t.Columns[p].Name)
		}
	}
	return names
}

// checkParams reports keys that are not the numbers 1, 2, … n, and returns the parameters with canonical keys.
func checkParams(params map[string]string) (map[string]string, error) {
	checked := make(map[string]string, len(params))
	for key, value := range params {
		n, err := strconv.ParseUint(key, 10, 31)
		if err != nil {
			return nil, FieldErrors{"params": {"Parameters can only use numbers as keys"}}
		}
		checked[strconv.FormatUint(n, 10)] = value
	}
	for n := 1; n <= len(params); n++ {
		if _, ok := checked[strconv.Itoa(n)]; !ok {
			return nil, FieldErrors{"params": {"Parameters must be numbered sequentially, starting from 1"}}
		}
	}
	return checked, nil
}
