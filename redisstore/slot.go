package redisstore

import "strings"

// slotCount is the number of hash slots of a cluster.
const slotCount = 16384

// slotOf returns the hash slot of a bucket: the CRC16 of the name of its key, or of the part
// between the first { and the next } if there is one; see the specification of Redis Cluster.
func slotOf(prefix, key string) int {
	name := prefix + key
	if open := strings.IndexByte(name, '{'); open >= 0 {
		if end := strings.IndexByte(name[open+1:], '}'); end > 0 {
			name = name[open+1 : open+1+end]
		}
	}
	crc := uint16(0)
	for i := range len(name) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^name[i]]
	}
	return int(crc % slotCount)
}

// crcTable is that of CRC-16/XMODEM, whose polynomial is 0x1021.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
