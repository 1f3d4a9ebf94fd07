package where

// typeRefusals are the reasons why values of some of Postgres's types are not evaluated, and what to do instead. IS [NOT]
// NULL works for all of them.
var typeRefusals = map[string]string{
	"money":         "its text and its rounding depend on lc_monetary; store a numeric",
	"xml":           "it has no comparison; store what is to be compared in a column of its own",
	"tsvector":      "text search depends on dictionaries of the database; add a generated boolean column",
	"tsquery":       "text search depends on dictionaries of the database; add a generated boolean column",
	"jsonpath":      "paths of SQL/JSON are not evaluated; use -> ->> #>> @> or ?",
	"regclass":      "names of objects depend on the catalogue; compare the column with a number, as oid",
	"regproc":       "names of objects depend on the catalogue; compare the column with a number, as oid",
	"regprocedure":  "names of objects depend on the catalogue; compare the column with a number, as oid",
	"regoper":       "names of objects depend on the catalogue; compare the column with a number, as oid",
	"regoperator":   "names of objects depend on the catalogue; compare the column with a number, as oid",
	"regtype":       "names of objects depend on the catalogue; compare the column with a number, as oid",
	"regrole":       "names of objects depend on the catalogue; compare the column with a number, as oid",
	"regnamespace":  "names of objects depend on the catalogue; compare the column with a number, as oid",
	"regcollation":  "names of objects depend on the catalogue; compare the column with a number, as oid",
	"regconfig":     "names of objects depend on the catalogue; compare the column with a number, as oid",
	"regdictionary": "names of objects depend on the catalogue; compare the column with a number, as oid",
}

// typeRefusal says why values of t cannot be evaluated and what helps, as the end of a message; "" when there is nothing
// to say beyond that.
func typeRefusal(t *typ) string {
	if t == nil || t.known() {
		return ""
	}
	t = t.baseType()
	if t.kind == KindArray && t.elem != nil {
		return typeRefusal(t.elem)
	}
	reason := typeRefusals[t.name]
	switch {
	case t.kind == KindComposite:
		reason = "fields of composite values are not read; add a column with what is to be compared"
	case t.kind == KindRange || t.kind == KindMultirng:
		reason = "only the ranges that Postgres has built in are evaluated"
	case t.category == 'G':
		reason = "geometric operators round; store the coordinates in columns of their own"
	case t.oid >= firstNormalOID && t.kind == KindBase:
		reason = "the operators of an extension's type are not known; add a generated column of a built-in type"
	case t.schema != "" && t.schema != "pg_catalog" || reason == "":
		return ""
	}
	return ": " + reason
}
