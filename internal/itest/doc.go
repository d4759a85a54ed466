// Package itest runs brim against every PostgreSQL that it supports, each in a container: the migrations, the conformance
// suite, and a server that is killed under load. It is a module of its own, so that what only these tests need stays out of
// the module graph of those who use brim. It needs Docker, and fails without it:
//
//	cd internal/itest && go test -timeout 30m ./...
package itest
