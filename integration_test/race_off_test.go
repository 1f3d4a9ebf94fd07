//go:build !race

package integration

// raceEnabled says that the tests, and so the server under test, are built with the race detector.
const raceEnabled = false
