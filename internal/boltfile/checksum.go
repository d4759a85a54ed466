package boltfile

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of key followed by value. bbolt has no checksums of its own. The
// key is covered so that an intact value under a wrong key is found too.
func Checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}
