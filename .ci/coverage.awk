# Reads a profile of "go test -coverprofile" and prints the coverage of each package in percent.
# A statement counts once, if the tests of any package run it. Fails if a package is below
# least, or if the profile does not hold as many packages as wanted.
/^mode:/ { next }
{
	package = $1
	sub(/\/[^\/]*$/, "", package)
	if (!($1 in size)) {
		size[$1] = $2
		total[package] += $2
	}
	if ($3 > 0 && !($1 in run)) {
		run[$1] = 1
		covered[package] += $2
	}
}
END {
	for (package in total) {
		found++
		percent = 100 * covered[package] / total[package]
		low = percent < least ? "  below " least " %" : ""
		failed = failed || low
		printf "%5.1f %%  %s%s\n", percent, package, low | "sort -k 3"
	}
	if (found != wanted) {
		print "coverage of " found + 0 " packages; want " wanted | "cat >&2"
		failed = 1
	}
	exit failed ? 1 : 0
}
