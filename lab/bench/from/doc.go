// Package from holds the code of docs/from: how programs move from other limiters to brim. Its
// tests run each piece, and check the differences that the pages tell.
package from
