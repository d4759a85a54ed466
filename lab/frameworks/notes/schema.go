// Package notes has the statements of Notes in package frameworks: sqlc has generated db.go,
// models.go and queries.sql.go from queries.sql and schema.sql.
//
//	go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.30.0 generate
package notes

import _ "embed" // for the schema

// Schema creates the table.
//
//go:embed schema.sql
var Schema string
