-- name: InsertNote :exec
INSERT INTO notes (tenant, body) VALUES ($1, $2);

-- name: CountNotes :one
SELECT count(*) FROM notes WHERE tenant = $1;
