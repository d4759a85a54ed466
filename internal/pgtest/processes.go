package pgtest

// Process is a process of a server.
type Process struct {
	PID int
	// Title is the server's text about the process, "checkpointer" for instance, or
	// "postgres postgres 127.0.0.1(40000) idle" for one that serves a connection. The first process
	// of the server has none.
	Title string
}
