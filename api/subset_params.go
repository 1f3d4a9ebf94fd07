package api

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/shapeserver/shapeserver/snapshot"
)

// subsetParams are the parameters of a subset as they came (protocol.md §10): "subset__" stands before their names in a
// query. The forms *_expr are for proxies and mean nothing here.
type subsetParams struct {
	given                         bool // this is a request for a subset
	where, orderBy, limit, offset field
	paramsText                    field            // params as a JSON text
	params                        map[string]field // $n by what stood for n
	badParams                     bool             // params was there, but not as an object
}

// byName returns the field of a scalar parameter, nil for a name that means nothing.
func (p *subsetParams) byName(name string) *field {
	switch name {
	case "where":
		return &p.where
	case "order_by":
		return &p.orderBy
	case "limit":
		return &p.limit
	case "offset":
		return &p.offset
	case "params":
		return &p.paramsText
	default:
		return nil
	}
}

// set sets one parameter of a query.
func (p *subsetParams) set(name, value string) {
	f := p.byName(name)
	if f == nil {
		return
	}
	*f = field{value: value, set: true}
	p.given = p.given || !f.blank()
	if f == &p.paramsText && !f.blank() {
		p.params = nil // the later one replaces the earlier
	}
}

// setNested sets a parameter of a query that came with a key in brackets: params[1]=a is $1.
func (p *subsetParams) setNested(name, key, value string) {
	f := p.byName(name)
	switch {
	case f == nil:
		return
	case f != &p.paramsText:
		*f = field{set: true, bad: true}
	default:
		if p.params == nil {
			p.params = make(map[string]field)
		}
		p.paramsText = field{}
		p.params[key] = field{value: value, set: true, bad: key == "" || strings.ContainsAny(key, "[]")}
	}
	p.given = true
}

// setSubsetJSON reads the member "subset" of a body. It makes the request one for a subset, even when it is empty.
func (q *params) setSubsetJSON(raw json.RawMessage) {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		q.reject("subset", isInvalid)
		return
	}
	if object != nil { // else null, which counts as absent
		q.setSubsetObject(object)
	}
}

// takeSubset takes the members that belong to a subset out of a body that has none of its own for it.
func takeSubset(object map[string]json.RawMessage) map[string]json.RawMessage {
	subset := make(map[string]json.RawMessage)
	for _, name := range []string{"where", "params", "order_by", "limit", "offset", "where_expr", "order_by_expr"} {
		if raw, ok := object[name]; ok {
			subset[name] = raw
			delete(object, name)
		}
	}
	return subset
}

// setSubsetObject lays an object's members over the query's parameters of the subset.
func (q *params) setSubsetObject(object map[string]json.RawMessage) {
	p := &q.subset
	p.given = true
	for name, raw := range object {
		f := p.byName(name)
		switch {
		case f == nil:
		case f == &p.paramsText:
			q.setSubsetParams(raw)
		default:
			*f = q.jsonText("subset", raw, name == "limit" || name == "offset")
		}
	}
}

// setSubsetParams reads {"1":"a","2":5}.
func (q *params) setSubsetParams(raw json.RawMessage) {
	p := &q.subset
	p.paramsText, p.params, p.badParams = field{}, nil, false
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		p.badParams = true
		return
	}
	if len(object) > maxPairs {
		q.reject("subset", "has too many parameters")
		return
	}
	p.params = make(map[string]field, len(object))
	for name, value := range object {
		f := q.jsonText("subset", value, true)
		f.bad = f.bad || !f.set // a null is no text
		f.set = true
		p.params[name] = f
	}
}

// jsonText is jsonField for a parameter that may also be a number, whose text then is the value: the npm client takes
// numbers for texts (its type SubsetParams).
func (q *params) jsonText(name string, raw json.RawMessage, number bool) field {
	if raw = bytes.TrimSpace(raw); number && len(raw) > 0 && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9') {
		return field{value: string(raw), set: true}
	}
	return q.jsonField(name, raw)
}

// subsetRequest is a question about some rows of a shape, checked as far as that is possible without a table.
type subsetRequest struct {
	where, orderBy string
	params         map[string]string
	limit, offset  *int64

	query snapshot.Subset // what checkSubset made of it
}

// cast is the first stage of the checks, as request.cast is; it returns nil when no subset is asked for.
func (p *subsetParams) cast() (*subsetRequest, map[string]any) {
	if !p.given {
		return nil, nil
	}
	r := &subsetRequest{where: p.where.text(), orderBy: p.orderBy.text()}
	bad := make(map[string]any)
	refuse := func(name, message string) { bad[name] = []string{message} }
	for _, f := range []struct {
		name string
		f    field
	}{{"where", p.where}, {"order_by", p.orderBy}} {
		if f.f.bad {
			refuse(f.name, isInvalid)
		}
	}
	for _, n := range []struct {
		name string
		f    field
		into **int64
	}{{"limit", p.limit, &r.limit}, {"offset", p.offset, &r.offset}} {
		if n.f.blank() {
			continue
		}
		v, err := strconv.ParseInt(n.f.value, 10, 64)
		if err != nil {
			refuse(n.name, isInvalid)
			continue
		}
		*n.into = &v
	}
	if message := r.castParams(p); message != "" {
		refuse("params", message)
	}
	return r, bad
}

// castParams returns what is wrong with the params, "" when nothing is.
func (r *subsetRequest) castParams(p *subsetParams) string {
	given := p.params
	switch {
	case p.badParams:
		return "params must be a JSON object"
	case !p.paramsText.blank():
		var object json.RawMessage
		if checkJSON([]byte(p.paramsText.value), &object) != nil {
			return "params must be valid JSON"
		}
		q := &params{}
		if object[0] != '{' {
			return "params must be a JSON object"
		}
		q.setSubsetParams(object)
		if len(q.errors) > 0 {
			return isInvalid
		}
		given = q.subset.params
	}
	r.params = make(map[string]string, len(given))
	for name, f := range given {
		if f.bad {
			return isInvalid
		}
		r.params[name] = f.value
	}
	return ""
}
