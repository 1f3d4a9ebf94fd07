// Command bench measures a built shapeserver against the targets of the design, on this machine, in one run, and prints
// a table. It starts a Postgres of its own (or uses DATABASE_URL), starts bin/shapeserver beside it, and drives both from
// this process, so server, database and load share the cores: ratios and slopes mean more than absolute figures.
//
// Goroutines: one a simulated client, waited for where they are started. Start reading at main.
package main
