package simulate

// The bounds that tests look at.
const (
	Chunk = chunk
	Named = named
)
