// Package itest runs brim against servers in containers.
//
// It runs every PostgreSQL version that brim supports: the migrations, the conformance suite, and
// a server that is killed under load. It runs a cluster of three primaries and three replicas, of
// Redis 6.2, 7 and 8 and of Valkey 9: the conformance suite, and a primary that is cut off by
// pausing its container.
//
// Run the tests with
//
//	make itest
//
// They need a Docker daemon, and fail without one. For each version, [image.sh] chooses the
// image: the official one if the daemon has it or can pull it, otherwise an image that the script
// builds from Debian's packages. A version for which neither works is skipped; the first and the
// last lines of the output name it and give the reason. The run fails if no version of a server
// is left. If BRIM_ITEST_ALL is set, the run fails as soon as one version has no image.
//
// testcontainers watches over its containers with a container of its own, the reaper. If that image
// cannot be pulled, the tests set TESTCONTAINERS_RYUK_DISABLED. Each test removes its container in
// any case, and "make itest" removes the containers of a test that was killed.
//
// [image.sh]: https://github.com/brimgo/brim/blob/main/lab/itest/image.sh
package itest
