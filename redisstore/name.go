package redisstore

import "strings"

// slotCount is the number of hash slots of a cluster.
const slotCount = 16384

// slotOf returns the hash slot of a bucket: the CRC16 of the name of its key, or of the part
// between the first { and the next } if there is one; see the specification of Redis Cluster.
func (s *Store) slotOf(key string) int {
	name := s.name(key)
	if open := strings.IndexByte(name, '{'); open >= 0 {
		if end := strings.IndexByte(name[open+1:], '}'); end > 0 {
			name = name[open+1 : open+1+end]
		}
	}
	crc := uint16(0) // CRC-16/XMODEM
	for i := range len(name) {
		crc ^= uint16(name[i]) << 8
		for range 8 {
			crc = crc<<1 ^ crc>>15*0x1021
		}
	}
	return int(crc % slotCount)
}

// The characters of keys that Options.EncodeBraces encodes.
var (
	encode = strings.NewReplacer("%", "%25", "{", "%7B")
	decode = strings.NewReplacer("%25", "%", "%7B", "{")
)

// name returns the key of Redis for a bucket.
func (s *Store) name(key string) string {
	if s.o.EncodeBraces {
		key = encode.Replace(key)
	}
	return s.o.Prefix + key
}
