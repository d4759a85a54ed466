// Package release tests a release as users get it: the modules from a proxy, outside of the
// repository.
package release
