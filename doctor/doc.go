// Package doctor compares the records of all shapes while no server serves them, and repairs what disagrees.
//
// It owns the comparison of what outlives a process: the status rows in Postgres, the logs in the storage directory, and the
// tables of the publication. Registration in memory does not: a server that runs compares that with the rest itself, from
// time to time (package cleaner), and tells in its metrics; doctor then looks at Postgres alone and repairs nothing.
//
// Goroutines: none. Invariants: I6, after Fix the records of every shape agree and nothing is left of others; a shape whose
// records agree is not touched. Fix holds the stream's advisory lock and the lock of the storage directory, as a server does,
// so no two of them work at once. Start reading at Examine.
package doctor
