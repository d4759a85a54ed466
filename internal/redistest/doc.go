// Package redistest gives tests a Redis or a Redis Cluster.
//
// [Client] and [ClusterClient] share one server and one cluster per test binary. [NewServer]
// starts a server and [NewCluster] a cluster for one test alone, which may stop, start and
// configure them.
//
// A test that asks for a server gets one or fails. Only -short skips it. BRIM_TEST_REDIS chooses
// the server: a URL that starts with redis:// is that of the shared server, and any other value
// is the program to start servers with, valkey-server for instance. Without the variable, and
// for servers of a test's own, redistest takes the first of:
//
//   - redis-server or valkey-server on PATH;
//   - on Debian and its kin, as root, the package redis-server, which redistest installs.
//
// A server ends with the process that started it, even if that process is killed; see package
// supervisor.
package redistest
