// Package archtest holds the rules about the shape of this module that the compiler does not know, as tests: imports
// point strictly down, every package says what it is, and the documents name only what exists.
//
// It owns the table of layers. It has no code outside its tests, and no goroutine. Start reading at layers.
package archtest
