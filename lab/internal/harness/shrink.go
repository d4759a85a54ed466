package harness

import "slices"

// Shrink returns a part of all, in the same order, that still fails although it can lose no
// element. It calls fails with shorter and shorter parts, at most tries times; when no try is left,
// the result is the shortest part found so far. all itself must fail.
func Shrink[T any](all []T, tries int, fails func(part []T) bool) []T {
	for size := (len(all) + 1) / 2; size > 0; {
		shorter := false
		for from := 0; from < len(all) && tries > 0; {
			part := slices.Concat(all[:from], all[min(from+size, len(all)):])
			tries--
			if fails(part) {
				all, shorter = part, true
			} else {
				from += size
			}
		}
		switch {
		case tries == 0:
			return all
		case size > 1:
			size /= 2
		case !shorter:
			return all
		}
	}
	return all
}
