package api

import (
	_ "embed"
	"net/http"
	"strconv"
)

// document describes this package's routes, parameters, headers and statuses in OpenAPI 3.1. A test compares it with the code.
//
//go:embed openapi.json
var document []byte

// openapi serves the document. It describes the protocol and no data, so it needs no secret.
func (s *server) openapi(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	s.allowOrigin(h, s.headers.otherMethods)
	h["Content-Type"] = jsonContent
	h["Content-Length"] = []string{strconv.Itoa(len(document))}
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(document) // a client that is gone needs no answer
	}
}
