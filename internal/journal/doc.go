// Package journal keeps a write-ahead log: what is appended is durable when Append returns. The
// log has bounded size, because its user moves the content to another place from time to time and
// tells the log how far it has come.
//
// # The file
//
// The file begins with a page that holds the journal's ID. Two regions of one size follow. A region
// holds the frames of one generation, and generations take turns: while one fills, the user moves
// the content of the one before, whose region the generation after it then overwrites. Blocks that
// were written once are overwritten in place, so a sync has no metadata of the file to write.
//
// A frame has a number, which goes on from frame to frame through all generations, and a checksum
// that is keyed with the ID. So neither the remains of an older generation nor bytes that a caller
// has chosen are taken for a frame.
//
// Append writes and syncs one frame at a time. So a crash can tear only the last frame, which
// nobody was told of. Everything else that does not fit together is damage.
package journal
