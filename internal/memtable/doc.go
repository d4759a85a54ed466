// Package memtable keeps changes of the tables of a file in memory until the file has them. A
// journal has them meanwhile.
//
// Its user decides on a [View], which shows a transaction of the file and over it the changes in
// memory, and whose own changes nobody else sees. When the journal has them,
// [Tables.Publish] shows them to all views that begin later. From time to time the user takes all
// changes with [Tables.Freeze], writes them to the file in order of key, and then drops them from
// memory with [Tables.Drop].
//
// Keys come in groups: the keys of a group begin with the same bytes, and no other key does. A
// cursor walks one group.
package memtable
