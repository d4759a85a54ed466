package pgrun

import (
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
)

// PrefixEnd returns the first text after all texts that start with prefix, or null where there is
// none. UTF-8 sorts by code point, so PrefixEnd replaces the last character of the prefix by the
// next.
func PrefixEnd(prefix string) pgtype.Text {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
			continue
		case last == 0xD7FF: // surrogates follow, which are no characters
			last = 0xDFFF
		}
		return pgtype.Text{String: prefix + string(last+1), Valid: true}
	}
	return pgtype.Text{}
}
