// Package full attacks bolt stores with a disk that fills up and has room again.
//
// The disk is a small file system in memory, which only root can mount. An error must leave all
// that was acknowledged and nothing else, and must name the path of the store. When there is room
// again, the store works, or says that it must be opened again.
package full
