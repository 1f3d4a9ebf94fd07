// Package storagetest is the suite that every storage.Store passes. Run checks what holds in one life of a store,
// RunDurable what holds over restarts and crashes, against a model.
//
// It owns no goroutine that outlives a test. It is for tests only. Start reading at Run, then model in durable.go.
package storagetest
