// Package torture attacks the promises of brim. It is a module of its own and holds no code that
// programs import.
//
// Each harness is a package with a test of that name:
//
//   - power cuts the power of bolt stores,
//   - ioerr has calls of the system fail under them.
//
// Every harness also attacks stores with defects that are built in, and must find each of them.
//
// "make torture-quick" gives each harness some seconds, and "make torture" the budget of a night.
// Everything random comes from BRIM_SEED, a number. A failure prints the command that repeats it,
// and is shown in its shortest form. BRIM_REPORT names a file that the harnesses write their
// results to.
package torture
