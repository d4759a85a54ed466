// Package lab tests the promises of brim. It is a module of its own and holds no code that
// programs import.
//
// Each harness is a package with a test of that name:
//
//   - crash cuts the power of bolt stores and ledgers at every moment, has calls of their file
//     system fail, fills their disk, and kills their processes,
//   - sched runs the goroutines of combine, local, the Shaper and the syncs of a bolt file in
//     random orders,
//   - lin checks histories of concurrent calls on every backend, under faults of its
//     server, its connections, its clients and its clock,
//   - outage counts the units that pass beyond a limit while a store is slow or down, and clients
//     hang up.
//
// Package llm runs package llmlimit and the examples on it with the official SDKs of OpenAI and
// Anthropic.
//
// Every harness also runs against defects that are built in, and must find each of them.
//
// "make test" gives each harness some seconds. Package night gives each the budget of a night, in
// slices that can be interrupted.
//
// Everything random comes from BRIM_SEED, a number. A failure prints the command that repeats it,
// and is shown in its shortest form. Each test logs its seed and the number of its tries.
package lab
