package pgtest

import (
	"strings"
	"testing"
)

// Modes are the modes of the driver in which statements go out, as default_query_exec_mode of a
// connection string takes them. In the last two, values travel as text.
var Modes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

// Distorted are settings of a session, for [With], by which the server writes times, doubles and
// bytes in unusual forms.
const Distorted = "DateStyle=SQL,%20DMY&IntervalStyle=sql_standard&TimeZone=Asia/Kathmandu&bytea_output=escape&extra_float_digits=-15"

// With returns the URL of the server with settings, such as "a=1&b=2".
func With(t testing.TB, settings string) string {
	url := URL(t)
	switch {
	case settings == "":
		return url
	case strings.Contains(url, "?"):
		return url + "&" + settings
	}
	return url + "?" + settings
}
