// Package shapecache is the front door to the shapes: it maps a definition to its handle and its log, makes a shape
// once for any number of first requests, and tracks the goroutines of the consumers.
//
// Start reading at Cache.
package shapecache
