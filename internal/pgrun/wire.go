package pgrun

import (
	_ "embed" // for the fragments
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

var (
	//go:embed bits.sql
	bitsFile string
	//go:embed instant.sql
	instantFile string
	//go:embed octets.sql
	octetsFile string
)

// Double is the target of a scan of the fragment bits(): a double, or null.
type Double struct {
	Float64 float64
	Valid   bool
}

// Instant is the target of a scan of the fragment instant(): a time in microseconds since the Unix
// epoch, or null.
type Instant struct {
	Micros int64
	Valid  bool
}

// Octets is the target of a scan of the fragment octets(): bytes, or nil for null.
type Octets []byte

// epoch is the time from which PostgreSQL counts microseconds, 2000-01-01, in microseconds since
// the Unix epoch.
const epoch = 946_684_800_000_000

// ScanBytes reads the column as every format of the protocol has it; nil is null.
func (d *Double) ScanBytes(raw []byte) error {
	n, ok, err := digits(raw)
	*d = Double{math.Float64frombits(n), ok}
	return err
}

// ScanBytes reads the column as every format of the protocol has it; nil is null.
func (t *Instant) ScanBytes(raw []byte) error {
	n, ok, err := digits(raw)
	if *t = (Instant{}); ok {
		*t = Instant{epoch + int64(n), true}
	}
	return err
}

// ScanBytes reads the column as every format of the protocol has it; nil is null.
func (o *Octets) ScanBytes(raw []byte) error {
	if *o = nil; raw == nil {
		return nil
	}
	*o = make([]byte, hex.DecodedLen(len(raw)))
	_, err := hex.Decode(*o, raw)
	return err
}

// Scan implements [database/sql.Scanner].
func (d *Double) Scan(src any) error { return scanText(src, d.ScanBytes) }

// Scan implements [database/sql.Scanner].
func (t *Instant) Scan(src any) error { return scanText(src, t.ScanBytes) }

// Scan implements [database/sql.Scanner].
func (o *Octets) Scan(src any) error { return scanText(src, o.ScanBytes) }

func scanText(src any, scan func([]byte) error) error {
	switch src := src.(type) {
	case nil:
		return scan(nil)
	case string:
		return scan([]byte(src))
	case []byte:
		return scan(src)
	}
	return fmt.Errorf("a column is a %T; want text", src)
}

// digits decodes 16 hexadecimal digits.
func digits(raw []byte) (n uint64, ok bool, err error) {
	if raw == nil {
		return 0, false, nil
	}
	var b [8]byte
	if len(raw) != 2*len(b) {
		return 0, false, fmt.Errorf("a column has %d bytes; want 16 hexadecimal digits", len(raw))
	}
	if _, err := hex.Decode(b[:], raw); err != nil {
		return 0, false, err
	}
	return binary.BigEndian.Uint64(b[:]), true, nil
}
