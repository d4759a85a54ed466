// Package mutant switches mutants on. The harness compiles it into the package under attack, and
// replaces operators, constants and conditions there by calls of its functions. Every function gets
// the number of the first mutant that it stands for.
//
// BRIM_MUTANT is the number of the mutant that is on; without the variable, the code does the same
// as the original. BRIM_MUTANT_SEEN names a file with one byte per mutant. A byte becomes 1 when
// its mutant would have made a difference: an expression with another value, or a statement left
// out.
package mutant
